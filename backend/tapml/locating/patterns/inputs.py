"""Wrong elements told by the inputs they come with, or that are an input."""

from __future__ import annotations

import math
import re

import numpy as np

from tapml.locating.conditions import condition
from tapml.locating.evidence import Evidence, Finding
from tapml.locating.patterns.explained import explaining
from tapml.locating.regions import box_of

_NO_BETTER = 0.6
"""Where a block of the output tells the wrong elements as well, inputs may be what they are there by chance."""


def detect(evidence: Evidence) -> list[Finding]:
    """Mask: a condition on an input that tells wrong from right. And outputs that are an input as it is."""
    return [*_condition(evidence), *_copied(evidence)]


def _condition(evidence: Evidence) -> list[Finding]:
    found = condition(evidence, evidence.wrong)
    if found is None:
        return []
    share = "all of them are" if found.precision == 1.0 else f"{found.precision:.0%} of the elements there are wrong"
    is_ = re.sub(r" = | (?=above |below )", " is ", found.text, count=1)
    text = f"wrong only where {is_}" + ("" if found.precision == 1.0 else f" ({share})")
    strength = (0.9 if found.discrete else 0.85) * (0.5 + 0.5 * found.precision)
    box = box_of(evidence.wrong)
    if box.density >= found.precision and any(axis.kind in ("one", "range") for axis in box.axes):
        strength *= _NO_BETTER
    return [Finding("mask", text, strength, {**found.details, "precision": found.precision})]


def _copied(evidence: Evidence) -> list[Finding]:
    for number, array in enumerate(evidence.inputs):
        if array.size != math.prod(evidence.shape) or array.dtype.kind not in "fiu" or evidence.count < 4:
            continue
        values = array.astype(np.float64).reshape(evidence.shape)
        right = evidence.explains(values)
        name, n = evidence.name(number), int(right.sum())
        text = f"{evidence.of(n)} wrong elements are {name} as it came in"
        if (
            n
            and np.ptp(values[evidence.wrong]) > 0
            and (found := explaining(evidence, "mask", text, 0.93, right, details={"input": name}))
        ):
            return found
    return []
