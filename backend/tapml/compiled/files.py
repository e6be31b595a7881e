"""A compiled model on disk: a folder, or a single file with the same in it (docs/model-format.md). Hostile until
checked: names and sizes are the document's, bytes are taken where their digest is right."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tapml.compiled.model import FORMAT, CompiledModel, Shard, aligned
from tapml.compiled.stored import widened
from tapml.compiled.verify import verify
from tapml.errors import InputError
from tapml.files import json_text, meant_beside
from tapml.folder import FileMissing, Folder
from tapml.formats import MOST_BYTES, format_version, validated
from tapml.strict_json import parse_json

MAGIC = b"TAPMLM1\n"
DOCUMENT = "model.json"
REMEDY = "; copy the model again, or build it again"
_MAKE = "`tapml build` makes one of a model or a suite"

_HEAD = len(MAGIC) + 8

_MOST_HASHED = 1 << 30
"""Bytes of weights whose digests `check` computes, in a second or two."""


class CompiledFiles:
    """A compiled model opened for reading. What it holds is well-formed; `verify` says whether it may run.

    Raises InputError for what is no compiled model, a newer version, or a field that is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._single = path.is_file()
        self._offsets: dict[str, int] = {}
        self._proven = False
        if self._single:
            place = path.resolve()  # a link that the user gave
            self._folder, self._name = Folder(place.parent), place.name
            text = self._document_of_single()
        else:
            self._folder, self._name = Folder(path), DOCUMENT
            try:
                text = self._folder.read(DOCUMENT, MOST_BYTES)
            except FileMissing:
                if path.exists():
                    raise InputError(f"{path} is no compiled model: it has no {DOCUMENT}; {_MAKE}") from None
                raise InputError(f"{path} does not exist{meant_beside(path, '.tapml') or ';'} {_MAKE}") from None
        self.model = read_model(path if self._single else path / DOCUMENT, text)
        if self._single:
            self._place_parts(len(text))

    def proven(self) -> CompiledModel:
        """The model, which may run. Raises InputError that names the file for what `verify` refuses."""
        if not self._proven:
            try:
                verify(self.model)
            except InputError as error:
                raise InputError(f"{self.path}: {error}{REMEDY}") from None
            self._proven = True
        return self.model

    @property
    def content(self) -> str:
        """Digest of the document, which names everything else by its own: that of copies is the same."""
        return hashlib.sha256(document_bytes(self.model)).hexdigest()

    @property
    def nbytes(self) -> int:
        """Of all its files."""
        return self.path.stat().st_size if self._single else self._folder.nbytes()

    def shard(self, shard: Shard) -> bytes:
        """Its bytes. Raises InputError naming its digest where they are not there, or others."""
        return self._part(f"weights/{shard.sha256}.bin", shard.sha256, shard.bytes)

    def weights(self) -> list[np.ndarray]:
        """Every weight buffer, as bytes. Raises InputError as `shard`."""
        buffers = [np.zeros(count, np.uint8) for count in self.model.weights.buffers]
        for shard in self.model.weights.shards:
            data = np.frombuffer(self.shard(shard), np.uint8)
            data = data if shard.stored is None else widened(data, shard.stored)
            buffers[shard.buffer][shard.offset : shard.offset + shard.extent] = data
        return buffers

    def check(self) -> None:
        """Is everything there, as it was built? Digests of more than 2^30 bytes of weights are not computed: who loads
        them does.

        Raises InputError naming the first part that is missing, of another size or of another digest.
        """
        for _, sentence in self.wrong_sizes():
            raise InputError(sentence)
        digests = sum(self.model.weights.buffers) <= _MOST_HASHED
        for name, sha256, count in parts_of(self.model):
            if digests or not name.startswith("weights/"):
                self._part(name, sha256, count)

    def wrong_sizes(self) -> Iterator[tuple[str, str]]:
        """Each part that is missing or has another size: its name, and a sentence. A single file has none: its size was
        checked when it was opened."""
        for name, _, count in () if self._single else parts_of(self.model):
            found = self._folder.size(name)
            if found is None:
                yield name, f"{self.path}: {name} is missing{REMEDY}"
            elif found != count:
                yield name, f"{self.path}: {name} has {found} bytes, not {count}{REMEDY}"

    def attachment(self, name: str) -> bytes:
        """The bytes of an attachment. Raises InputError where there is none, or it is damaged."""
        for found in self.model.attachments:
            if found.name == name:
                return self._part(name, found.sha256, found.bytes)
        raise InputError(f"{self.path} has no attachment {name}")

    def _part(self, name: str, sha256: str, count: int) -> bytes:
        if self._single:
            with self._folder.open(self._name) as file:
                file.seek(self._offsets[name])
                data = file.read(count)
        else:
            if (found := self._folder.size(name)) is not None and found > count:
                raise InputError(f"{self.path}: {name} has {found} bytes, not {count}{REMEDY}")
            try:
                data = self._folder.read(name, count)
            except FileMissing:
                raise InputError(f"{self.path}: {name} is missing{REMEDY}") from None
        if len(data) != count:
            raise InputError(f"{self.path}: {name} has {len(data)} bytes, not {count}{REMEDY}")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise InputError(f"{self.path}: the bytes of {name} are not those of the digest {sha256}{REMEDY}")
        return data

    def _document_of_single(self) -> bytes:
        with self._folder.open(self._name) as file:
            head = file.read(_HEAD)
            if not head.startswith(MAGIC):
                what = f"is no compiled model: it does not begin with {MAGIC.decode().strip()}"
                raise InputError(f"{self.path} {what}; {_MAKE}")
            count = int.from_bytes(head[len(MAGIC) :], "little")
            if len(head) < _HEAD or count > MOST_BYTES:
                raise InputError(f"{self.path}: a document of {count} bytes, and at most {MOST_BYTES} are read{REMEDY}")
            text = file.read(count)
            if len(text) != count:
                raise InputError(f"{self.path} ends within its document{REMEDY}")
            return text

    def _place_parts(self, length: int) -> None:
        """Where each part begins in the single file."""
        end = _HEAD + length
        for name, _, count in parts_of(self.model):
            begin = aligned(end)
            self._offsets.setdefault(name, begin)
            end = begin + count
        with self._folder.open(self._name) as file:
            size = os.fstat(file.fileno()).st_size
        if size != end:
            raise InputError(f"{self.path} has {size} bytes, and its document says {end}{REMEDY}")


def is_compiled(path: Path) -> bool:
    """Does it look like a compiled model, folder or file? What it holds is not read."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            return (path / DOCUMENT).is_file()
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
    return False


def read_model(where: Path | str, text: bytes) -> CompiledModel:
    """`model.json`, whatever it lies in. Raises InputError naming `where` and the first field that is wrong."""
    document = parse_json(text, where, REMEDY.removeprefix("; "))
    format_version(where, document, FORMAT, "a compiled model")
    return validated(where, CompiledModel, document, REMEDY)


def document_bytes(model: CompiledModel) -> bytes:
    """`model.json`. What has its default is left out."""
    return f"{json_text(document_of(model), indent=None)}\n".encode()


def document_of(model: CompiledModel) -> dict[str, Any]:
    """As JSON has it."""
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def parts_of(model: CompiledModel) -> Iterator[tuple[str, str, int]]:
    """Name, digest and bytes of what lies beside the document, in the order of a single file."""
    for shard in model.weights.shards:
        yield f"weights/{shard.sha256}.bin", shard.sha256, shard.bytes
    for attachment in model.attachments:
        yield attachment.name, attachment.sha256, attachment.bytes


def write_folder(path: Path, model: CompiledModel, part: Callable[[str], bytes]) -> None:
    """Write a model into an empty folder, the document last; `part` gives the bytes of each name of `parts_of`.

    Raises OSError.
    """
    folder = Folder(path)
    for name in dict.fromkeys(name for name, _, _ in parts_of(model)):
        folder.write(name, part(name))
    folder.write(DOCUMENT, document_bytes(model))


def single_pieces(model: CompiledModel, part: Callable[[str], bytes]) -> Iterator[bytes]:
    """A single file, piece by piece."""
    text = document_bytes(model)
    yield MAGIC + len(text).to_bytes(8, "little") + text
    end = _HEAD + len(text)
    for name, _, count in parts_of(model):
        yield bytes(aligned(end) - end)
        yield part(name)
        end = aligned(end) + count
