"""Tensors as files named by the SHA-256 of their bytes: each stored once, however often it is used."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.files import sha256, write_bytes, write_pieces
from tapml.graph import TensorType
from tapml.graph.model import numpy_dtype

DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20


@dataclass(frozen=True)
class TensorRef:
    """A tensor's bytes (by digest) with dtype and shape; little-endian, dense, row-major."""

    digest: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def to_json(self) -> dict[str, Any]:
        return {"digest": self.digest, "dtype": self.dtype, "shape": list(self.shape)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> TensorRef:
        digest = document["digest"]
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise InputError(f"{digest!r} is no SHA-256 digest")
        return TensorRef(digest, str(document["dtype"]), tuple(int(d) for d in document["shape"]))


class TensorStore:
    """`tensors/<first two digits>/<digest>.bin` below a suite's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Where the bytes of `digest` are. Raises InputError for anything that is no digest (a path, say)."""
        if not DIGEST.fullmatch(digest):
            raise InputError(f"{digest!r} is no SHA-256 digest")
        return self.folder / digest[:2] / f"{digest}.bin"

    def put(self, array: np.ndarray) -> TensorRef:
        """Store an array (once) and give its reference."""
        dense = np.ascontiguousarray(array)
        if dense.dtype.byteorder == ">":
            dense = dense.astype(dense.dtype.newbyteorder("<"))
        data = dense.reshape(-1).view(np.uint8).data
        digest = sha256(data)
        path = self.path(digest)
        if not path.exists():
            write_bytes(path, data)
        return TensorRef(digest, str(dense.dtype), tuple(array.shape))

    def put_pieces(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Store (once) what comes in pieces. Raises InputError where the bytes are not those of `digest`."""
        path = self.path(digest)
        if path.exists():
            return
        found = hashlib.sha256()

        def checked() -> Iterator[bytes]:
            for piece in pieces:
                found.update(piece)
                yield piece
            if found.hexdigest() != digest:
                raise InputError(f"tensor {digest} was changed while it was read: try again")

        write_pieces(path, checked())

    def pieces(self, digest: str) -> Iterator[bytes]:
        """A tensor's bytes piece by piece, not checked. Raises InputError where it is missing."""
        path = self.path(digest)
        try:
            with path.open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece
        except OSError as error:
            raise InputError(_missing(path, digest)) from error

    def get(self, ref: TensorRef) -> np.ndarray:
        """The tensor, checked against its digest. Raises InputError naming a missing or damaged file."""
        path = self.path(ref.digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(_missing(path, ref.digest)) from error
        if sha256(data) != ref.digest or len(data) != ref.type.nbytes:
            raise InputError(_damaged(path, ref.digest))
        return np.frombuffer(data, numpy_dtype(ref.dtype)).reshape(ref.shape)

    def verify(self, digest: str) -> None:
        """Read a tensor's file once, in pieces; raise InputError unless its bytes are what the digest says."""
        path = self.path(digest)
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(_missing(path, digest)) from error
        if found != digest:
            raise InputError(_damaged(path, digest))


def _missing(path: Path, digest: str) -> str:
    return f"tensor {digest} is missing ({path}): copy the suite again, or carve it again"


def _damaged(path: Path, digest: str) -> str:
    return f"tensor {digest} is corrupted ({path} holds other bytes): copy the suite again, or carve it again"
