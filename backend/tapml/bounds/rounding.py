"""Rounding as devices do it, at random: what becomes of a program's results as it runs (simulation.py).

A bound is what a device may be off by where all goes as badly as the WGSL specification lets it. Devices do better by
far: roundings go either way and do not conspire, and builtin functions are nearer than they have to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tapml.bounds import wgsl
from tapml.bounds.uncertain import FLOATS, Uncertain, unit
from tapml.operators.program import Expression

_NEAREST = 0.5
"""Of what one operation may be off by: results are rounded to the nearest."""

_BUILTIN = 0.3
"""Of what a builtin function may be off by: so far it is off by chance, and so far again all its results alike."""


class Rounding:
    """The roundings of one run. Without `random` there are none: every result is the exact one of its operands."""

    def __init__(self, random: np.random.Generator | None = None) -> None:
        self._random = random

    def settle(self, found: Uncertain, node: Expression) -> Uncertain:
        """One of the results that an operation with exact operands may have."""
        if self._random is None or node.dtype not in FLOATS:
            return Uncertain(found.value)
        shape = np.broadcast_shapes(found.value.shape, found.spread.shape)
        share = _NEAREST * self._random.uniform(-1.0, 1.0, shape)
        if node.kind == "call":
            # An implementation errs the same way for arguments that are alike.
            share = _BUILTIN * (share / _NEAREST + self._random.uniform(-1.0, 1.0))
        with np.errstate(invalid="ignore", over="ignore"):
            moved = found.value + share * found.spread
        return Uncertain(np.where(np.isfinite(found.spread), moved, found.value))

    def sum(
        self, value: np.ndarray, squares: Callable[[], np.ndarray], terms: int, dtype: str, *, each: float
    ) -> np.ndarray:
        """A sum, one term after the other, of so many terms, the sum of whose squares is `squares()`. `each`: how often
        the square of a term is rounded itself: 1 where it is a product."""
        if self._random is None:
            return value
        square = squares()
        with np.errstate(invalid="ignore", over="ignore"):
            # In a random order the k-th partial sum is value * k / terms on average, and varies about that as a walk
            # does that ends at the value. These are the sums of their squares, each of which is rounded evenly by up
            # to half a unit.
            partial = value**2 * terms / 3 + np.maximum(square - value**2 / terms, 0.0) * terms / 6
            variance = (partial if terms > 1 else 0.0) + each * square
            moved = value + unit(dtype) / 2 * np.sqrt(variance / 3) * self._random.standard_normal(value.shape)
        return np.where(np.isfinite(moved), moved, value)


FUNCTIONS: Mapping[str, Callable[..., Uncertain]] = {
    **wgsl.FUNCTIONS,
    **wgsl.REDUCED,
    "fmod": wgsl.remainder,
    "isnan": wgsl.is_nan_by_bits,
    "tanh": wgsl.tanh_by_exp,
}
"""As kernels have them, which bring arguments of sin within pi / 4 and write tanh by exp: what WGSL's own may be off by
is hundreds of times more. (Mesa's atan uses 305 of the 4096 units that it may.)"""


def _coarse(function: Callable[..., Uncertain]) -> Callable[..., Uncertain]:
    def found(x: Uncertain, dtype: str) -> Uncertain:
        return Uncertain(function(x, dtype).value + unit(dtype))

    return found


APPROXIMATED = ("sigmoid", "tanh", "erf")
"""Functions that libraries approximate so that the ends of what they give, -1 and 1, are right."""

COARSE: Mapping[str, Callable[..., Uncertain]] = {
    **FUNCTIONS,
    **{name: _coarse(FUNCTIONS[name]) for name in APPROXIMATED},
}
"""With these off by one unit in the last place of 1 everywhere."""
