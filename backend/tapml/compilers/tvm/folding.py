"""Grids of more workgroups along x than a dispatch may have: TVM's kernels take planes of them along z."""

from __future__ import annotations

from typing import Any

from tapml.protocol.kernels import MOST_WORKGROUPS

GRID_UNIFORM = "packGridDimX"
"""The last number of TVM's uniform: workgroups along x before they are folded, by which surplus ones are left out."""

_GUARD = f"if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.{GRID_UNIFORM}) {{ return; }}"


def without_surplus_workgroup(wgsl: str) -> str:
    """The text with a guard that is right.

    TVM 0.27's lets the workgroup after the last one run, where a folded grid has such a place: what it writes is
    clamped to the last element, where it races with the workgroup that owns it (tests/faults/surplus-block).
    """
    return wgsl.replace(_GUARD, _GUARD.replace(" > ", " >= "))


def folded(x: Any) -> tuple[Any, Any]:
    """The grid's x and z for `x` workgroups, an expression: as few planes as will do, each as small as will do."""
    if isinstance(x, int):
        count = max(1, -(-x // MOST_WORKGROUPS))
        return -(-x // count), count
    planes = ["max", 1, ["ceildiv", x, MOST_WORKGROUPS]]
    return ["ceildiv", x, planes], planes
