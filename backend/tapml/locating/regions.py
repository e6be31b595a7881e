"""Sets of elements in words: whole axes, ranges, every n-th."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AxisSet:
    """The indices along one axis at which a mask is set anywhere. `kind`: all, one, range, stride or set."""

    axis: int
    size: int
    kind: str
    start: int
    stop: int
    step: int
    count: int

    @property
    def is_all(self) -> bool:
        return self.kind == "all"

    @property
    def to_end(self) -> bool:
        """A range that begins later than the axis and ends with it."""
        return self.kind in ("range", "one") and self.start > 0 and self.stop == self.size

    def words(self, ndim: int) -> str:
        """Such as "rows 256 to 511", of an array of `ndim` axes."""
        name = axis_name(self.axis, ndim)
        if self.kind == "one":
            last = " (the last)" if self.start == self.size - 1 else ""
            return f"{name} {self.start}{last}"
        if self.kind == "range":
            end = " (the end)" if self.stop == self.size else ""
            return f"{plural(name)} {self.start} to {self.stop - 1}{end}"
        if self.kind == "stride":
            return f"every {ordinal(self.step)} {name} from {self.start}"
        return f"{self.count} of {self.size} {plural(name)} ({self.start} to {self.stop - 1})"


@dataclass(frozen=True)
class Box:
    """The smallest product of index sets that holds a mask. `density`: the share of it that the mask sets."""

    axes: list[AxisSet]
    density: float
    share: float
    """Of all elements."""

    def words(self) -> str:
        """Such as "rows 256 to 511, every 64th column from 0"; "all elements" where nothing is left out."""
        ndim = len(self.axes)
        parts = [axis.words(ndim) for axis in self.axes if not axis.is_all]
        return ", ".join(parts) or "all elements"


def box_of(mask: np.ndarray) -> Box:
    """Raises ValueError for a mask that sets nothing."""
    axes = []
    inside = 1
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        found = axis_set(np.flatnonzero(mask.any(axis=others)), axis, mask.shape[axis])
        inside *= found.count
        axes.append(found)
    return Box(axes, int(mask.sum()) / inside, inside / mask.size)


def axis_set(indices: np.ndarray, axis: int, size: int) -> AxisSet:
    """`indices` ascending. Raises ValueError where there are none."""
    if not len(indices):
        raise ValueError("an empty set has no extent")
    count, start, stop = len(indices), int(indices[0]), int(indices[-1]) + 1
    steps = np.unique(np.diff(indices))
    step = int(steps[0]) if len(steps) == 1 else 1
    if count == size:
        kind = "all"
    elif count == 1:
        kind = "one"
    elif len(steps) == 1 and step == 1:
        kind = "range"
    else:
        kind = "stride" if len(steps) == 1 and count > 2 else "set"  # two of anything are equally far apart
    return AxisSet(axis, size, kind, start, stop, step, count)


def axis_name(axis: int, ndim: int) -> str:
    """What people call an index of this axis."""
    if ndim == 1:
        return "element"
    return {ndim - 1: "column", ndim - 2: "row"}.get(axis, f"index of axis {axis}")


def plural(name: str) -> str:
    return name.replace("index", "indices") if name.startswith("index") else f"{name}s"


def ordinal(number: int) -> str:
    """2nd, 3rd, 64th."""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def first(mask: np.ndarray) -> list[int]:
    """Index of the first set element, row-major."""
    return [int(i) for i in np.unravel_index(int(np.argmax(mask.reshape(-1))), mask.shape)]
