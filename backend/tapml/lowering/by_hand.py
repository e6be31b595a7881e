"""Operators that a compiler knows by more than their loops: which one it is, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ATTRIBUTE = "tapml.by_hand"
"""Of a PrimFunc: JSON of the operator's name and of all that its loops were made with."""


@dataclass(frozen=True)
class MadeWith:
    """`also`: the arguments that it has besides those that it always has, by name, in their order."""

    also: tuple[str, ...]
    options: Mapping[str, float]


def by_hand(name: str, *also: str, **options: float) -> dict[str, str]:
    """The attribute of a PrimFunc that is the operator `name`, made with these."""
    return {ATTRIBUTE: json.dumps([name, also, options])}


def is_by_hand(prim_func: Any) -> bool:
    """Whether it is such an operator, or a fused one."""
    return prim_func is not None and bool(prim_func.attrs) and ATTRIBUTE in prim_func.attrs


def made_with(prim_func: Any, name: str) -> MadeWith | None:
    """What the operator `name` was made with; None where this is another, or a fused one."""
    found = prim_func.attrs.get(ATTRIBUTE) if prim_func is not None and prim_func.attrs else None
    if found is None:
        return None
    known, also, options = json.loads(str(found))
    return MadeWith(tuple(also), options) if known == name else None
