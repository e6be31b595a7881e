"""Numbers as narrower types hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np


def _through(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    def rounded(values: np.ndarray) -> np.ndarray:
        found: np.ndarray = values.astype(np.float32).astype(dtype).astype(np.float64)
        return found

    return rounded


def _tf32(values: np.ndarray) -> np.ndarray:
    """Ten bits after the point, to the nearest, ties to even; the exponents of float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> np.uint32(13)) & np.uint32(1)
    kept = (bits + np.uint32(0xFFF) + even) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), kept.view(np.float32).astype(np.float64), values)


def _half_cut(values: np.ndarray) -> np.ndarray:
    """Float16 towards zero, as devices may round."""
    narrow = values.astype(np.float16)
    over = np.abs(narrow.astype(np.float64)) > np.abs(values)
    return np.where(over, np.nextafter(narrow, np.float16(0)), narrow).astype(np.float64)


def _tf32_cut(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), bits.view(np.float32).astype(np.float64), values)


def _cut(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    found: np.ndarray = bits.view(np.float32).astype(np.float64)
    return found


def _fraction_cut(bits: int) -> Callable[[np.ndarray], np.ndarray]:
    """To so many bits after the point, towards zero."""
    mask = np.uint32(0xFFFFFFFF << (23 - bits) & 0xFFFFFFFF)

    def rounded(values: np.ndarray) -> np.ndarray:
        kept = (np.ascontiguousarray(values, np.float32).view(np.uint32) & mask).view(np.float32)
        return np.where(np.isfinite(values), kept.astype(np.float64), values)

    return rounded


def _multiples(step: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.asarray(np.rint(values / step) * step)


def _float32(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = values.astype(np.float32).astype(np.float64)
    return found


NARROW: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "float16": _through(np.float16),
    "float16, cut off": _half_cut,
    "bfloat16": _through(ml_dtypes.bfloat16),
    "bfloat16, cut off": _cut,
    "TF32": _tf32,
    "TF32, cut off": _tf32_cut,
    "an integer, cut off": np.trunc,
    "a whole number": np.rint,
    "float32": _float32,
}
"""By what people call them."""

COARSE: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    **{f"multiples of 1/{1 << power}": _multiples(2.0**-power) for power in range(1, 13)},
    **{f"{bits} bits of its fraction": _fraction_cut(bits) for bits in (2, 3, 4, 5, 6, 8, 9, 11, 12)},
}
"""Of one value alone."""

WHOLE = ("an integer, cut off", "a whole number")
