"""Inputs of operators in float64 (int64, bool), with what a device may take them for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tapml.bounds.uncertain import FLOATS, NotDerivable, Uncertain, smallest_normal

_AT_ONCE = 1 << 16
_KEPT_BYTES = 32 << 20
"""Of all inputs that are kept, in float64; their sizes may take as much."""
_LEAST_BYTES = 1 << 17
"""Smaller ones are as soon converted as found."""
_WORTH = 4
"""Calls that are still to read it: for fewer it is not worth its memory."""


class Converted:
    """Converts inputs, and keeps those that many calls share: each step of a recurrent layer reads the same weights."""

    def __init__(self, readers: Iterable[np.ndarray] = ()) -> None:
        """`readers`: the inputs of all calls that are to come, one for each that reads it."""
        # What is counted is held: no other has its number.
        self._arrays = [*readers]
        self._left = Counter(map(id, self._arrays))
        self._kept: dict[tuple[int, str, tuple[int, ...]], Uncertain] = {}
        self._sizes: dict[int, tuple[np.ndarray, np.ndarray | None]] = {}
        """What is kept, by its address, with its absolute values once somebody has asked for them."""
        self._bytes = 0

    def keeps(self, array: np.ndarray) -> bool:
        """Whether enough calls are still to read it."""
        return self._left[id(array)] > _WORTH

    def input(self, array: np.ndarray, dtype: str, shape: tuple[int, ...]) -> Uncertain:
        """An input of this dtype, in this shape; nobody may write to it. Raises NotDerivable for other dtypes than
        those of kernels."""
        key = id(array), dtype, shape
        self._left[key[0]] -= 1
        if (found := self._kept.get(key)) is not None:
            if self._left[key[0]] <= 0:
                del self._kept[key]
                del self._sizes[_address(found.value)]
                self._bytes -= _bytes(found)
            return found
        found = widened(array.reshape(shape), dtype, subnormal=any_subnormal(array.reshape(-1), dtype))
        size = _bytes(found)
        if self._left[key[0]] >= _WORTH and size >= _LEAST_BYTES and self._bytes + size <= _KEPT_BYTES:
            self._kept[key] = found
            self._sizes[_address(found.value)] = found.value, None
            self._bytes += size
        return found

    def absolute(self, array: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """As `np.abs`; without `out` nobody may write to what it gives: of an input that is kept, or a part of it in
        whatever shape, it is computed once for all calls."""
        at = _address(array)
        for begin, (kept, known) in self._sizes.items() if out is None else ():
            if not begin <= at < begin + kept.nbytes or array.dtype != kept.dtype:
                continue
            if known is None:
                known = np.abs(kept)
                known.setflags(write=False)
                self._sizes[begin] = kept, known
            return np.ndarray(array.shape, known.dtype, known, at - begin, array.strides)
        found: np.ndarray = np.abs(array, out=out)
        return found


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _bytes(found: Uncertain) -> int:
    return sum(part.nbytes for part in (found.value, found.error) if part is not None)


def widened(array: np.ndarray, dtype: str, *, subnormal: bool) -> Uncertain:
    """`subnormal`: some of the elements, or of those beside them, are. Raises NotDerivable for other dtypes than those
    of kernels."""
    if dtype in FLOATS:
        value = array.astype(np.float64)
        if not subnormal:
            return Uncertain(value)
        # A device may take it for zero.
        size = np.abs(value)
        return Uncertain(value, np.where(size < smallest_normal(dtype), size, 0.0))
    if dtype == "bool":
        return Uncertain(array.astype(np.bool_))
    if not np.issubdtype(array.dtype, np.integer):
        raise NotDerivable(f"{dtype} inputs")
    return Uncertain(array.astype(np.int64))


def any_subnormal(elements: np.ndarray, dtype: str) -> bool:
    """Whether one of a row is, a few at a time: weights are large, and a copy of all of them is not needed."""
    if dtype not in FLOATS:
        return False
    normal = smallest_normal(dtype)
    for start in range(0, elements.size, _AT_ONCE):
        part = elements[start : start + _AT_ONCE]
        if part.dtype != dtype:  # float64, of what was not rounded
            size = np.abs(part)
            if ((size < normal) & (size > 0)).any():
                return True
            continue
        # Twice its bits are those of its size; less one, 0 is the largest of all.
        kind: Any = np.uint32 if dtype == "float32" else np.uint16
        bits = part.view(kind) << kind(1)
        bits -= kind(1)
        if int(bits.min()) < (2 << np.finfo(part.dtype).nmant) - 1:
            return True
    return False
