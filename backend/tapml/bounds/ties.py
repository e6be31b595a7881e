"""Equals in a ranking (top-k, sort): which elements may change places."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tapml.bounds.uncertain import Uncertain


@dataclass(frozen=True)
class Ranking:
    """The `data` that a program ranks along an `axis`, and the `ranks` it gave, in the data's shape."""

    data: Uncertain
    axis: int
    ranks: np.ndarray


def tie_groups(ranking: Ranking, indices: np.ndarray) -> np.ndarray | None:
    """Rows (group, kind, number) of `Tolerance.ties` for an output of indices; None where there are no equals.

    Neighbours in rank belong together where what they may be off by makes them equal. `indices` has as many elements
    along the axis as were asked for; those that do not hold the ranking's places get no ties.
    """
    axis, ranks = ranking.axis, ranking.ranks
    count = indices.shape[axis] if indices.ndim == ranks.ndim else 0
    others = [extent for a, extent in enumerate(ranks.shape) if a != axis]
    if not count or [extent for a, extent in enumerate(indices.shape) if a != axis] != others:
        return None
    order = np.argsort(np.moveaxis(ranks, axis, -1), axis=-1)  # place of the element of each rank
    if not np.array_equal(order[..., :count], np.moveaxis(indices, axis, -1)):
        return None
    low = np.take_along_axis(np.moveaxis(np.broadcast_to(ranking.data.low, ranks.shape), axis, -1), order, -1)
    high = np.take_along_axis(np.moveaxis(np.broadcast_to(ranking.data.high, ranks.shape), axis, -1), order, -1)
    touching = np.maximum(low[..., :-1], low[..., 1:]) <= np.minimum(high[..., :-1], high[..., 1:])
    positions = np.moveaxis(np.arange(indices.size).reshape(indices.shape), axis, -1)
    rows: list[tuple[int, int, int]] = []
    number = 0
    flat = (math.prod(others), -1)
    for row_order, row_touching, row_positions in zip(
        order.reshape(flat), touching.reshape(flat), positions.reshape(flat), strict=True
    ):
        for start, stop in _runs(row_touching):
            if start >= count:
                continue
            rows += [(number, 0, int(p)) for p in row_positions[start : min(stop, count)]]
            rows += [(number, 1, int(i)) for i in row_order[start:stop]]
            number += 1
    return np.array(rows, np.int32) if rows else None


def alternatives(runs: list[np.ndarray]) -> np.ndarray | None:
    """Ties of an output of indices whose elements differ between runs that chose differently among equals."""
    values = np.stack([run.reshape(-1) for run in runs])
    rows: list[tuple[int, int, int]] = []
    for number, position in enumerate(np.flatnonzero((values != values[0]).any(axis=0))):
        rows.append((number, 0, int(position)))
        rows += [(number, 1, int(value)) for value in np.unique(values[:, position])]
    return np.array(rows, np.int32) if rows else None


def _runs(touching: np.ndarray) -> list[tuple[int, int]]:
    """Stretches of neighbours that belong together, as (start, stop), of at least two."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], touching.astype(np.int8), [0]))))
    return [(int(start), int(stop) + 1) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
