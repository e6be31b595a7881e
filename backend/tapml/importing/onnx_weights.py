"""An ONNX file without its large weights, which are read from it one by one where they are needed.

protobuf reads a file whole, and has it twice while it does so. Some exporters write weights as nodes that give a
constant (Paddle's): these become weights here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from tapml.importing.model import Array
from tapml.importing.onnx_file import read

_LEAST = 1 << 16
"""Bytes of a weight that is left in the file."""

# Of onnx.proto: the numbers of fields, and of float32.
_GRAPH, _INITIALIZER, _DATA_TYPE, _NAME, _RAW_DATA, _DATA_LOCATION, _FUNCTIONS = 7, 5, 2, 8, 9, 14, 25
_NODE, _OUTPUT, _OPERATOR, _ATTRIBUTE, _DOMAIN, _TENSOR = 1, 2, 4, 5, 7, 5
_FLOAT = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class InFile:
    """The weights that are left in a file: begin and length in bytes, by name. They are float32."""

    path: Path
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """A weight's elements, in one dimension. Raises OSError."""
        begin, length = self.places[name]
        return np.fromfile(self.path, "<f4", length // 4, offset=begin)


def read_apart(path: Path) -> tuple[Any, InFile]:
    """The model of a file that `read` takes, and where the weights are that it does not hold."""
    import onnx

    places: dict[str, tuple[int, int]] = {}
    try:
        with path.open("rb") as file:
            content = b"".join(_model(file, path.stat().st_size, places))
        return (onnx.load_from_string(content), InFile(path, places)) if places else (read(path), InFile(path))
    except (OSError, _Other):
        return read(path), InFile(path)


class _Other(Exception):
    """What is better read as a whole: what no exporter writes, and functions, which have to be written out."""


@dataclass(frozen=True)
class _Field:
    number: int
    kind: int
    begin: int
    value: int
    """Where its value begins: behind its length, if it has one."""
    end: int


def _model(file: BufferedReader, size: int, places: dict[str, tuple[int, int]]) -> Iterator[bytes]:
    for found in _fields(file, 0, size):
        if found.number == _FUNCTIONS:
            raise _Other
        if found.number == _GRAPH and found.kind == _BYTES:
            yield _written(_GRAPH, b"".join(_graph(file, found, places)))
        else:
            yield _bytes(file, found.begin, found.end)


def _graph(file: BufferedReader, graph: _Field, places: dict[str, tuple[int, int]]) -> Iterator[bytes]:
    for found in _fields(file, graph.value, graph.end):
        if found.number == _INITIALIZER and found.kind == _BYTES:
            yield _written(_INITIALIZER, _tensor(file, found, places))
        elif found.number == _NODE and (constant := _constant(file, found, places)):
            yield _written(_INITIALIZER, constant)
        else:
            yield _bytes(file, found.begin, found.end)


def _tensor(file: BufferedReader, tensor: _Field, places: dict[str, tuple[int, int]]) -> bytes:
    name = _by_number(file, tensor).get(_NAME)
    left = name and _left(file, tensor, _bytes(file, name.value, name.end), places)
    return left or _bytes(file, tensor.value, tensor.end)


def _constant(file: BufferedReader, node: _Field, places: dict[str, tuple[int, int]]) -> bytes:
    """The weight that a node is which gives a large constant; empty of any other node."""
    if node.kind != _BYTES or node.end - node.value < _LEAST:
        return b""
    fields = _by_number(file, node)
    operator, domain = (
        _bytes(file, fields[number].value, fields[number].end) if number in fields else b""
        for number in (_OPERATOR, _DOMAIN)
    )
    if operator != b"Constant" or domain not in (b"", b"ai.onnx") or not {_OUTPUT, _ATTRIBUTE} <= fields.keys():
        return b""
    tensor, output = _by_number(file, fields[_ATTRIBUTE]).get(_TENSOR), fields[_OUTPUT]
    return _left(file, tensor, _bytes(file, output.value, output.end), places) if tensor else b""


def _left(file: BufferedReader, tensor: _Field, name: bytes, places: dict[str, tuple[int, int]]) -> bytes:
    """A tensor of that name without its elements, if they are left in the file; else empty."""
    by_number = _by_number(file, tensor)
    raw, kind = by_number.get(_RAW_DATA), by_number.get(_DATA_TYPE)
    if raw is None or raw.end - raw.value < _LEAST or _DATA_LOCATION in by_number:
        return b""
    if kind is None or _number(file, kind.value) != _FLOAT:
        return b""
    places[name.decode()] = (raw.value, raw.end - raw.value)
    kept = (found for found in _fields(file, tensor.value, tensor.end) if found.number not in (_NAME, _RAW_DATA))
    return b"".join([*(_bytes(file, found.begin, found.end) for found in kept), _written(_NAME, name)])


def _by_number(file: BufferedReader, message: _Field) -> dict[int, _Field]:
    return {found.number: found for found in _fields(file, message.value, message.end)}


def _fields(file: BufferedReader, begin: int, end: int) -> Iterator[_Field]:
    """Of a message that lies there. What they hold is not read."""
    while begin < end:
        tag = _number(file, begin)
        value = file.tell()
        kind = tag & 7
        if kind == _VARINT:
            _number(file, value)
            after = file.tell()
        elif kind == _BYTES:
            length = _number(file, value)
            value = file.tell()
            after = value + length
        elif kind in (_FIXED32, _FIXED64):
            after = value + (8 if kind == _FIXED64 else 4)
        else:
            raise _Other
        if after > end:
            raise _Other
        yield _Field(tag >> 3, kind, begin, value, after)
        begin = after


def _number(file: BufferedReader, place: int) -> int:
    """A varint; the file is behind it then."""
    file.seek(place)
    found = shift = 0
    while (byte := file.read(1)) and shift < 64:
        found |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return found
        shift += 7
    raise _Other


def _bytes(file: BufferedReader, begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _written(number: int, content: bytes) -> bytes:
    """A field that holds a message."""
    found = bytearray([number << 3 | _BYTES])
    length = len(content)
    while length >= 128:
        found.append(length & 127 | 128)
        length >>= 7
    found.append(length)
    return bytes(found) + content
