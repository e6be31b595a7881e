"""Operators that a compiler knows by more than their loops: which one it is, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ATTRIBUTE = "tapml.by_hand"
"""Of a PrimFunc: JSON of the operator's name and of all that its loops were made with."""


def by_hand(name: str, **options: float) -> dict[str, str]:
    """The attribute of a PrimFunc that is the operator `name` with these options."""
    return {ATTRIBUTE: json.dumps([name, options])}


def options_of(prim_func: Any, name: str) -> Mapping[str, float] | None:
    """What the operator `name` was made with; None where this is another, or a fused one."""
    found = prim_func.attrs.get(ATTRIBUTE) if prim_func is not None and prim_func.attrs else None
    if found is None:
        return None
    known, options = json.loads(str(found))
    return dict(options) if known == name else None
