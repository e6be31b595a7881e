"""Values that went through another dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.patterns.explained import explaining

_ENOUGH = 0.95
# bfloat16's numbers of ordinary size are float16's as well, so they are tried first.
_NARROW = (("bfloat16", ml_dtypes.bfloat16, 2.0**-7), ("float16", np.float16, 2.0**-10))


def detect(evidence: Evidence) -> list[Finding]:
    """The first conversion that explains the mismatch."""
    if not evidence.finite.any():
        return []
    for text, predicted in _conversions(evidence):
        right = evidence.finite & (evidence.g == predicted)
        text = f"{text} ({evidence.of(int(right.sum()))} wrong elements)"
        found = explaining(evidence, "dtype-conversion", text, 0.95, right, enough=_ENOUGH)
        if found and _distinct(evidence):
            return found
    return _rounded(evidence)


def _distinct(evidence: Evidence) -> bool:
    """One value that fits a conversion is chance."""
    return len(np.unique(evidence.g[evidence.finite])) > 2


def _conversions(evidence: Evidence) -> Iterator[tuple[str, np.ndarray]]:
    e = evidence.e
    if evidence.got.dtype.kind == "f":
        yield "the fraction is cut off, as by a conversion to an integer", np.trunc(e)
        yield "rounded to whole numbers", np.rint(e)
        yield "rounded down to whole numbers", np.floor(e)
        for bits in (8, 16, 32):
            yield (
                f"wrapped around modulo 2^{bits}, as an unsigned integer of {bits} bits",
                np.mod(np.trunc(e), 2.0**bits),
            )
        if evidence.got.dtype == np.float32:
            same = np.ascontiguousarray(evidence.expected).view(np.int32).astype(np.float32).astype(np.float64)
            yield "the bits of the expected value read as an integer", same
        return
    for bits in (8, 16, 32):
        wrapped = np.mod(e, 2.0**bits)
        yield f"wrapped around modulo 2^{bits}, unsigned", wrapped
        yield (
            f"wrapped around modulo 2^{bits}, signed",
            np.where(wrapped >= 2.0 ** (bits - 1), wrapped - 2.0**bits, wrapped),
        )
    bits32 = evidence.expected.astype(np.float32).view(np.int32).astype(np.float64)
    yield "the bits of the expected number as a float32", bits32


def _rounded(evidence: Evidence) -> list[Finding]:
    """Elements that a narrower dtype holds exactly, a rounding away from the expected ones."""
    if evidence.got.dtype != np.float32 or evidence.count < 4:
        return []
    got = np.where(evidence.finite, evidence.got, np.float32(0))
    if not (got != np.rint(got)).any():
        return []
    for name, dtype, unit in _NARROW:
        exact = got.astype(dtype).astype(np.float32) == got
        right = evidence.finite & exact & (evidence.error <= unit * np.abs(evidence.e))
        of = evidence.of(int(right.sum()))
        text = f"rounded to {name}: {of} wrong elements are exact {name} numbers near the expected"
        if found := explaining(
            evidence, "dtype-conversion", text, 0.93, right, enough=_ENOUGH, details={"dtype": name}
        ):
            return found
    return _multiples(evidence) or _as_if(evidence)


def _multiples(evidence: Evidence) -> list[Finding]:
    """Multiples of a power of two, as fixed-point numbers are, less than that away from the expected ones."""
    fitted = evidence.g[evidence.fitted]
    # Of what is smaller than this, ordinary numbers are multiples as well.
    least = 2.0**-12 * float(np.max(np.abs(fitted)))
    size = 2.0 ** math.ceil(math.log2(max(float(np.max(evidence.error[evidence.fitted])), least, 1e-30)))
    for step in (2 * size, size, size / 2):
        right = evidence.finite & (evidence.g == np.rint(evidence.g / step) * step) & (evidence.error <= step)
        text = f"rounded to multiples of {short(step)} ({evidence.of(int(right.sum()))} wrong elements)"
        if found := explaining(evidence, "dtype-conversion", text, 0.9, right, enough=_ENOUGH, details={"step": step}):
            return found if step >= least and _distinct(evidence) else []
    return []


def _as_if(evidence: Evidence) -> list[Finding]:
    """Errors as large as a narrower dtype makes them, at every magnitude, in both halves of them."""
    mask = evidence.finite & (evidence.e != 0)
    names = {_narrow(evidence, half) for half in (mask & evidence.fitted, mask & evidence.held)}
    name = names.pop()
    if names or not name:
        return []
    typical = float(np.median(evidence.error[mask] / np.abs(evidence.e[mask])))
    text = f"relative errors of about {typical:.2g} at every magnitude, as if computed in {name}"
    return [Finding("dtype-conversion", text, 0.6, {"typical_relative_error": typical, "dtype": name})]


def _narrow(evidence: Evidence, mask: np.ndarray) -> str:
    """The dtype whose roundings the errors there look like, or none."""
    if int(mask.sum()) < 16:
        return ""
    relative = evidence.error[mask] / np.abs(evidence.e[mask])
    outward = float(((evidence.g - evidence.e)[mask] * np.sign(evidence.e[mask]) > 0).mean())
    typical, most = float(np.median(relative)), float(np.quantile(relative, 0.99))
    if not 0.2 <= outward <= 0.8 or np.quantile(relative, 0.1) > 0.5 * typical:
        return ""  # roundings go both ways, and some are small: a wrong epsilon, or a limit, is none
    units = (("float16", 2.0**-11), ("bfloat16", 2.0**-8))
    return next((name for name, unit in units if unit / 8 <= typical <= unit and most <= 2.5 * unit), "")
