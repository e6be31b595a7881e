"""Grids that are folded: more workgroups along x than a dispatch may have become rows along z."""

from __future__ import annotations

_GUARD = "if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }"


def without_surplus_workgroup(wgsl: str) -> str:
    """The text with a guard that is right.

    TVM 0.27's lets the workgroup after the last one run, where a folded grid has such a place: what it writes is
    clamped to the last element, where it races with the workgroup that owns it (tests/faults/surplus-block).
    """
    return wgsl.replace(_GUARD, _GUARD.replace(" > ", " >= "))
