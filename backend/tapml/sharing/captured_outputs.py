"""The outputs of one captured call, as its device gave them, against those of this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tapml.bounds import NotDerivable, simulate
from tapml.bounds.simulation import SUSPICIOUS_TIMES
from tapml.compare.elements import errors, excesses, largest, outside
from tapml.operators.program import OperatorProgram
from tapml.platforms.expected import Expected
from tapml.protocol.methods import Verdict
from tapml.results.validation import Measured

_LEAST_SHARE = 0.01
"""Of its bound: an error that is smaller yet has nothing to say."""


@dataclass(frozen=True)
class Passing:
    """What is needed to see whether rounding explains what passed."""

    share: float
    number: int
    program: OperatorProgram
    inputs: Sequence[np.ndarray]
    expected: Sequence[Expected]
    got: Sequence[np.ndarray]


def share_of(got: np.ndarray, expected: Expected) -> float:
    """The largest share of its bound that an element uses; 0 where it has no bound of its own."""
    if expected.tolerance.bound is None:
        return 0.0
    return largest(excesses(errors(got, expected.value), expected.bound))


def suspicious(found: Passing) -> str:
    """Why rounding does not explain what passed; empty where it does, or where that is not known."""
    if found.share < _LEAST_SHARE:
        return ""
    bounds = [one.bound if one.tolerance.bound is not None else None for one in found.expected]
    try:
        simulated = simulate(found.program, found.inputs, [one.value for one in found.expected], bounds)
    except NotDerivable:
        return ""  # its tolerance is an estimate, which says so
    for rounding, got in zip(simulated, found.got, strict=True):
        if rounding is not None and (times := rounding.times(got)) >= SUSPICIOUS_TIMES:
            return f"its errors are {times:.3g} x what rounding explains, and inside their bounds"
    return ""


def measured_outputs(
    got: Sequence[np.ndarray],
    expected: Sequence[Expected],
    ties: Sequence[np.ndarray],
    variant: str,
    edited: bool,
) -> Measured:
    """As a device that ran the test would have reported it."""
    mismatched, unbounded, tied, total, nan, inf = 0, 0, 0, 0, 0, 0
    biggest, first, worst = 0.0, None, None
    most = -1.0
    for number, (given, found, equal) in enumerate(zip(got, expected, ties, strict=True)):
        error = np.where(equal, 0.0, errors(given, found.value))
        wrong = outside(error, found.bound)
        excess = excesses(error, found.bound)
        mismatched += int(wrong.sum())
        unbounded += int(np.isposinf(found.bound).sum())
        tied += int(equal.sum())
        total += given.size
        wide = given.astype(np.float64)
        nan += int(np.isnan(wide).sum())
        inf += int(np.isinf(wide).sum())
        biggest = max(biggest, largest(error))
        if not given.size:
            continue
        if first is None and wrong.any():
            first = _element(number, int(np.argmax(wrong)), given, found)
        place = int(np.argmax(excess))
        if float(excess.flat[place]) > most:
            most = float(excess.flat[place])
            worst = _element(number, place, given, found)
    verdict: Verdict = "fail" if mismatched else "unbounded" if unbounded else "pass"
    messages = {
        "fail": f"{mismatched} of {total} elements are outside their bounds",
        "unbounded": f"{unbounded} of {total} elements are unbounded: WGSL promises nothing for them",
    }
    result: dict[str, Any] = {
        "verdict": verdict,
        "max_abs_error": biggest,
        "mismatched": mismatched,
        "unbounded": unbounded,
        "tied": tied,
        "total": total,
        "nan": nan,
        "inf": inf,
        "first": first,
        "worst": worst,
        "message": messages.get(verdict, ""),
        "variant": variant,
        "edited": edited,
    }
    return cast(Measured, result)


def _element(output: int, place: int, got: np.ndarray, expected: Expected) -> dict[str, Any]:
    def number(array: np.ndarray) -> float | str:
        value = float(array.reshape(-1)[place])
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"

    index = [int(axis) for axis in np.unravel_index(place, got.shape)]
    values = {"expected": number(expected.value), "got": number(got), "bound": number(expected.bound)}
    return {"output": output, "index": index, **values}
