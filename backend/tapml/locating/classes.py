"""Wrong elements of one residue along an axis: those that one register of each thread's tile makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tapml.locating.evidence import Evidence
from tapml.locating.regions import axis_name, plural

_STEP = 4
"""What is so every second time is so every fourth time."""

_FEWEST = 8
_MOST_AXES = 2
_MOST_STARTS = 2


@dataclass(frozen=True)
class Class:
    """Every `step`th index of an axis, from `start` on; `count` of the wrong elements are there."""

    axis: int
    step: int
    start: int
    ndim: int
    count: int

    @property
    def words(self) -> str:
        first = ", ".join(str(self.start + number * self.step) for number in range(3))
        return f"{plural(axis_name(self.axis, self.ndim))} {first}, ..."

    def inside(self, evidence: Evidence) -> np.ndarray:
        """Mask of the elements."""
        shape = [1] * evidence.got.ndim
        shape[self.axis] = evidence.shape[self.axis]
        chosen = np.arange(evidence.shape[self.axis]) % self.step == self.start
        return np.broadcast_to(chosen.reshape(shape), evidence.shape)

    def of(self, evidence: Evidence) -> Evidence:
        """With nothing said of the other elements, of this call and of those beside it."""

        def only(one: Evidence) -> Evidence:
            return replace(one, bound=np.where(self.inside(one), one.bound, np.inf), beside=(), trials=())

        beside = [only(one) for one in evidence.beside if one.shape == evidence.shape]
        trials = [only(one) for one in evidence.trials]
        return replace(only(evidence), beside=beside, trials=trials)

    def to_json(self) -> Mapping[str, int]:
        return {"axis": self.axis, "step": self.step, "start": self.start}


def classes(evidence: Evidence) -> Iterator[Class]:
    """Of the last axes, the classes in which most is wrong, where not all of it is there."""
    long = [axis for axis, extent in enumerate(evidence.shape) if extent >= 2 * _STEP]
    for axis in reversed(long[-_MOST_AXES:]):
        counts = np.bincount(np.nonzero(evidence.wrong)[axis] % _STEP, minlength=_STEP)
        for start in np.argsort(-counts, kind="stable")[:_MOST_STARTS].tolist():
            if _FEWEST <= counts[start] < evidence.count:
                yield Class(axis, _STEP, start, evidence.got.ndim, int(counts[start]))
