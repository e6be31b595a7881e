"""Dispatches of a kernel by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """WGSL with one entry point; its operands in the order of its bindings, {"argument": n} or {"temporary": n};
    workgroups [x, y, z], expressions."""

    text: str
    operands: list[dict[str, int]]
    workgroups: list[Any]


@dataclass(frozen=True)
class Launches:
    """One after the other; `temporaries`: bytes of what they hand on."""

    launches: list[Launch]
    temporaries: list[Any]
