"""Inputs of operators in float64 (int64, bool), with what a device may take them for."""

from __future__ import annotations

from collections import deque

import numpy as np

from tapml.bounds.expression import NotDerivable
from tapml.bounds.uncertain import FLOATS, Uncertain, smallest_normal

_AT_ONCE = 1 << 16
_KEPT_BYTES = 32 << 20
"""Of all that is kept, in float64."""
_LEAST_BYTES = 1 << 17
"""Smaller ones are as soon converted as found."""
_REMEMBERED = 8
"""Large inputs: those of the last few calls."""


class Converted:
    """Converts inputs, and keeps those that calls share: each step of a recurrent layer reads the same weights."""

    def __init__(self) -> None:
        self._last: deque[np.ndarray] = deque(maxlen=_REMEMBERED)
        self._kept: dict[tuple[int, str, tuple[int, ...]], tuple[np.ndarray, Uncertain]] = {}
        self._bytes = 0

    def input(self, array: np.ndarray, dtype: str, shape: tuple[int, ...]) -> Uncertain:
        """An input of this dtype, in this shape; nobody may write to it. Raises NotDerivable for other dtypes than
        those of kernels."""
        # What is kept holds its array: no other has its number.
        key = id(array), dtype, shape
        if key in self._kept:
            return self._kept[key][1]
        found = _input(array, dtype, shape)
        size = sum(part.nbytes for part in (found.value, found.error) if part is not None)
        if _LEAST_BYTES <= size <= _KEPT_BYTES:
            if any(one is array for one in self._last):
                while self._bytes + size > _KEPT_BYTES:
                    _, oldest = self._kept.pop(next(iter(self._kept)))
                    self._bytes -= sum(part.nbytes for part in (oldest.value, oldest.error) if part is not None)
                self._kept[key] = array, found
                self._bytes += size
            else:
                self._last.append(array)
        return found


def _input(array: np.ndarray, dtype: str, shape: tuple[int, ...]) -> Uncertain:
    if dtype in FLOATS:
        value = array.astype(np.float64).reshape(shape)
        if not _any_subnormal(array.reshape(-1), dtype):
            return Uncertain(value)
        # A device may take it for zero.
        size = np.abs(value)
        return Uncertain(value, np.where(size < smallest_normal(dtype), size, 0.0))
    if dtype == "bool":
        return Uncertain(array.astype(np.bool_).reshape(shape))
    if not np.issubdtype(array.dtype, np.integer):
        raise NotDerivable(f"{dtype} inputs")
    return Uncertain(array.astype(np.int64).reshape(shape))


def _any_subnormal(elements: np.ndarray, dtype: str) -> bool:
    """Looks at a few at a time: weights are large, and a copy of all of them is not needed."""
    normal = smallest_normal(dtype)
    for start in range(0, elements.size, _AT_ONCE):
        size = np.abs(elements[start : start + _AT_ONCE])
        if ((size < normal) & (size > 0)).any():
            return True
    return False
