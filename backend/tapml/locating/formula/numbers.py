"""The number that a constant would have to be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from tapml.locating.formula.sample import Part

_FACTORS = (0.0, -1.0, 0.5, 2.0, 0.1, 10.0, 0.01, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e-3, 1e-4, 0.9, 1.1)
_STEPS = 12
_TARGETS = 3


def solved(
    constant: float, predicted: Callable[[float], np.ndarray], part: Part, *, plain: bool = False
) -> float | None:
    """A value for which at least half of the elements come out as the device gave them, as plain as will do; None
    where there is none. `predicted`: the elements for a value. `plain`: only those that one is likely to write."""

    def score(value: float) -> tuple[float, float]:
        found = predicted(value)
        left = np.abs(found - part.got)
        scale = np.abs(part.expected - part.got)
        with np.errstate(all="ignore"):
            rest = float(np.nanmedian(np.where(np.isfinite(left / scale), left / scale, 1.0)))
        return part.share(found), -rest

    finite = np.flatnonzero(np.isfinite(part.got) & np.isfinite(part.expected))
    if abs(constant) > 1e37:
        return None
    tried = [constant * factor for factor in _FACTORS] + [constant + 1, constant - 1]
    if constant == 0:
        tried = [1.0, -1.0, 1e-3]
    scores = {value: score(value) for value in dict.fromkeys(tried) if value != constant}
    best = max(scores, key=lambda value: scores[value])
    if scores[best][0] < 0.9 and len(finite) and not plain:
        for value in _roots(constant, best, predicted, part, finite):
            scores[value] = score(value)
        best = max(scores, key=lambda value: scores[value])
    if scores[best][0] < 0.5:
        return None
    for short in _shorter(best):
        if short != constant and score(short)[0] >= scores[best][0]:
            return short
    return best


def _shorter(value: float) -> Iterator[float]:
    """Numbers of one to six digits: the nearest, and those on either side, which do as well where results are whole."""
    for digits in range(1, 7):
        near = float(f"{value:.{digits - 1}e}")
        step = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else 0.0
        yield near
        for other in (near - step, near + step) if digits <= 3 else ():
            if abs(other - value) < step:
                yield float(f"{other:.6g}")


def plainest(values: np.ndarray, allowed: np.ndarray, share: float) -> list[float]:
    """The number that so large a share of the values are, but for what each may be off by, with as few digits as will
    do; none where there is none. NaN is no value."""
    known = values[np.isfinite(values)]
    if not len(known):
        return []
    middle = float(np.median(known))

    def right(number: float) -> float:
        return float((np.abs(values - number) <= allowed).mean())

    most = right(middle)
    if most < share:
        return []
    if right(0.0) >= most:
        return [0.0]
    return [next((found for found in _shorter(middle) if right(found) >= most), middle)]


def _roots(
    constant: float, near: float, predicted: Callable[[float], np.ndarray], part: Part, finite: np.ndarray
) -> list[float]:
    """The secant method for some elements, one by one."""
    found = []
    excess = np.abs(part.got - part.expected)[finite] / np.maximum(part.bound[finite], 1e-300)
    targets = finite[np.argsort(-excess)][:_TARGETS]
    for begin in dict.fromkeys((constant, near)):
        for target in targets:
            a, b = begin, begin * 1.01 if begin else 1e-3
            fa, fb = (float(predicted(x)[target] - part.got[target]) for x in (a, b))
            for _ in range(_STEPS):
                if not math.isfinite(fa - fb) or fa == fb:
                    break
                a, b, fa = b, b - fb * (b - a) / (fb - fa), fb
                if not math.isfinite(b) or abs(b) > 1e30:
                    break
                fb = float(predicted(b)[target] - part.got[target])
                if abs(fb) <= 0.01 * part.bound[target] or abs(b - a) <= 1e-12 * abs(b):
                    break
            if math.isfinite(b) and b != constant and abs(b) <= 1e30:
                found.append(b)
        if found:
            break
    return found
