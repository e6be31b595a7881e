"""Pattern analysis of a mismatch: each detector looks for one family and says only what is true of all elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula import explain
from tapml.locating.patterns import determinism, dtypes, inputs, limits, moved, places, rest, values

PATTERNS = (
    "stride", "tile-edge", "tail", "broadcast", "mask", "sign", "scale", "offset", "saturation", "nan-range",
    "dtype-conversion", "unwritten", "uninitialised", "race", "repeat-row", "shift", "transpose", "constant", "noise",
    "scattered", "error", "unbounded", "ties", "wrong-constant", "wrong-operation", "wrong-condition", "wrong-index",
    "wrong-terms",
)  # fmt: skip

PLACES = frozenset({"stride", "tile-edge", "tail", "scattered"})
"""Patterns that say where, beside which another may say what."""

_TELLING = 0.5
"""From this strength on nothing needs to be said of how the rest looks."""

Detector: TypeAlias = Callable[[Evidence], list[Finding]]

DETECTORS: tuple[Detector, ...] = (
    determinism.detect,
    limits.detect,
    values.detect,
    moved.detect,
    dtypes.detect,
    inputs.detect,
    places.detect,
    explain.detect,
)


def findings(evidence: Evidence) -> list[Finding]:
    """All that is found of an output's mismatch, strongest first; one of each pattern."""
    if not evidence.count and len(evidence.runs) < 2:
        return []
    found: dict[str, Finding] = {}
    # Infinities and NaN are what is looked at: what becomes of them in a formula decides whether it explains anything.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for detector in DETECTORS:
            for finding in detector(evidence):
                known = found.get(finding.pattern)
                if known is None or finding.strength > known.strength:
                    found[finding.pattern] = finding
        if all(finding.strength < _TELLING for finding in found.values()):
            found |= {finding.pattern: finding for finding in rest.detect(evidence)}
    return sorted(found.values(), key=lambda finding: -finding.strength)
