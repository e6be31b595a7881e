"""Dtypes a browser has no buffers for, and what takes their place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.model import Array
from tapml.text import listed

SMALL = ("int8", "uint8", "int16", "uint16")
"""Integers that fit int32; kernels cannot address parts of a 32-bit word."""

_STORED = {
    **{"int64": "int32", "uint64": "uint32", "float64": "float32", "bool": "int32"},
    **dict.fromkeys(SMALL, "int32"),
}
"""WGSL has neither 64-bit numbers nor 8- and 16-bit integers, and a bool cannot live in a buffer.
"""

_LARGEST = float(np.finfo(np.float64).max)
_SENTINELS = {-(2**63), -(2**63) + 1, 2**63 - 1, 2**64 - 1, -_LARGEST, _LARGEST}
"""Numbers that mean "to the end", "nothing here" or "masked" rather than a number: they saturate."""


_LACKING = re.compile(r"bfloat16|float[468]_\w+|complex\d+|u?int[124]|qu?int\w+")
"""Dtypes that nothing stands for: other floating-point numbers, complex and quantized ones, parts of a byte."""


def stored(dtype: str) -> str:
    """The dtype that stands for `dtype` in the graph: itself where WebGPU can store it. Raises InputError where nothing
    does."""
    if lacking(dtype):
        mend = (
            "real numbers (torch.view_as_real in PyTorch)"
            if dtype.startswith("complex")
            else "float32 or float16 (model.float() in PyTorch)"
        )
        raise InputError(f"WebGPU has no {dtype}: export the model with {mend}", reason=f"WebGPU has no {dtype}")
    return _STORED.get(dtype, dtype)


def lacking(dtype: str) -> bool:
    """Whether nothing in WebGPU stands for a dtype."""
    return _LACKING.fullmatch(dtype) is not None


def narrow_array(array: Array, name: str) -> tuple[Array, str | None]:
    """`array` in its narrowed dtype, C-contiguous, and a note where a value had to change.

    Integer sentinels (the ends of the 64-bit range) and float64 values beyond float32's range at
    float64's very end (masks) saturate. Raises InputError naming `name` and the value for anything
    else that does not fit. Infinities and NaN stay as they are.
    """
    target = stored(str(array.dtype))
    if target == str(array.dtype):
        return _contiguous(array), None
    ends: Any = np.finfo(target) if array.dtype == np.float64 else np.iinfo(target)
    outside = (array < ends.min) | (array > ends.max)
    if array.dtype == np.float64:
        # Half a unit beyond the largest float32 still rounds to it.
        outside &= np.isfinite(array) & ~np.isfinite(_cast(array, target))
        advice = f"use values within +-{ends.max:.4g}"
    else:
        advice = f"use {array.dtype} only for values from {ends.min} to {ends.max}"
    if not outside.any():
        return _contiguous(_cast(array, target)), None
    values = sorted(set(array[outside].tolist()))
    for value in values:
        if value not in _SENTINELS:
            raise InputError(f"{name}: the value {value!r} does not fit {target}, the widest WebGPU has: {advice}")
    nearest = np.where(outside, np.clip(array, ends.min, ends.max), array)
    return _contiguous(_cast(nearest, target)), f"{name}: {listed(values, 3)} became the nearest {target}"


def _cast(array: Array, dtype: str) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype)


_ALIGNED = 64
_TILE = 64
"""Rows and columns of a matrix that are transposed together: their cache lines are still there when they are read
again."""


def _contiguous(array: Array) -> Array:
    if array.ndim == 2 and min(array.shape) > _TILE and not array.flags.c_contiguous:
        # Where TVM takes it as it is (weights.py, `as_tvm_holds`).
        room = np.empty(array.nbytes + _ALIGNED, np.uint8)
        begin = -room.ctypes.data % _ALIGNED
        found = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
        for row in range(0, array.shape[0], _TILE):
            for column in range(0, array.shape[1], _TILE):
                tile = slice(row, row + _TILE), slice(column, column + _TILE)
                found[tile] = array[tile]
        return found
    # np.ascontiguousarray would turn a scalar into one dimension.
    return np.asarray(array, order="C")
