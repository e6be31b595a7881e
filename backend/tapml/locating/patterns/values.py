"""What the wrong values are, as a function of the expected ones: sign, scale, offset, reciprocal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.patterns.explained import explaining

_FEWEST = 4
"""Elements that a hypothesis with a free number must explain."""


def detect(evidence: Evidence) -> list[Finding]:
    """Each that explains nine tenths of the wrong elements."""
    if not evidence.finite.any():
        return []
    return [*_sign(evidence), *_scale(evidence), *_offset(evidence), *_by_axis(evidence)]


def _finding(
    evidence: Evidence, pattern: str, text: str, specific: float, mask: np.ndarray, **details: object
) -> list[Finding]:
    """`mask`: what it explains."""
    text = f"{text} ({evidence.of(int(mask.sum()))} wrong elements)"
    return explaining(evidence, pattern, text, specific, mask, details=details)


def _sign(evidence: Evidence) -> list[Finding]:
    e = evidence.e
    flipped = evidence.explains(-e)
    lost = evidence.explains(np.abs(e))
    n = int(flipped.sum())
    if n and bool((lost == flipped).all()) and bool((e[evidence.wrong] < 0).all()) and (e > 0).any():
        return _finding(evidence, "sign", "the minus sign is lost: got is the expected magnitude", 0.94, lost)
    return _finding(evidence, "sign", "the sign is flipped: got is minus the expected value", 0.93, flipped)


def _scale(evidence: Evidence) -> list[Finding]:
    mask = evidence.finite & (evidence.e != 0)
    some = evidence.fitted & mask
    if mask.sum() < _FEWEST or not some.any():
        return []
    e, g = evidence.e[some], evidence.g[some]
    factor = _nice(float(np.median(g / e)))
    if factor in (0.0, 1.0, -1.0):
        return []
    right = evidence.explains(factor * evidence.e)
    # A fit to values that are all alike is an offset as well: it says nothing of scale.
    if right.sum() >= _FEWEST and np.ptp(e) > 1e-3 * np.max(np.abs(e)):
        text = f"every wrong element is {_factor(factor)} times the expected one"
        found = _finding(evidence, "scale", text, 0.92, right, factor=factor)
        if found:
            return found
    right = evidence.explains(1.0 / evidence.e, mask)
    if right.sum() >= _FEWEST:
        return _finding(evidence, "scale", "got is the reciprocal of the expected value", 0.92, right)
    return []


def _offset(evidence: Evidence) -> list[Finding]:
    mask = evidence.finite
    if mask.sum() < _FEWEST or np.ptp(evidence.e[mask]) == 0:
        return []
    offset = float(np.median((evidence.g - evidence.e)[evidence.fitted]))
    right = evidence.explains(evidence.e + offset)
    if right.sum() < _FEWEST:
        return []
    text = f"every wrong element is the expected one {'+' if offset >= 0 else '-'} {short(abs(offset))}"
    return _finding(evidence, "offset", text, 0.9, right, offset=offset)


def _by_axis(evidence: Evidence) -> list[Finding]:
    """A factor or a difference of its own for each row (normalisations, softmax) or each column (weights)."""
    shape = evidence.shape
    found: list[Finding] = []
    if len(shape) < 1 or evidence.count < 2 * _FEWEST:
        return found
    width = shape[-1]
    rows = evidence.got.size // max(1, width)
    for axis, what in ((1, "row"), (0, "column")):
        length = (rows, width)[axis]
        if length < _FEWEST or (rows, width)[1 - axis] < 1 or (axis == 1 and rows == 1):
            continue
        finite = evidence.fitted.reshape(rows, width)
        g = np.where(finite, evidence.g.reshape(rows, width), 0.0)
        e = np.where(finite, evidence.e.reshape(rows, width), 0.0)
        # One number for each line is no finding where lines have hardly more wrong elements than that.
        lines = evidence.finite.reshape(rows, width).sum(axis=axis)
        if lines[lines > 0].min() < _FEWEST:
            continue
        lines = finite.sum(axis=axis)
        factor = np.nan_to_num((g * e).sum(axis, keepdims=True) / (e * e).sum(axis, keepdims=True), posinf=0)
        offset = (g - e).sum(axis, keepdims=True) / np.maximum(finite.sum(axis, keepdims=True), 1)
        whole = evidence.e.reshape(rows, width)
        for pattern, predicted, numbers in (("scale", whole * factor, factor), ("offset", whole + offset, offset)):
            if not numbers.any():
                continue  # nothing is left of it: that is a constant
            right = evidence.explains(predicted.reshape(shape))
            used = numbers.reshape(-1)[lines > 0]
            range_ = f"{short(float(used.min()))} to {short(float(used.max()))}"
            word = "multiplied by one factor" if pattern == "scale" else "shifted by one amount"
            text = f"each {what} is {word} ({range_})"
            found += _finding(
                evidence, pattern, text, 0.8, right, axis=what, least=float(used.min()), most=float(used.max())
            )
    return found


def _nice(value: float) -> float:
    """The simple fraction that a measured factor is meant to be."""
    simple = Fraction(value).limit_denominator(1024) if np.isfinite(value) else Fraction(0)
    near = abs(float(simple) - value) <= 1e-5 * abs(value) and simple != 1
    plain = simple.denominator & (simple.denominator - 1) == 0 or simple.denominator <= 16
    return float(simple) if near and plain and simple.numerator else value


def _factor(value: float) -> str:
    fraction = Fraction(value).limit_denominator(1024)
    bottom = fraction.denominator
    exact = float(fraction) == value and bottom > 1 and (bottom < 10 or bottom & (bottom - 1) == 0)
    # Six digits are not enough for what is nearly 1.
    shown = f"{value:.9g}" if short(value) == "1" else short(value)
    return shown + (f" ({fraction})" if exact else "")
