"""Arrays by name as one safetensors file, with a text of tapml's: what a call of a compiled model is given and gives
over HTTP (docs/http-api.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.npy import Open
from tapml.program.graph import numpy_dtype
from tapml.protocol.base import DTYPES
from tapml.sharing.tensor_file import DTYPE_NAMES, KEY, described, read_part

_NAMES = {numpy_dtype(name): DTYPE_NAMES[name] for name in DTYPES}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def arrays_file(text: str, arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """The file's bytes in pieces. Raises InputError for an array of another dtype than tensors have here."""
    header: dict[str, object] = {"__metadata__": {KEY: text}}
    at = 0
    for name, array in arrays.items():
        if array.dtype not in _NAMES:
            raise InputError(f"{name} is {array.dtype}: give one of {', '.join(DTYPES)}")
        end = at + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    yield len(head).to_bytes(8, "little") + head
    for array in arrays.values():
        yield np.ascontiguousarray(array).tobytes()


def read_arrays(where: str, open_file: Open) -> tuple[str, dict[str, np.ndarray]]:
    """Inverse of `arrays_file`. `where` names the file in errors. Raises InputError for any other file, and a damaged
    one."""
    text, entries, start = described(where, open_file)
    arrays = {}
    for name, entry in entries.items():
        dtype = _DTYPES.get(entry.dtype) if isinstance(entry.dtype, str) else None
        shape: list[Any] = entry.shape if isinstance(entry.shape, list) else [None]
        if dtype is None or not all(type(extent) is int and 0 <= extent < 1 << 32 for extent in shape):
            raise InputError(f"{where}: {name[:100]} is {str(entry.dtype)[:100]}{str(entry.shape)[:200]}, no tensor")
        if len(shape) > 32 or math.prod(shape) * dtype.itemsize != entry.length:
            raise InputError(f"{where}: {name[:100]} has {entry.length} bytes, which its shape has not")
        array = np.empty(entry.length, np.uint8)
        at = 0
        for piece in read_part(open_file, start + entry.begin, entry.length):
            array[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        if dtype == np.bool_ and array.max(initial=0) > 1:
            raise InputError(f"{where}: {name[:100]} is of bools, and has bytes that are neither 0 nor 1")
        arrays[name] = array.view(dtype).reshape(shape)
    return text, arrays


def named_by_call(calls: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of several calls in one file: the number of the call, from 0, a slash and the name."""
    return {f"{number}/{name}": array for number, arrays in enumerate(calls) for name, array in arrays.items()}


def calls_of(arrays: Mapping[str, np.ndarray], count: int) -> list[dict[str, np.ndarray]]:
    """Inverse of `named_by_call`. Raises InputError for a name that is none of `count` calls."""
    calls: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    for named, array in arrays.items():
        number, slash, name = named.partition("/")
        if not slash or not number.isascii() or not number.isdigit() or len(number) > 4 or int(number) >= count:
            raise InputError(
                f"{named[:100]!r} is of none of {count} calls: write the number of the call, a slash, a name"
            )
        calls[int(number)][name] = array
    return calls
