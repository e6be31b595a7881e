"""How elements lie in memory where that is not one by one, as their dtype says (docs/suite-format.md, "Encodings").

A tensor is what it holds: `int8[5, 3]`. Its encoding says how that is stored, as kernels see it: `int8x4` as four 8-bit
numbers to a word of 32 bits. The runner has the same (runner_js/src/program/dtypes.ts), and
tests/vectors/encodings.json holds both to the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from typing_extensions import TypeAliasType

Encoding = TypeAliasType("Encoding", Literal["int8x4", "uint8x4", "int4x8", "uint4x8", "float16"])
"""int8x4 and the like: integers of so many bits, so many to a word of 32 bits, element 0 in the lowest bits; what is
left of the last word is 0. float16: one by one."""

_PACKED = {"int8x4": (8, True), "uint8x4": (8, False), "int4x8": (4, True), "uint4x8": (4, False)}
"""Bits of an element, and whether one of them is a sign."""

_HOLDS = {**dict.fromkeys(_PACKED, ("bool", "int8", "uint8", "int32", "uint32")), "float16": ("float16", "float32")}


def check_encoding(encoding: str | None, dtype: str) -> None:
    """Raise ValueError unless `encoding` stores tensors of `dtype`."""
    if encoding is not None and dtype not in _HOLDS[encoding]:
        raise ValueError(f"a tensor of {dtype} is not stored as {encoding}, which holds {', '.join(_HOLDS[encoding])}")


def stored(shape: Sequence[int], dtype: str, encoding: str | None) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of what lies in memory."""
    if encoding in _PACKED:
        return (-(-math.prod(shape) * _PACKED[encoding][0] // 32),), "uint32"
    return tuple(shape), encoding or dtype


def encoded(array: np.ndarray, encoding: str | None) -> np.ndarray:
    """What is stored of `array`: of the shape and dtype that `stored` says.

    Raises ValueError for an element that the encoding cannot hold: nothing is rounded in silence.
    """
    if encoding is None:
        return array
    if encoding in _PACKED:
        bits, _ = _PACKED[encoding]
        codes: np.ndarray = np.zeros(-(-array.size * bits // 32) * 32 // bits, np.uint8)
        codes[: array.size] = array.reshape(-1).astype(np.uint8)
        if bits == 4:
            codes = (codes[0::2] & 15) | (codes[1::2] << 4)
        words: np.ndarray = codes.view(np.uint32)
    else:
        with np.errstate(over="ignore"):
            words = array.astype(np.float16)
    lost = decoded(words, array.shape, array.dtype, encoding) != array
    if (lost := lost & (array == array)).any():  # NaN is another one, and NaN still
        raise ValueError(f"{array[lost][0]} is no element of a tensor stored as {encoding}: choose another encoding")
    return words


def held(array: np.ndarray, encoding: str | None) -> np.ndarray:
    """The finite floats of an array rounded to what the encoding holds, at most its largest; integers as they are."""
    if encoding != "float16":
        return array
    most = float(np.finfo(np.float16).max)
    with np.errstate(invalid="ignore"):
        made = np.clip(array, -most, most).astype(np.float16).astype(array.dtype)
    return np.where(np.isfinite(array), made, array)


def decoded(words: np.ndarray, shape: Sequence[int], dtype: np.dtype[Any], encoding: str | None) -> np.ndarray:
    """The tensor of which `words` are stored."""
    if encoding in _PACKED:
        bits, signed = _PACKED[encoding]
        codes: np.ndarray = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
        if bits == 4:
            codes = np.stack((codes & 15, codes >> 4), axis=1).reshape(-1)
            codes = (codes ^ 8) - 8 if signed else codes
        words = codes[: math.prod(shape)].view(np.int8 if signed else np.uint8)
    return words.astype(dtype, copy=False).reshape(shape)
