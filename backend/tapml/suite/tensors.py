"""Tensors as files named by the SHA-256 of their bytes: each stored once, however often it is used."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import cast

import numpy as np

from tapml.encodings import Encoding
from tapml.errors import InputError
from tapml.files import sha256
from tapml.folder import FileInside, FileMissing, Folder
from tapml.program import TensorType
from tapml.protocol.fields import RefDocument

DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20


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


class TensorStore:
    """`tensors/<first two digits>/<digest>.bin` below a suite's folder; nothing but regular files there is used."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the suite's `tensors`, which must not be a link to elsewhere."""
        self.folder = folder
        self._suite = Folder(folder.parent)
        self._verified: set[tuple[str, int, int, int]] = set()

    def path(self, digest: str) -> Path:
        """Where the bytes of `digest` are. Raises InputError for anything that is no digest (a path, say)."""
        return self.folder.parent / self._name(digest)

    def _name(self, digest: str) -> str:
        if not DIGEST.fullmatch(digest):
            raise InputError(f"{digest[:100]!r} is no SHA-256 digest")
        return f"{self.folder.name}/{digest[:2]}/{digest}.bin"

    def put(self, array: np.ndarray, encoding: Encoding | None = None) -> TensorRef:
        """Store an array (once) and give its reference. Raises OSError where it cannot be written, and InputError for
        an element that `encoding` cannot hold."""
        dense = np.ascontiguousarray(array)
        if dense.dtype.byteorder == ">":
            dense = dense.astype(dense.dtype.newbyteorder("<"))
        tensor = TensorType(tuple(array.shape), str(dense.dtype), encoding)
        data = tensor.encoded(dense).reshape(-1).view(np.uint8).data
        digest = sha256(data)
        name = self._name(digest)
        if self._suite.size(name) != data.nbytes:
            self._suite.write(name, data)
        return TensorRef(digest, tensor.dtype, tensor.shape, encoding)

    def put_pieces(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Store (once) what comes in pieces. Raises InputError where its bytes are others, and OSError."""
        name = self._name(digest)
        if self._suite.size(name) is not None:
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
        try:
            with self._suite.open(self._name(digest)) as file:
                while piece := file.read(_PIECE):
                    yield piece
        except FileMissing as error:
            raise self._missing(digest) from error

    def get(self, ref: TensorRef) -> np.ndarray:
        """The tensor, checked against its digest. Raises InputError naming a missing or damaged file."""
        with self._open(ref) as file:
            data = file.read(ref.type.nbytes + 1)
        if sha256(data) != ref.digest or len(data) != ref.type.nbytes:
            raise self._damaged(ref)
        return ref.type.decoded(data)

    def verify(self, ref: TensorRef) -> None:
        """Read a tensor's file once, in pieces; raise InputError unless its bytes are what the digest says, and as many
        as dtype and shape take. A file that was found right, and is the same since, is not read again."""
        with self._open(ref) as file:
            stat = os.fstat(file.fileno())
            version = (ref.digest, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
            if version in self._verified:
                return
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != ref.digest:
            raise self._damaged(ref)
        self._verified.add(version)

    def find(self, digest: str) -> FileInside | None:
        """The file of `digest`, to be served as it is; None where there is none."""
        found = FileInside(self._suite, self._name(digest))
        return found if found.size is not None else None

    def _open(self, ref: TensorRef) -> BufferedReader:
        """The file, which has as many bytes as the reference says: a file without end is never read."""
        try:
            file = self._suite.open(self._name(ref.digest))
        except FileMissing as error:
            raise self._missing(ref.digest) from error
        except InputError as error:
            raise InputError(f"tensor {ref.digest}: {error}") from error
        if os.fstat(file.fileno()).st_size != ref.type.nbytes:
            file.close()
            raise self._damaged(ref)
        return file

    def _missing(self, digest: str) -> InputError:
        return InputError(f"tensor {digest} is missing ({self.path(digest)}): copy the suite again, or carve it again")

    def _damaged(self, ref: TensorRef) -> InputError:
        place = f"{self.path(ref.digest)} holds other bytes"
        return InputError(f"tensor {ref.digest} is corrupted ({place}): copy the suite again, or carve it again")
