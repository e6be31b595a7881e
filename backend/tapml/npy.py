"""numpy's files (.npy, .npz) of strangers: judged by what they say and how long they are before an array is made."""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.lib import format as npy_format

from tapml.text import exact_size

MOST_BYTES = 1 << 30
"""Of all arrays of one file."""

MOST_PACKED_BYTES = 256 << 20
"""Of all arrays of one file that are compressed: a file of 6 MB could hold 6 GB of zeros."""

# numpy's own limit for headers, which it evaluates as Python literals.
_MOST_HEADER = 10_000
_MOST_DIRECTORY = 1 << 20
_PIECE = 1 << 20

Open: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]
"""Opens a file anew, at its beginning."""

_OF_ONE_BYTE = (
    "numpy does not say in it which numbers of one byte its elements are (float8 has several kinds): save them as "
    "float32, or in a .safetensors file"
)

_LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}


def opening(path: Path) -> Open:
    """For a file that lies at `path`."""
    return lambda: path.open("rb")


@dataclass(frozen=True)
class Header:
    """What a .npy says of its array; `start` bytes of the file come before the elements."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def read_header(file: IO[bytes]) -> Header:
    """Read up to the first element. Raises ValueError for what holds no dense array of plain numbers."""
    magic = file.read(npy_format.MAGIC_LEN)
    length_bytes = _LENGTH_BYTES.get(npy_format.read_magic(io.BytesIO(magic)))
    if length_bytes is None:
        raise ValueError("its version of the .npy format is unknown")
    length = file.read(length_bytes)
    size = int.from_bytes(length, "little")
    if size > _MOST_HEADER:
        raise ValueError(f"its header has {size} bytes, more than {_MOST_HEADER}")
    text = length + file.read(size)
    # Version 3 is version 2 with other letters in the names of fields, which no tensor has.
    reader = npy_format.read_array_header_1_0 if length_bytes == 2 else npy_format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = reader(io.BytesIO(text), max_header_size=_MOST_HEADER)
    except Exception as error:  # what its evaluation may raise is not told: MemoryError and SyntaxError are among it
        # numpy writes one kind of float8 so, and cannot read it again.
        raise ValueError(_OF_ONE_BYTE if b"'<f1'" in text else "its header cannot be read") from error
    # A bool is an int to numpy, and -1 an extent.
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"its shape is {str(shape)[:100]}")
    if dtype.str == "|V2" and not dtype.names and not dtype.subdtype:
        # What numpy writes for bfloat16, which is the one dtype of two bytes that it does not know.
        dtype = np.dtype(ml_dtypes.bfloat16)
    elif dtype.str == "|V1" and not dtype.names and not dtype.subdtype:
        raise ValueError(_OF_ONE_BYTE)
    elif dtype.kind not in "biufc" or dtype.hasobject:
        raise ValueError(f"its elements are {str(dtype)[:100]}, no plain numbers")
    nonzero = math.prod(extent for extent in shape if extent)
    if len(shape) > 32 or nonzero * dtype.itemsize > MOST_BYTES:
        raise ValueError(f"it says that it is {dtype}{str(list(shape))[:200]}, more than {exact_size(MOST_BYTES)}")
    return Header(dtype, shape, bool(fortran_order), npy_format.MAGIC_LEN + len(text))


def open_npy(open_file: Open) -> tuple[Header, Iterator[bytes]]:
    """The header of a file and its elements in pieces: little-endian, row-major. Raises ValueError and what `open_file`
    raises, also while the pieces are read.
    """
    with open_file() as file:
        header = read_header(file)
        found = os.fstat(file.fileno()).st_size - header.start
    _check_length(header, found)
    return header, _pieces(open_file, header)


def _pieces(open_file: Open, header: Header) -> Iterator[bytes]:
    with open_file() as file:
        if _plain(header):
            yield from in_pieces(file, header.start, header.nbytes)
        else:
            file.seek(header.start)
            yield _elements(file, header).tobytes()


def in_pieces(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    """That part of a file; less where it ends before."""
    file.seek(start)
    while length and (piece := file.read(min(length, _PIECE))):
        length -= len(piece)
        yield piece


def _plain(header: Header) -> bool:
    """The bytes in the file are those of the row-major little-endian array."""
    return header.dtype.byteorder != ">" and not (header.fortran_order and len(header.shape) > 1)


def _check_length(header: Header, found: int) -> None:
    if found != header.nbytes:
        raise ValueError(f"it says that it is {header}, which is {header.nbytes} bytes, and holds {found}")


def _elements(file: IO[bytes], header: Header) -> np.ndarray:
    """The array, row-major and of the machine's byte order. Raises ValueError where the file ends early."""
    data, at = np.empty(header.nbytes, np.uint8), 0
    for piece in in_pieces(file, file.tell(), data.size):
        data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    if at < data.size:
        raise ValueError(f"it ends after {at} of {data.size} bytes")
    array = data.view(header.dtype).reshape(header.shape, order="F" if header.fortran_order else "C")
    return np.ascontiguousarray(array, header.dtype.newbyteorder("=")).reshape(header.shape)


def read_npy(path: Path) -> np.ndarray:
    """The one array of a file. Raises ValueError for anything else, OSError where it cannot be read."""
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise ValueError("it holds several arrays: give it as an input file")
        file.seek(0)
        header = read_header(file)
        _check_length(header, os.fstat(file.fileno()).st_size - header.start)
        return _elements(file, header)


class _Limited(io.BufferedReader):
    """zipfile reads the list of contents in one go, however long it says that this is."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_DIRECTORY:
            raise zipfile.BadZipFile(f"its list of contents is {size} bytes long")
        return super().read(size)


class Archive:
    """The arrays of a .npz by name: `headers` says what they are, `read` gives one."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Raises ValueError where a member is no array, stands twice, is encrypted or not as long as it says, or all
        together are more than MOST_BYTES, or MOST_PACKED_BYTES of those that are compressed.
        """
        self._archive = archive
        self.headers: dict[str, Header] = {}
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in self.headers:
                raise ValueError(f"{name!r} stands twice in it")
            try:
                self.headers[name] = self._header(member)
            except ValueError as error:
                raise ValueError(f"{name!r}: {error}") from error
            self._members[name] = member
        total = sum(header.nbytes for header in self.headers.values())
        if total > MOST_BYTES:
            raise ValueError(f"its arrays are {total} bytes, more than {exact_size(MOST_BYTES)}")
        packed = sum(
            header.nbytes
            for name, header in self.headers.items()
            if self._members[name].compress_type != zipfile.ZIP_STORED
        )
        if packed > MOST_PACKED_BYTES:
            raise ValueError(
                f"its compressed arrays are {packed} bytes, more than {exact_size(MOST_PACKED_BYTES)}: save it with "
                "np.savez instead of np.savez_compressed"
            )

    def _header(self, member: zipfile.ZipInfo) -> Header:
        if member.flag_bits & 1:
            raise ValueError("it is encrypted")
        # Others than numpy's two may take gigabytes to unpack a few bytes.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("numpy compresses otherwise")
        with self._archive.open(member) as file:
            header = read_header(file)
        _check_length(header, member.file_size - header.start)
        return header

    def read(self, name: str) -> np.ndarray:
        """Raises ValueError where it is damaged."""
        with self._archive.open(self._members[name]) as file:
            array = _elements(file, read_header(file))
            if file.read(1):  # also checks its CRC
                raise ValueError(f"{name!r} goes on behind its end")
        return array


@contextmanager
def open_npz(path: Path) -> Iterator[Archive]:
    """Raises ValueError for anything else, inside the `with` block too; OSError where it cannot be read."""
    try:
        with _Limited(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            yield Archive(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
