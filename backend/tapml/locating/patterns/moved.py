"""Right values in wrong places: repeated, shifted, transposed."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tapml.locating.evidence import Evidence, Finding, explained
from tapml.locating.moves import moves
from tapml.locating.patterns.explained import ENOUGH, explaining
from tapml.locating.regions import axis_name, plural

_SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, *(sign * 2**power for power in range(3, 13) for sign in (1, -1)))
_SAMPLE = 4096
_FEW = 16
_VALUES = 4
_MOST_TRIED = 1 << 20


def detect(evidence: Evidence) -> list[Finding]:
    """Repeats first: where rows repeat, a shift may fit as well and say less."""
    if evidence.got.size < 4 or not evidence.finite.any():
        return []
    if len(np.unique(evidence.g[evidence.finite])) < _VALUES:
        return _repeats(evidence)  # the others have one element of the output, wherever that is
    return [*_repeats(evidence), *_shifted(evidence), *_mirrored(evidence), *_transposed(evidence)]


def _repeats(evidence: Evidence) -> list[Finding]:
    found = []
    ndim = evidence.got.ndim
    for axis in range(ndim):
        size = evidence.shape[axis]
        if size < 2 or (evidence.got.size // size < 2 and size < 4):
            continue
        g = np.moveaxis(evidence.g, axis, 0).reshape(size, -1)
        e = np.moveaxis(evidence.e, axis, 0).reshape(size, -1)
        wrong = np.moveaxis(evidence.wrong, axis, 0).reshape(size, -1)
        same = (g[1:] == g[:-1]).all(axis=1)
        alike = (e[1:] == e[:-1]).all(axis=1)
        odd = same & ~alike
        name = axis_name(axis, ndim)
        if bool((g[-1] == g[-1].flat[0]).all()):
            continue  # a constant is not a line that repeats
        if not odd.any():
            found += _periodic(evidence, g, e, wrong, name)
            continue
        broken = np.flatnonzero(~same)
        start = int(broken[-1]) + 2 if len(broken) else 1
        if start >= size:
            continue
        explained = int(wrong[start:].sum())
        if explained < ENOUGH * evidence.count:
            continue
        details = {"axis": axis, "from": start, "repeats": start - 1, "explained": explained}
        if start == 1:
            text = f"all {size} {plural(name)} are the same; the reference's are not"
            found.append(Finding("broadcast", text, 0.96, details))
        else:
            text = f"{plural(name)} from {start} on repeat {name} {start - 1}"
            found.append(Finding("repeat-row", text, 0.96 * explained / evidence.count, details))
    return found


def _periodic(evidence: Evidence, g: np.ndarray, e: np.ndarray, wrong: np.ndarray, name: str) -> list[Finding]:
    """Lines that begin again after a while: an axis taken modulo something."""
    size = len(g)
    for period in [p for p in range(1, size // 2 + 1) if size % p == 0 or p & (p - 1) == 0]:
        if period == 1 or not np.array_equal(g[period:], g[:-period]) or np.array_equal(e[period:], e[:-period]):
            continue
        explained = int(wrong[period:].sum())
        if explained >= ENOUGH * evidence.count:
            text = f"{plural(name)} repeat after {period}: those from {period} on are the first {period} again"
            details = {"period": period, "explained": explained}
            return [Finding("broadcast", text, 0.94 * explained / evidence.count, details)]
    return []


def _shifted(evidence: Evidence) -> list[Finding]:
    best: Finding | None = None
    ndim = evidence.got.ndim
    for axis in range(ndim):
        size = evidence.shape[axis]
        for shift in _SHIFTS:
            if abs(shift) >= size or (abs(shift) > size // 2 and size > 2):
                continue
            predicted = np.roll(evidence.e, -shift, axis=axis)
            if not _likely(evidence, predicted):
                continue
            right = evidence.explains(predicted)
            n = int(right.sum())
            # What came in from outside the axis may be anything.
            inside = evidence.finite & _stays(size, shift, axis, ndim)
            if n < 4 or int(inside.sum()) < 0.5 * evidence.count:
                continue
            name = axis_name(axis, ndim)
            next_ = {1: f"the next {name}'s value", -1: f"the previous {name}'s value"}
            far = f"the value of the {name} {abs(shift)} {'later' if shift > 0 else 'earlier'}"
            text = f"shifted: got is {next_.get(shift, far)} ({n} of {evidence.count} wrong elements)"
            for found in explaining(
                evidence, "shift", text, 0.95, right, among=inside, details={"axis": axis, "shift": shift}
            ):
                if best is None or found.strength > best.strength:
                    best = found
    return [best] if best else []


def _stays(size: int, shift: int, axis: int, ndim: int) -> np.ndarray:
    index = np.arange(size) + shift
    shape = [1] * ndim
    shape[axis] = size
    return ((index >= 0) & (index < size)).reshape(shape)


def _mirrored(evidence: Evidence) -> list[Finding]:
    """Values from other places, some axis backwards, by a rule that a few of them give."""
    places = np.flatnonzero(evidence.fitted)[:: max(1, int(evidence.fitted.sum()) // _FEW)][:_FEW]
    if len(places) * evidence.got.size > _MOST_TRIED or not np.ptp(evidence.e[evidence.wrong]) > 0:
        return []
    got, expected, bound = (array.reshape(-1)[places][:, None] for array in (evidence.g, evidence.e, evidence.bound))
    possible = explained(got, evidence.e.reshape(1, -1), expected, bound)
    shape = evidence.shape
    for move in moves(shape, np.unravel_index(places, shape), possible):
        text = f"mirrored: got is the expected output {move.words(shape)}"
        right = evidence.explains(move.applied(evidence.e))
        if move.mirrors and (found := explaining(evidence, "transpose", text, 0.95, right)):
            return found
    return []


def _transposed(evidence: Evidence) -> list[Finding]:
    shape = evidence.shape
    real = [axis for axis in range(len(shape)) if shape[axis] > 1]
    if 2 <= len(real) <= 4:
        for order in itertools.permutations(real):
            if list(order) == real:
                continue
            axes = list(range(len(shape)))
            for place, axis in zip(real, order, strict=True):
                axes[place] = axis
            predicted = evidence.e.transpose(axes).reshape(shape)
            if not _likely(evidence, predicted):
                continue
            right = evidence.explains(predicted)
            text = f"axes are swapped: got is the expected output transposed by {axes} in memory"
            found = (
                explaining(evidence, "transpose", text, 0.96, right, details={"axes": axes}) if right.sum() >= 4 else []
            )
            if found:
                return found
    return _elsewhere(evidence)


def _elsewhere(evidence: Evidence) -> list[Finding]:
    """The same values, in another order."""
    if evidence.count < 4 or not np.isfinite(evidence.g).all() or not np.isfinite(evidence.e).all():
        return []
    g, e = np.sort(evidence.g[evidence.wrong]), np.sort(evidence.e[evidence.wrong])
    if e[0] == e[-1] or len(np.unique(e[:_SAMPLE])) < 4:
        return []
    error = evidence.error[evidence.wrong]
    if float(np.median(error)) <= 1e-4 * float(np.median(np.abs(e))):
        return []  # what is off by rounding is close to the value of its own place, too
    close = np.abs(g - e) <= np.maximum(1e-6 * np.abs(e), 1e-3 * float(np.median(error)))
    if close.mean() < 0.99:
        return []
    text = f"the {evidence.count} wrong elements hold each other's values: right numbers in wrong places"
    return [Finding("transpose", text, 0.85, {"elements": evidence.count})]


def _likely(evidence: Evidence, predicted: np.ndarray) -> bool:
    """Look at some wrong elements before all."""
    if evidence.got.size <= 4 * _SAMPLE:
        return True
    places = evidence.sample
    g, p = evidence.g.reshape(-1)[places], predicted.reshape(-1)[places]
    near = np.abs(g - p) <= 0.02 * evidence.error.reshape(-1)[places]
    return bool(near.mean() >= 0.4) and math.isfinite(float(near.mean()))
