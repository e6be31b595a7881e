"""Values that stop somewhere: saturated, constant, not a number."""

from __future__ import annotations

import numpy as np

from tapml.locating.conditions import condition
from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.regions import box_of

# Overflow at large inputs is what one expects of NaN: less must be shown than of other conditions.
_CHANCE_OF_NAN = 100


def detect(evidence: Evidence) -> list[Finding]:
    """NaN and Inf by the inputs they come with; one value at all wrong elements; one value everywhere."""
    return [*_not_finite(evidence), *_constant(evidence), *_between(evidence)]


def _not_finite(evidence: Evidence) -> list[Finding]:
    found = []
    for name, mask in (("NaN", np.isnan(evidence.g)), ("Infinity", np.isinf(evidence.g))):
        bad = mask & evidence.wrong & np.isfinite(evidence.e)
        count = int(bad.sum())
        if not count or _is_fill(evidence, bad):
            continue
        share = count / evidence.count
        expected = evidence.e[bad]
        gives = _range(expected)
        details = {"elements": count, "expected_least": expected.min(), "expected_most": expected.max()}
        where = condition(evidence, bad, _CHANCE_OF_NAN)
        if where is not None:
            text = f"{name} for {where.text}; the reference gives {gives} there ({count} elements)"
            strength = 0.95 if where.precision == 1.0 else 0.8
            found.append(Finding("nan-range", text, strength * share, {**details, **where.details}))
        else:
            all_ = "every element" if count == bad.size else f"{count} of {bad.size} elements ({box_of(bad).words()})"
            text = f"{name} in {all_}; the reference gives {gives} there"
            found.append(Finding("nan-range", text, 0.82 * share, details))
    return found


def _is_fill(evidence: Evidence, bad: np.ndarray) -> bool:
    """NaN of all ones is what an output's buffer was filled with: nobody wrote it."""
    size = evidence.got.dtype.itemsize
    bits = evidence.got.view(np.dtype(f"u{size}"))
    return bool((bits[bad] == 2 ** (8 * size) - 1).all())


def _constant(evidence: Evidence) -> list[Finding]:
    g, wrong = evidence.g, evidence.wrong
    values = g[wrong & np.isfinite(g)]
    if values.size < 2:
        return []
    value = float(np.median(values))
    same = wrong & (g == value)
    n = int(same.sum())
    share = n / evidence.count
    expected = evidence.e[same]
    if share < 0.9 or (np.ptp(expected) == 0 and g.size > n):
        return []
    details = {"value": value, "elements": n}
    gives = _range(expected)
    if bool((g == value).all()):
        return [Finding("constant", f"every element is {short(value)}; the reference gives {gives}", 0.94, details)]
    rest = g[~same & np.isfinite(g)]
    if rest.size and value >= rest.max() and bool((expected > value).all()):
        text = f"values stop at {short(value)}: {n} elements are expected above it, up to {short(expected.max())}"
        return [Finding("saturation", text, 0.96 * share, details)]
    if rest.size and value <= rest.min() and bool((expected < value).all()):
        text = f"values stop at {short(value)}: {n} elements are expected below it, down to {short(expected.min())}"
        return [Finding("saturation", text, 0.96 * share, details)]
    text = f"{evidence.of(n)} wrong elements are {short(value)}; the reference gives {gives}"
    return [Finding("constant", text, 0.9 * share, details)]


def _between(evidence: Evidence) -> list[Finding]:
    """Values that stop at two limits."""
    finite = np.isfinite(evidence.g)
    if evidence.count < 4 or not finite.any():
        return []
    low, high = float(evidence.g[finite].min()), float(evidence.g[finite].max())
    below = evidence.wrong & (evidence.g == low) & (evidence.e < low)
    above = evidence.wrong & (evidence.g == high) & (evidence.e > high)
    n = int(below.sum() + above.sum())
    if low == high or min(below.sum(), above.sum()) < 2 or n < 0.9 * evidence.count:
        return []
    expected = evidence.e[below | above]
    text = f"values stop at {short(low)} and at {short(high)}: {n} elements are expected beyond, {_range(expected)}"
    details = {"least": low, "most": high, "elements": n}
    return [Finding("saturation", text, 0.96 * n / evidence.count, details)]


def _range(values: np.ndarray) -> str:
    least, most = values.min(), values.max()
    return short(least) if least == most else f"{short(least)} to {short(most)}"
