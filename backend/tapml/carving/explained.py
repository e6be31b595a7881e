"""What rounding explains of a difference: as much as it moves that element, and those like it."""

from __future__ import annotations

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
    """Of one tensor."""

    def __init__(
        self,
        wanted: Array,
        moved: Iterable[Array],
        count: int,
        unit: float,
        *,
        jumps: bool,
    ) -> None:
        """`wanted`: the oracle's; `moved`: by how much rounding moves each element, in so many runs, of which one is
        held at a time; `unit`: in the last place of 1; `jumps`: a result may be anything for a few elements."""
        self._jumps = jumps
        self._counts = np.isfinite(wanted)
        size = np.abs(np.where(self._counts, wanted, 0).astype(np.float64))
        square = np.zeros(size.shape)
        for one in moved:
            square += finite(one) ** 2 / count
        usual = float(np.sqrt(np.mean(size[self._counts] ** 2))) if self._counts.any() else 0.0
        scale = unit * (size + usual)
        shares = square / np.where(scale > 0, scale, 1.0) ** 2
        pooled = _POOLED**2 * float(np.mean(shares)) * scale**2 if shares.size else 0.0
        self._scale = np.sqrt(square + pooled + (_ULP * unit * size) ** 2 + _TINY)

    def times(self, error: Array) -> float:
        """How many times as large as usual `error` is: in the mean of all elements, or the largest, whichever is more;
        about 1 where rounding explains it."""
        ratio = (error / self._scale)[self._counts]
        if self._jumps:
            kept = ratio.size - int(ratio.size * _JUMPS) - 2
            ratio = np.sort(ratio)[: max(kept, 0)]
        if not ratio.size:
            return 0.0
        with np.errstate(over="ignore"):
            return max(float(np.sqrt(np.mean(ratio**2))), float(np.max(ratio)) / _LARGEST)


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
