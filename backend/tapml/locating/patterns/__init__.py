"""Pattern analysis of a mismatch: each detector looks for one family and says only what is true of all elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula import explain
from tapml.locating.patterns import determinism, dtypes, inputs, limits, moved, places, rest, values

PATTERNS = (
    "stride", "tile-edge", "tail", "broadcast", "mask", "sign", "scale", "offset", "saturation", "nan-range",
    "dtype-conversion", "unwritten", "uninitialised", "race", "repeat-row", "shift", "transpose", "constant", "noise",
    "scattered", "error", "unbounded", "ties", "wrong-constant", "wrong-operation", "wrong-condition", "wrong-index",
    "wrong-terms", "one-number", "position",
)  # fmt: skip

PLACES = frozenset({"position", "stride", "tile-edge", "tail", "scattered"})
"""Patterns that say where, beside which another may say what."""

SIMPLE = frozenset(
    ("sign", "scale", "offset", "constant", "saturation", "shift", "transpose", "broadcast", "repeat-row", "mask",
     "dtype-conversion")
)  # fmt: skip
"""What the output alone shows: where this explains everything, a change of the operator's program stands behind it."""

_TELLS_WHERE = 0.98
"""Of the right elements so many stay as they are."""

_BORNE_OUT = ("factor", "offset", "axis", "shift", "value", "dtype", "axes", "period")
"""What a finding says that has to be the same for other inputs."""

_FEWEST = 8
"""Wrong elements that show a pattern."""

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
    """All that is found of an output's mismatch, strongest first; one of each pattern, and one by the program."""
    if not evidence.count and len(evidence.runs) < 2:
        return []
    found: dict[tuple[str, bool], Finding] = {}
    # Infinities and NaN are what is looked at: what becomes of them in a formula decides whether it explains anything.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for detector in DETECTORS:
            for finding in detector(evidence):
                if not _borne_out(finding, detector, evidence):
                    continue
                key = (finding.pattern, by_program(finding))
                known = found.get(key)
                if known is None or finding.strength > known.strength:
                    found[key] = finding
        chosen = _behind_simpler(list(found.values()), evidence)
        if all(finding.strength < _TELLING for finding in chosen):
            chosen += rest.detect(evidence)
    return sorted(chosen, key=lambda finding: -finding.strength)


def by_program(finding: Finding) -> bool:
    """Is it by a change of the operator's program (formula/explain.py)?"""
    return "edit" in finding.details


def _borne_out(finding: Finding, detector: Detector, evidence: Evidence) -> bool:
    """Does what the output alone shows come again where the inputs are others? A program's change is tested there by
    itself."""
    if finding.pattern not in SIMPLE or by_program(finding) or finding.pattern == "mask":
        return True
    tried = [trial for trial in evidence.trials if trial.count >= _FEWEST]
    return all(any(_alike(finding, other) for other in detector(trial)) for trial in tried)


def _alike(one: Finding, other: Finding) -> bool:
    if one.pattern != other.pattern:
        return False
    said = [(one.details[key], other.details.get(key)) for key in _BORNE_OUT if key in one.details]
    return all(
        math.isclose(a, b, rel_tol=1e-3) if isinstance(a, float) and isinstance(b, float) else a == b for a, b in said
    )


def _behind_simpler(found: list[Finding], evidence: Evidence) -> list[Finding]:
    """What needs the operator's program does not stand before what explains as much without it, unless it tells which
    elements are wrong as well."""
    simple = [
        (finding.details.get("explained", 0) / evidence.count, finding.strength)
        for finding in (found if evidence.count else ())
        if finding.pattern in SIMPLE and not by_program(finding) and not isinstance(finding.details.get("axis"), str)
    ]
    everywhere = evidence.count >= 0.9 * evidence.got.size

    def behind(finding: Finding) -> Finding:
        share = max(0.9, finding.details["share"] - 0.02)
        before = max((strength for explained, strength in simple if explained >= share), default=1.0)
        tells_more = not everywhere and finding.details.get("unchanged", 0.0) >= _TELLS_WHERE
        return finding if tells_more else replace(finding, strength=min(finding.strength, before - 0.01))

    return [behind(finding) if by_program(finding) else finding for finding in found]
