"""Findings that explain wrong elements, as far as those that they were not made from bear them out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.held_out import accepted

ENOUGH = 0.9
"""Of the wrong elements a pattern has to explain."""


def explaining(
    evidence: Evidence,
    pattern: str,
    text: str,
    specific: float,
    mask: np.ndarray,
    *,
    enough: float = ENOUGH,
    among: np.ndarray | None = None,
    details: Mapping[str, object] | None = None,
) -> list[Finding]:
    """The finding, or none. `mask`: the wrong elements that it explains, of those `among` which it has to explain them
    (all wrong ones); `specific`: its strength where that is all."""
    asked = evidence.wrong if among is None else evidence.wrong & among
    n = int((mask & evidence.wrong).sum())
    share = accepted(mask, asked & evidence.held, enough)
    if share is None or int((mask & asked).sum()) < enough * int(asked.sum()):
        return []
    strength = specific * min(n / evidence.count, share)
    return [Finding(pattern, text, strength, {"explained": n, **(details or {})})]
