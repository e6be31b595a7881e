"""Dtypes a browser has no buffers for, and what takes their place."""

from __future__ import annotations

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

_SENTINELS = {-(2**63), -(2**63) + 1, 2**63 - 1, 2**64 - 1}
"""Integers that mean "to the end" or "nothing here" rather than a number: they saturate."""


def stored(dtype: str) -> str:
    """The dtype that stands for `dtype` in the graph: itself where WebGPU can store it."""
    return _STORED.get(dtype, dtype)


def narrow_array(array: Array, name: str) -> tuple[Array, str | None]:
    """`array` in its narrowed dtype, C-contiguous, and a note where a value had to change.

    Integer sentinels (the ends of the 64-bit range) and float64 values beyond float32's range at
    float64's very end (masks) saturate. Raises InputError naming `name` and the value for anything
    else that does not fit. Infinities and NaN stay as they are.
    """
    target = stored(str(array.dtype))
    if target == str(array.dtype):
        return _contiguous(array), None
    if array.dtype == np.bool_ or str(array.dtype) in SMALL:
        return _contiguous(array.astype(target)), None
    if array.dtype == np.float64:
        return _narrow_floats(array, name)
    limits = np.iinfo(target)
    outside = (array < limits.min) | (array > limits.max)
    note = None
    if outside.any():
        values = sorted({int(value) for value in array[outside]})
        for value in values:
            if value not in _SENTINELS:
                raise InputError(
                    f"{name}: the value {value} does not fit {target}, the widest WebGPU has: "
                    f"use {array.dtype} only for values from {limits.min} to {limits.max}"
                )
        note = f"{name}: {listed(values, 3)} became the nearest {target}"
        array = np.clip(array, limits.min, limits.max)
    return _contiguous(array.astype(target)), note


def _narrow_floats(array: Array, name: str) -> tuple[Array, str | None]:
    limit = float(np.finfo(np.float32).max)
    # Half a unit beyond the largest float32 still rounds to it.
    outside = np.isfinite(array) & (np.abs(array) > limit) & ~np.isfinite(_quiet_float32(array))
    note = None
    if outside.any():
        values = sorted({float(value) for value in array[outside]})
        for value in values:
            if abs(value) != float(np.finfo(np.float64).max):
                raise InputError(
                    f"{name}: the value {value!r} does not fit float32, the widest WebGPU has: "
                    f"use values within +-{limit:.4g}"
                )
        note = f"{name}: {listed(values, 3)} became the nearest float32"
        array = np.where(outside, np.copysign(limit, array), array)
    return _contiguous(_quiet_float32(array)), note


def _quiet_float32(array: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(np.float32)


def _contiguous(array: Array) -> Array:
    # np.ascontiguousarray would turn a scalar into one dimension.
    return np.asarray(array, order="C")
