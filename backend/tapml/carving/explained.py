"""What rounding explains of a difference: as much as it moves that element, and those like it."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from tapml.importing.model import Array

_POOLED = 0.3
"""How much of what is usual in the tensor counts for an element that rounding moves little by chance."""
_LARGEST = 5.0
"""Times the usual that the largest of many elements is."""
_ULP = 0.5
_JUMPS = 0.02
"""Share of the elements that may come out on the other side of a step."""
_TINY = 1e-90


class Explained:
    """Of one tensor. With each run more is explained, never less: what a few of them explain needs no others."""

    def __init__(self, wanted: Array, count: int, unit: float, *, jumps: bool) -> None:
        """`wanted`: the oracle's; `count`: how many runs there are in which rounding moves the elements; `unit`: in the
        last place of 1; `jumps`: a result may be anything for a few elements."""
        self._jumps, self._unit, self._count = jumps, unit, count
        self._counts = np.isfinite(wanted)
        self.size = np.where(self._counts, wanted, 0).astype(np.float64)
        """Of each element, 0 where it is not finite."""
        np.abs(self.size, out=self.size)
        self._usual = float(np.sqrt(np.mean(self.size[self._counts] ** 2))) if self._counts.any() else 0.0
        self._square: Array | None = None

    def anew(self, count: int) -> Explained:
        """Of the same tensor, by other runs."""
        other = copy.copy(self)
        other._count, other._square = count, None
        return other

    @property
    def mean_square(self) -> float:
        """Of all elements."""
        return float(np.mean(self.size**2))

    def add(self, moved: Array) -> None:
        """By how much rounding moves each element in one of the runs."""
        square = finite(moved)
        square **= 2
        square /= self._count
        if self._square is None:
            self._square = square
        else:
            self._square += square

    def times(self, error: Array) -> float:
        """How many times as large as usual `error` is: in the mean of all elements, or the largest, whichever is more;
        about 1 where rounding explains it."""
        ratio = (error / self._scale())[self._counts]
        if self._jumps:
            kept = ratio.size - int(ratio.size * _JUMPS) - 2
            ratio = np.sort(ratio)[: max(kept, 0)]
        if not ratio.size:
            return 0.0
        with np.errstate(over="ignore"):
            return max(float(np.sqrt(np.mean(ratio**2))), float(np.max(ratio)) / _LARGEST)

    def _scale(self) -> Array:
        """What is usual of each element, by the runs so far as if the others moved nothing."""
        # Arithmetic of arrays without axes gives numbers, which nothing is written to.
        found: Array = np.asarray(_ULP * self._unit * self.size)
        found **= 2
        found += _TINY
        if self._square is not None:
            scale = np.asarray(self.size + self._usual)
            scale *= self._unit
            np.square(scale, out=scale)
            shares = self._square / np.where(scale > 0, scale, 1.0)
            scale *= _POOLED**2 * float(np.mean(shares)) if shares.size else 0.0
            found += scale
            found += self._square
        return np.sqrt(found, out=found)


def steps_explained(error: Array, moved: Iterable[Array]) -> bool:
    """Whether integers differ only where rounding may move them, or hardly anywhere."""
    likely = np.zeros(error.shape)
    for one in moved:
        likely = np.maximum(likely, one)
    share = float(np.mean(error > likely))
    # As many as were seen to move may be others than these.
    return share <= _JUMPS + float(np.mean(likely > 0))


def finite(values: Array) -> Array:
    """With 0 for what is not."""
    return np.where(np.isfinite(values), values, 0.0)
