"""Errors that a narrower arithmetic makes, whatever the order of its sums."""

from __future__ import annotations

import numpy as np

from tapml.locating.evidence import Finding
from tapml.locating.formula.build import Formula
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.narrow import NARROW
from tapml.locating.formula.sample import Part
from tapml.locating.held_out import halves

_FEWEST = 16
_NAMES = {"float16": "float16 or TF32", "bfloat16": "bfloat16"}
_QUANTILES = (0.25, 0.5, 0.9)
_AS_LARGE = 2.5
_BALANCED = (0.2, 0.8)


def narrow_arithmetic(formula: Formula, inputs: list[np.ndarray], part: Part) -> Finding | None:
    """The type in which the program, with every result rounded to it, makes errors as these.

    They are as large at each of some quantiles, in both halves of them, both signs occur, and they do not follow the
    expected values: a wrong epsilon, or a limit, errs to one side.
    """
    finite = np.isfinite(part.got) & np.isfinite(part.expected)
    error = (part.got - part.expected)[finite]
    expected = part.expected[finite]
    if len(error) < _FEWEST or not _scattered(error, expected):
        return None
    for name, said in _NAMES.items():
        made = Values(formula, inputs, NARROW[name]).at(formula.root, part.places)[finite] - expected
        if all(_alike(error[half], made[half]) for half in halves(len(error))):
            text = (
                f"errors as arithmetic in {said} makes them: half of them are above {_quantile(error, 0.5):.2g}; "
                f"those of the operator's program, with every result rounded to {name}, are above "
                f"{_quantile(made, 0.5):.2g}"
            )
            details = {"dtype": name, "edit": "", "share": 1.0, "typical_error": _quantile(error, 0.5)}
            return Finding("dtype-conversion", text, 0.88, details)
    return None


def _alike(error: np.ndarray, made: np.ndarray) -> bool:
    if not np.isfinite(made).all() or not made.any():
        return False
    ratios = [_quantile(error, at) / max(_quantile(made, at), 1e-300) for at in _QUANTILES]
    return all(1 / _AS_LARGE <= ratio <= _AS_LARGE for ratio in ratios)


def _scattered(error: np.ndarray, expected: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        outward = float((error * np.sign(expected) > 0).mean())
        above = float((error > 0).mean())
        follows = abs(float(np.corrcoef(error, expected)[0, 1])) if np.ptp(error) and np.ptp(expected) else 1.0
    low, high = _BALANCED
    return low <= above <= high and low <= outward <= high and follows < 0.7


def _quantile(values: np.ndarray, at: float) -> float:
    return float(np.quantile(np.abs(values), at))
