"""Values that went through another dtype."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tapml.locating.evidence import Evidence, Finding

_ENOUGH = 0.95
# bfloat16's numbers of ordinary size are float16's as well, so they are tried first.
_NARROW = (("bfloat16", ml_dtypes.bfloat16, 2.0**-7), ("float16", np.float16, 2.0**-10))


def detect(evidence: Evidence) -> list[Finding]:
    """The first conversion that explains the mismatch."""
    if not evidence.finite.any():
        return []
    for text, predicted in _conversions(evidence):
        n = int((evidence.finite & (evidence.g == predicted)).sum())
        if n and n >= _ENOUGH * evidence.count and _distinct(evidence):
            text = f"{text} ({evidence.of(n)} wrong elements)"
            return [Finding("dtype-conversion", text, 0.95 * n / evidence.count, {"explained": n})]
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
    got = evidence.got[evidence.finite]
    if not (got != np.rint(got)).any():
        return []
    for name, dtype, unit in _NARROW:
        held = got.astype(dtype).astype(np.float32) == got
        near = evidence.error[evidence.finite] <= unit * np.abs(evidence.e[evidence.finite])
        n = int((held & near).sum())
        if n >= _ENOUGH * evidence.count:
            text = (
                f"rounded to {name}: {n} of {evidence.count} wrong elements are exact {name} numbers near the expected"
            )
            return [Finding("dtype-conversion", text, 0.93 * n / evidence.count, {"explained": n, "dtype": name})]
    return _as_if(evidence)


def _as_if(evidence: Evidence) -> list[Finding]:
    """Errors as large as a narrower dtype makes them, at every magnitude."""
    mask = evidence.finite & (evidence.e != 0)
    if int(mask.sum()) < 32:
        return []
    relative = evidence.error[mask] / np.abs(evidence.e[mask])
    outward = float(((evidence.g - evidence.e)[mask] * np.sign(evidence.e[mask]) > 0).mean())
    if not 0.2 <= outward <= 0.8 or np.quantile(relative, 0.1) > 0.5 * np.median(relative):
        return []  # roundings go both ways, and some are small: a wrong epsilon, or a limit, is none
    typical, most = float(np.median(relative)), float(np.quantile(relative, 0.99))
    for name, unit in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        if unit / 8 <= typical <= unit and most <= 2.5 * unit:
            text = f"relative errors of about {typical:.2g} at every magnitude, as if computed in {name}"
            return [Finding("dtype-conversion", text, 0.6, {"typical_relative_error": typical, "dtype": name})]
    return []
