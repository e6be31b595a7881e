"""What differs from run to run, or is never written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.regions import box_of


def detect(evidence: Evidence) -> list[Finding]:
    """Race, uninitialised and unwritten elements; needs the runs."""
    if not evidence.runs:
        return []
    found = []
    total = evidence.got.size
    racing = differing(evidence.runs, evidence.fills, same_fill=True)
    if count := int(racing.sum()):
        wrong = int((racing & evidence.wrong).sum())
        place = box_of(racing).words()
        text = f"{count} of {total} elements differ from run to run with the same inputs ({place}): a race"
        details = {"differing": count, "wrong": wrong, "runs": len(evidence.runs)}
        found.append(Finding("race", text, 0.99 if wrong else 0.5, details))
    unwritten = kept(evidence) & evidence.wrong
    if count := int(unwritten.sum()):
        whole = "no element of the output was" if count == total else f"{count} of {total} elements were never"
        place = "" if count == total else f" ({box_of(unwritten).words()})"
        text = f"{whole} written: what the buffer held before is still there{place}"
        found.append(Finding("unwritten", text, _certain(count, evidence), {"elements": count}))
    # What differs between runs that begin alike tells nothing of how they begin.
    stale = (
        np.zeros_like(racing)
        if racing.any()
        else differing(evidence.runs, evidence.fills, same_fill=False) & ~unwritten & ~racing
    )
    if count := int(stale.sum()):
        text = (
            f"{count} of {total} elements depend on what the output's buffer held before the call "
            f"({box_of(stale).words()}): they are read before they are written"
        )
        found.append(Finding("uninitialised", text, _certain(count, evidence), {"elements": count}))
    return found


def _certain(count: int, evidence: Evidence) -> float:
    """However few elements it explains, it is a fact and no guess: above what is said where nothing fits."""
    return 0.6 + 0.37 * (min(1.0, count / evidence.count) if evidence.count else 1.0)


def differing(runs: Sequence[np.ndarray], fills: Sequence[int], *, same_fill: bool) -> np.ndarray:
    """Elements whose bits differ between runs that began alike (`same_fill`), or between any. NaN is as good as NaN."""
    found = np.zeros(runs[0].shape, bool)
    for number, run in enumerate(runs):
        other = fills.index(fills[number]) if same_fill else 0
        if other != number:
            found |= unlike(runs[other], run)
    return found


def unlike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elements of other bits."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    found = a.view(bits) != b.view(bits)
    if a.dtype.kind == "f" and found.any():
        found &= ~(np.isnan(a) & np.isnan(b))
    return np.asarray(found)


def kept(evidence: Evidence) -> np.ndarray:
    """Elements that hold the fill after every run. With one fill only, zeros would say nothing: 0xFF it is."""
    found = np.ones(evidence.got.shape, bool)
    for run, fill in zip(evidence.runs, evidence.fills, strict=True):
        size = run.dtype.itemsize
        bits = run.view(np.dtype(f"u{size}"))
        found &= bits == int.from_bytes(bytes([fill]) * size, "little")
    return found
