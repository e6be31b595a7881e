"""Tensors as files named by the SHA-256 of their bytes: each stored once, however often it is used.

Versions of a state share what is the same in them (parts.py).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from tapml.encodings import Encoding
from tapml.errors import InputError
from tapml.files import sha256
from tapml.folder import FileInside, FileMissing, Folder
from tapml.program import TensorType
from tapml.protocol.fields import RefDocument
from tapml.suite.parts import InParts, parts_text, read_parts, shared_rows

DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class TensorRef:
    """A tensor's stored bytes (by digest) with what it is; little-endian, dense, row-major."""

    digest: str
    dtype: str
    shape: tuple[int, ...]
    encoding: Encoding | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype, self.encoding)

    def to_json(self) -> RefDocument:
        return cast(RefDocument, {"digest": self.digest, **self.type.to_json()})

    @staticmethod
    def from_json(document: RefDocument) -> TensorRef:
        """Of what was checked by type."""
        return TensorRef(document["digest"], document["dtype"], tuple(document["shape"]), document.get("encoding"))


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TensorStore:
    """`tensors/<first two digits>/<digest>.bin` below a suite's folder, or the same with `.json` for a tensor in parts;
    nothing but regular files there is used."""

    def __init__(self, folder: Path, *, unseen: bool = False) -> None:
        """`folder`: the suite's `tensors`, which must not be a link to elsewhere. `unseen`: of a suite that is being
        written, in a temporary folder that goes with its writer: what is half written there is found by nobody."""
        self.folder = folder
        self._unseen = unseen
        self._suite = Folder(folder.parent)
        self._verified: set[tuple[int | str, ...]] = set()
        self._in_parts: set[str] = set()

    def path(self, digest: str) -> Path:
        """Where the bytes of `digest` are. Raises InputError for anything that is no digest (a path, say)."""
        return self.folder.parent / self._name(digest)

    @property
    def in_parts(self) -> bool:
        """Whether any tensor was stored in parts, by this object."""
        return bool(self._in_parts)

    def _name(self, digest: str, ending: str = "bin") -> str:
        if not DIGEST.fullmatch(digest):
            raise InputError(f"{digest[:100]!r} is no SHA-256 digest")
        return f"{self.folder.name}/{digest[:2]}/{digest}.{ending}"

    def put(self, array: np.ndarray, encoding: Encoding | None = None) -> TensorRef:
        """Store an array (once) and give its reference. Raises OSError where it cannot be written, and InputError for
        an element that `encoding` cannot hold."""
        tensor, stored = _stored(array, encoding)
        return TensorRef(self._put(stored), tensor.dtype, tensor.shape, encoding)

    def put_versions(self, arrays: Sequence[np.ndarray], encoding: Encoding | None = None) -> list[TensorRef]:
        """Store what one tensor was at one time after another, and give their references: rows that several of them
        have are stored once, and those of zeros not at all. Raises as `put`."""
        made = [_stored(array, encoding) for array in arrays]
        refs = [TensorRef(sha256(_bytes(found)), tensor.dtype, tensor.shape, encoding) for tensor, found in made]
        distinct = {ref.digest: stored for ref, (_, stored) in zip(refs, made, strict=True)}
        found = shared_rows(list(distinct.values()))
        if found is not None:
            rows, parts = found
            texts = [parts_text(sha256(rows), ranges) for ranges in parts]
            if len(rows) + sum(map(len, texts)) < sum(stored.nbytes for stored in distinct.values()):
                self._put(np.frombuffer(rows, np.uint8))
                for digest, text in zip(distinct, texts, strict=True):
                    if not self._has(digest):
                        self._suite.write(self._name(digest, "json"), text)
                        self._in_parts.add(digest)
        for digest, stored in distinct.items():
            if digest not in self._in_parts:
                self._put(stored)
        return refs

    def _put(self, stored: np.ndarray) -> str:
        data = _bytes(stored)
        digest = sha256(data)
        name = self._name(digest)
        if digest in self._in_parts or (self._unseen and self._created(name, data)):
            return digest
        if self._suite.size(name) != data.nbytes:
            self._suite.write(name, data)
        return digest

    def _created(self, name: str, data: memoryview) -> bool:
        """Write a new file where it is to lie: locking, renaming and the way down take ten times as long, of a thousand
        tensors as long as their bounds. False where there is one: of another thread's or process's, whole or not."""
        path = self.folder.parent / name
        try:
            handle = os.open(path, _NEW, 0o666)
        except FileExistsError:
            return False
        except FileNotFoundError:
            self._suite.make(name.rpartition("/")[0])
            return self._created(name, data)
        with os.fdopen(handle, "wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]
        return True

    def _has(self, digest: str) -> bool:
        return any(self._suite.size(self._name(digest, ending)) is not None for ending in ("bin", "json"))

    def put_pieces(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Store (once) what comes in pieces. Raises InputError where its bytes are others, and OSError."""
        name = self._name(digest)
        if self._has(digest):
            return
        found = hashlib.sha256()

        def checked() -> Iterator[bytes]:
            for piece in pieces:
                found.update(piece)
                yield piece
            if found.hexdigest() != digest:
                raise InputError(f"tensor {digest} was changed while it was read: try again")

        self._suite.write_pieces(name, checked())

    def pieces(self, digest: str) -> Iterator[bytes]:
        """A tensor's bytes piece by piece, not checked. Raises InputError where it is missing or no regular file."""
        yield from self._found(digest).pieces()

    def get(self, ref: TensorRef) -> np.ndarray:
        """The tensor, checked against its digest. Raises InputError naming a missing or damaged file."""
        pieces, left = [], ref.type.nbytes
        for piece in self._of(ref).pieces():
            pieces.append(piece)
            if (left := left - len(piece)) < 0:  # it grows while it is read
                break
        data = b"".join(pieces)
        if sha256(data) != ref.digest or len(data) != ref.type.nbytes:
            raise self._damaged(ref)
        return ref.type.decoded(data)

    def verify(self, ref: TensorRef) -> None:
        """Read a tensor's file once, in pieces; raise InputError unless its bytes are what the digest says, and as many
        as dtype and shape take. A file that was found right, and is the same since, is not read again."""
        stored = self._of(ref)
        version: tuple[int | str, ...] = (ref.digest, *stored.version())
        if version in self._verified:
            return
        found = hashlib.sha256()
        for piece in stored.pieces():
            found.update(piece)
        if found.hexdigest() != ref.digest:
            raise self._damaged(ref)
        self._verified.add(version)

    def find(self, digest: str) -> FileInside | InParts | None:
        """What is stored of `digest`, to be served; None where there is none. Raises InputError for a damaged one."""
        plain = FileInside(self._suite, self._name(digest))
        if plain.size is not None:
            return plain
        try:
            return read_parts(self._suite, self._name(digest, "json"), self._name)
        except FileMissing:
            return None

    def _found(self, digest: str) -> FileInside | InParts:
        if (found := self.find(digest)) is not None:
            return found
        plain = FileInside(self._suite, self._name(digest))
        try:
            plain.open().close()  # what is wrong with it
        except FileMissing as error:
            raise self._missing(digest) from error
        return plain

    def _of(self, ref: TensorRef) -> FileInside | InParts:
        """It has as many bytes as the reference says: a file without end is never read."""
        try:
            found = self._found(ref.digest)
        except InputError as error:
            raise error if isinstance(error, FileMissing) else InputError(f"tensor {ref.digest}: {error}") from error
        if found.size != ref.type.nbytes:
            raise self._damaged(ref)
        return found

    def _missing(self, digest: str) -> FileMissing:
        return FileMissing(f"tensor {digest} is missing ({self.path(digest)}): copy the suite again, or carve it again")

    def _damaged(self, ref: TensorRef) -> InputError:
        place = f"{self.path(ref.digest)} holds other bytes"
        return InputError(f"tensor {ref.digest} is corrupted ({place}): copy the suite again, or carve it again")


def _stored(array: np.ndarray, encoding: Encoding | None) -> tuple[TensorType, np.ndarray]:
    """What the array is, and what is stored of it: dense and little-endian. Raises InputError as `put`."""
    dense = np.ascontiguousarray(array)
    if dense.dtype.byteorder == ">":
        dense = dense.astype(dense.dtype.newbyteorder("<"))
    tensor = TensorType(tuple(array.shape), str(dense.dtype), encoding)
    return tensor, tensor.encoded(dense)


def _bytes(stored: np.ndarray) -> memoryview:
    return np.ascontiguousarray(stored).reshape(-1).view(np.uint8).data
