"""Values that stop somewhere: saturated, constant, not a number."""

from __future__ import annotations

import numpy as np

from tapml.locating.conditions import condition
from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.patterns.explained import explaining
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
    values = g[evidence.fitted]
    if not values.size:
        return []
    value = float(np.median(values))
    same = wrong & (g == value)
    n = int(same.sum())
    expected = evidence.e[same]
    if n < 2 or (np.ptp(expected) == 0 and g.size > n):
        return []
    pattern, specific = "saturation", 0.96
    rest = g[~same & np.isfinite(g)]
    if bool((g == value).all()):
        pattern, specific = "constant", 0.94
        text = f"every element is {short(value)}; the reference gives {_range(expected)}"
    elif rest.size and value >= rest.max() and bool((expected > value).all()):
        text = f"values stop at {short(value)}: {n} elements are expected above it, up to {short(expected.max())}"
    elif rest.size and value <= rest.min() and bool((expected < value).all()):
        text = f"values stop at {short(value)}: {n} elements are expected below it, down to {short(expected.min())}"
    else:
        pattern, specific = "constant", 0.9
        text = f"{evidence.of(n)} wrong elements are {short(value)}; the reference gives {_range(expected)}"
    return explaining(evidence, pattern, text, specific, same, details={"value": value})


def _between(evidence: Evidence) -> list[Finding]:
    """Values that stop at two limits."""
    known = np.isfinite(evidence.g) & ~evidence.held
    if evidence.count < 4 or not known.any():
        return []
    low, high = float(evidence.g[known].min()), float(evidence.g[known].max())
    below = evidence.wrong & (evidence.g == low) & (evidence.e < low)
    above = evidence.wrong & (evidence.g == high) & (evidence.e > high)
    n = int(below.sum() + above.sum())
    if low == high or min(below.sum(), above.sum()) < 2:
        return []
    expected = evidence.e[below | above]
    text = f"values stop at {short(low)} and at {short(high)}: {n} elements are expected beyond, {_range(expected)}"
    return explaining(evidence, "saturation", text, 0.96, below | above, details={"least": low, "most": high})


def _range(values: np.ndarray) -> str:
    least, most = values.min(), values.max()
    return short(least) if least == most else f"{short(least)} to {short(most)}"
