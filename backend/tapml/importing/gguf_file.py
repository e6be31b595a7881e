"""What a GGUF file says it has, checked against its size before anybody believes it: without PyTorch, and without a
look at the tensors' numbers."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError, ToolchainError
from tapml.text import listed

_SUFFIX = ".gguf"

_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of values, by their number: how `struct` reads them."""

_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4
_MOST_ALIGNMENT = 1 << 16
_AGAIN = "it was cut short or damaged: get it again"


@dataclass(frozen=True)
class GgufFile:
    path: Path
    metadata: Mapping[str, Any]
    """Of arrays only their lengths."""
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]
    """By name: type, and shape with the axis that lies together last."""

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])


def gguf_in(path: Path) -> Path | None:
    """The GGUF file that is meant: `path`, or the only one of a folder. Raises InputError where there are several."""
    if not path.is_dir():
        return path if path.suffix.lower() == _SUFFIX else None
    found = sorted(one for one in path.iterdir() if one.suffix.lower() == _SUFFIX)
    if len(found) > 1:
        raise InputError(f"{path} has several GGUF files ({listed([one.name for one in found], 8)}): give one of them")
    return found[0] if found else None


def read_gguf(path: Path) -> GgufFile:
    """Raises InputError for a file that is damaged, cut short, or has tensors of a type that nobody reads here, naming
    the tensor; ToolchainError without the package gguf."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(path, content).read()
    except (OSError, ValueError) as error:  # an empty file has no map
        raise InputError(f"{path} cannot be read as a GGUF file: {error}") from error


class _Reader:
    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._path = path
        self._content = content
        self._size = len(content)
        self._at = 0

    def read(self) -> GgufFile:
        if self._size < 24 or self._content[:4] != b"GGUF":
            raise InputError(f"{self._path} is no GGUF file: it does not begin with GGUF")
        self._at = 4
        version, tensors, values = self._unpacked("IQQ", "its header")
        if version not in _VERSIONS:
            big = int.from_bytes(int(version).to_bytes(4, "little"), "big") in _VERSIONS
            what = "of a big-endian machine" if big else f"of version {version}"
            raise InputError(f"{self._path} is a GGUF file {what}: versions 2 and 3 are read, little-endian")
        # The least that one of them takes.
        for count, least, what in ((values, 13, "values"), (tensors, 24, "tensors")):
            if count * least > self._size:
                raise InputError(f"{self._path} says that it has {count} {what}, more than fit in it: {_AGAIN}")
        metadata: dict[str, Any] = {}
        for number in range(values):
            key = self._text(f"the name of value {number}")
            if key in metadata:
                raise InputError(f"{self._path} has the value {key} twice: {_AGAIN}")
            metadata[key] = self._value(key)
        if not isinstance(metadata.get("general.architecture"), str):
            raise InputError(f"{self._path} names no general.architecture: it is no language model of llama.cpp's")
        if metadata.get("split.count", 1) not in (0, 1):
            raise InputError(
                f"{self._path} is one of {metadata['split.count']} parts: put them together (llama-gguf-split --merge)"
            )
        return GgufFile(self._path, metadata, self._tensors(tensors, metadata))

    def _tensors(self, count: int, metadata: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
        found: dict[str, tuple[str, tuple[int, ...]]] = {}
        ends = {}
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
            raise InputError(f"{self._path} aligns tensors to {alignment} bytes, which is no power of two: {_AGAIN}")
        sizes = _types()
        for number in range(count):
            name = self._text(f"the name of tensor {number}")
            if name in found:
                raise InputError(f"{self._path} has the tensor {name} twice: {_AGAIN}")
            (rank,) = self._unpacked("I", f"the shape of {name}")
            if not 1 <= rank <= _MOST_DIMENSIONS:
                raise InputError(f"{self._path}: the tensor {name} has {rank} dimensions, not 1 to 4: {_AGAIN}")
            *axes, kind, offset = self._unpacked(f"{rank}QIQ", f"the shape of {name}")
            shape = tuple(reversed(axes))
            if kind not in sizes:
                known = ", ".join(type_name for type_name, _, _ in sizes.values())
                raise InputError(
                    f"{self._path}: the tensor {name} is of the type {_type_name(kind)}, which is not read: convert "
                    f"the model to another ({known})"
                )
            type_name, block, nbytes = sizes[kind]
            if min(shape) < 1 or shape[-1] % block:
                raise InputError(
                    f"{self._path}: the tensor {name} of type {type_name} is {list(shape)}, no rows of whole blocks of "
                    f"{block}: {_AGAIN}"
                )
            if offset % alignment:
                raise InputError(f"{self._path}: the tensor {name} begins at no multiple of {alignment}: {_AGAIN}")
            found[name] = type_name, shape
            ends[name] = offset + math.prod(shape) // block * nbytes
        begin = -(-self._at // alignment) * alignment
        for name, end in ends.items():
            if begin + end > self._size:
                raise InputError(
                    f"{self._path} ends before the tensor {name} does ({self._size} bytes of {begin + end}): {_AGAIN}"
                )
        return found

    def _value(self, key: str) -> Any:
        (kind,) = self._unpacked("I", key)
        if kind == _STRING:
            return self._text(key)
        if kind != _ARRAY:
            (value,) = self._unpacked(self._scalar(kind, key), key)
            return value
        kind, count = self._unpacked("IQ", key)
        if kind == _STRING:
            for number in range(self._fitting(count, 8, key)):
                self._text(f"{key}[{number}]")
        else:
            width = struct.calcsize(f"<{self._scalar(kind, key)}")
            self._at += width * self._fitting(count, width, key)
        return int(count)

    def _scalar(self, kind: int, key: str) -> str:
        if kind not in _SCALARS:
            raise InputError(f"{self._path}: the value {key} is of the type {kind}, which GGUF has not: {_AGAIN}")
        return _SCALARS[kind]

    def _fitting(self, count: int, least: int, what: str) -> int:
        if count * least > self._size - self._at:
            raise InputError(f"{self._path} ends within {what}: {_AGAIN}")
        return count

    def _text(self, what: str) -> str:
        (length,) = self._unpacked("Q", what)
        begin, self._at = self._at, self._at + self._fitting(length, 1, what)
        try:
            return self._content[begin : self._at].decode()
        except UnicodeDecodeError:
            raise InputError(f"{self._path}: {what} is no UTF-8 text: {_AGAIN}") from None

    def _unpacked(self, form: str, what: str) -> tuple[Any, ...]:
        width = self._fitting(struct.calcsize(f"<{form}"), 1, what)
        found = struct.unpack_from(f"<{form}", self._content, self._at)
        self._at += width
        return found


def _types() -> dict[int, tuple[str, int, int]]:
    """By its number, each type that the package gguf makes float32 of: name, elements of a block, bytes of one."""
    gguf = required()
    found = {}
    for kind, (block, nbytes) in gguf.GGML_QUANT_SIZES.items():
        try:
            gguf.dequantize(np.zeros((1, nbytes), np.uint8), kind)
        except NotImplementedError:
            continue
        found[int(kind)] = kind.name, block, nbytes
    return found


def _type_name(kind: int) -> str:
    try:
        return str(required().GGMLQuantizationType(kind).name)
    except ValueError:
        return f"number {kind}"


def required() -> Any:
    """The package gguf. Raises ToolchainError where it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise ToolchainError("reading GGUF files needs gguf: pip install 'tapml[transformers]', or gguf") from error
    return gguf
