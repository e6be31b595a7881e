"""Sums and products up to each element of an axis."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tapml.importing.scatter import moved, product

SCANS = {"relax.cumsum": (te.sum, 0), "relax.cumprod": (product, 1)}
"""How they join elements, and what changes nothing."""


def scanned(data: Any, axis: int, exclusive: bool, dtype: str, name: str) -> Any:
    """By `name` of `SCANS`. Each element is joined with all before it: this is quadratic."""
    reducer, neutral = SCANS[name]
    other = te.reduce_axis((0, data.shape[axis]), "k")

    def total(*at: Any) -> Any:
        before = other < at[axis] if exclusive else other <= at[axis]
        value = data(*moved(at, axis, other)).astype(dtype)
        return reducer(tirx.Select(before, value, tirx.const(neutral, dtype)), axis=other)

    return te.compute(data.shape, total, name="scanned")
