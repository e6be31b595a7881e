"""What rounding alone makes of an operator's outputs: its program, run a few times with results rounded at random.

Where a device's errors are many times as large as those of these runs, rounding does not explain them, however wide
the bound is: a coefficient is wrong in its fourth digit, or an epsilon by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tapml.bounds.chains import joined
from tapml.bounds.expression import Operation
from tapml.bounds.program import Run
from tapml.bounds.rounding import FUNCTIONS, Rounding
from tapml.bounds.uncertain import FLOATS, smallest_normal
from tapml.operators.program import OperatorProgram

SUSPICIOUS_TIMES = 4.0
"""From here on rounding explains it no longer. Kernels that are right stay below 1.1 on software GPUs, and faults that
their bounds hide begin at 16 (docs/bounds.md, "Suspicious")."""

_MOST_TURNS = 2**35
"""Of a program's loops, in all runs together: what takes longer is not simulated."""
_MOST_STEPS = 2**13
"""The same of steps that come one after the other."""

_LEAST_RUNS, _RUNS, _MOST_RUNS = 6, 10, 34
_ELEMENTS = 2048
"""Smaller outputs are run oftener than _RUNS, until they have so many elements together."""
_HELD_OUT = 2
"""Runs that are measured as a device is, by the others."""

_POOLED = 0.3
"""How much of what is usual in the output counts for an element whose own errors are small by chance."""
_LEAST_LARGEST = 3.0


class Simulated:
    """One output of one call. `share`: the largest share of its bound that any of the runs used."""

    def __init__(self, exact: np.ndarray, runs: Sequence[np.ndarray], expected: np.ndarray, bound: np.ndarray) -> None:
        """`exact`: the float64 result; `runs`: what simulated devices make of it; `expected`: what the reference made;
        `bound`: what each element may differ by."""
        self._exact = exact
        self._expected = expected.astype(np.float64)
        self._bound = bound
        self._counts = np.isfinite(bound) & (bound > 0) & np.isfinite(exact)
        self._scale = self._usual(runs[_HELD_OUT:], str(expected.dtype))
        self.share = max(self.used(run) for run in runs)
        measured = [self._measured(run) for run in runs[:_HELD_OUT]]
        self._mean = max(1.0, *(mean for mean, _ in measured))
        self._largest = max(_LEAST_LARGEST, *(largest for _, largest in measured))

    def times(self, got: np.ndarray) -> float:
        """How many times as large as what rounding explains the errors of a device are: in the mean of all elements, or
        that of one element, whichever is more."""
        mean, largest = self._measured(got)
        return max(mean / self._mean, largest / self._largest)

    def used(self, got: np.ndarray) -> float:
        """The largest share of its bound that an element uses."""
        error = self._error(got, self._expected)
        return float(np.max(error / np.where(self._counts, self._bound, 1.0), initial=0.0))

    def _usual(self, runs: Sequence[np.ndarray], dtype: str) -> np.ndarray:
        """By how much rounding moves each element: the root of the mean square."""
        square = sum(self._error(run, self._exact) ** 2 for run in runs) / len(runs)
        # The reference rounded as well, in the order in which this very sum is taken.
        square = np.maximum(square, self._error(self._expected, self._exact) ** 2)
        bound = np.where(self._counts, self._bound, 0.0)
        shares = square[self._counts] / self._bound[self._counts] ** 2
        pooled = _POOLED**2 * float(np.mean(shares)) * bound**2 if shares.size else 0.0
        size = np.where(self._counts, np.abs(self._exact), 1.0).astype(dtype)
        unit = np.spacing(size).astype(np.float64)
        # What is subnormal may be flushed.
        unit = np.where(size < 2 * smallest_normal(dtype), smallest_normal(dtype), _POOLED * unit)
        return np.asarray(np.sqrt(square + pooled + unit**2))

    def _measured(self, got: np.ndarray) -> tuple[float, float]:
        """Errors by what is usual: the root of their mean square, and the largest."""
        ratio = (self._error(got, self._exact) / self._scale)[self._counts]
        return (float(np.sqrt(np.mean(ratio**2))), float(np.max(ratio))) if ratio.size else (0.0, 0.0)

    def _error(self, got: np.ndarray, other: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self._counts, np.abs(got.astype(np.float64) - other), 0.0)


def simulate(
    program: OperatorProgram,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    bounds: Sequence[np.ndarray | None],
) -> list[Simulated | None]:
    """What rounding makes of each output; None where it has no bound of its own (`bounds`), and of all where the
    program takes too long. The same numbers every time.

    Raises NotDerivable where no bound can be derived either.
    """
    sizes = [array.size for array, bound in zip(expected, bounds, strict=True) if bound is not None]
    count = _runs(program, max(sizes)) if sizes else 0
    if count < _LEAST_RUNS:
        return [None for _ in expected]
    program = joined(program)
    exact = Run(program, inputs, FUNCTIONS, rounding=Rounding()).outputs
    runs = [
        Run(program, inputs, FUNCTIONS, rounding=Rounding(np.random.default_rng(number))).outputs
        for number in range(count)
    ]
    found: list[Simulated | None] = []
    for place, (carved, bound) in enumerate(zip(expected, bounds, strict=True)):
        if bound is None or str(carved.dtype) not in FLOATS:
            found.append(None)
            continue
        with np.errstate(over="ignore"):
            stored = [np.broadcast_to(run[place].value, carved.shape).astype(carved.dtype) for run in runs]
        value = np.broadcast_to(exact[place].value, carved.shape)
        found.append(Simulated(value, stored, carved, bound.astype(np.float64).reshape(carved.shape)))
    return found


def rounded(
    program: OperatorProgram,
    inputs: Sequence[np.ndarray],
    seed: int | None,
    functions: Mapping[str, Operation] = FUNCTIONS,
) -> list[np.ndarray]:
    """What a program gives in float64 (int64, bool): exactly, or rounded as a device may, at random by `seed`.

    Raises NotDerivable where it cannot be run so.
    """
    rounding = Rounding(None if seed is None else np.random.default_rng(seed))
    return [output.value for output in Run(program, inputs, functions, rounding=rounding).outputs]


def _runs(program: OperatorProgram, elements: int) -> int:
    """How many runs there are time for."""
    wanted = min(max(_ELEMENTS // max(elements, 1), _RUNS), _MOST_RUNS)
    steps = sum(math.prod(a.extent for a in block.axes if a.reduction) for block in program.blocks if block.sequential)
    return int(min(wanted, _MOST_TURNS // max(program.turns, 1), _MOST_STEPS // max(steps, 1)))
