"""How many bytes a tensor takes, as an expression over the sizes of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapml.encodings import Encoding, check_encoding
from tapml.expressions import ExpressionError

_BYTES = {"float32": 4, "float16": 2, "int32": 4, "uint32": 4, "int8": 1, "uint8": 1, "bool": 1}
_PER_WORD = {"int8x4": 4, "uint8x4": 4, "int4x8": 8, "uint4x8": 8, "float16": 2}


def check_stored(dtype: str, encoding: Encoding | None) -> None:
    """Raise ExpressionError unless tensors of `dtype` are stored so."""
    try:
        check_encoding(encoding, dtype)
    except ValueError:
        raise ExpressionError(f"{dtype} is not stored as {encoding}") from None
    if dtype == "bool" and encoding is None:
        raise ExpressionError("bool is stored as an encoding only")


def elements_of(shape: Sequence[Any]) -> Any:
    """How many a tensor has."""
    found: Any = 1
    for extent in shape:
        found = ["mul", found, extent]
    return found


def stored_bytes(shape: Sequence[Any], dtype: str, encoding: Encoding | None) -> Any:
    """What is stored of a tensor, padded to a multiple of 4."""
    elements = elements_of(shape)
    per_word = _PER_WORD[encoding] if encoding else 4 // _BYTES[dtype]
    words = elements if per_word == 1 else ["ceildiv", elements, per_word]
    return ["mul", words, 4]


def padded(count: Any) -> Any:
    """What so many bytes take, padded to a multiple of 4."""
    return ["mul", ["ceildiv", count, 4], 4]


def bound(count: Any) -> Any:
    """What such a multiple of 4 takes in a buffer: WebGPU binds no less than 4 bytes."""
    return ["max", count, 4]
