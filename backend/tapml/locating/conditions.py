"""Which inputs the wrong elements come with: a threshold or a value of an input that tells them from right ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.locating.evidence import Evidence, short

CHANCE = 1e4
"""A threshold that splits n values into k wrong and others right by chance has odds of one in n over k: below this it
is taken for chance."""


_LEAST = 0.5
"""Of the elements that meet a condition so many must be wrong."""

_FEW = 8
"""An input of no more distinct values is a mask or a table of flags."""


@dataclass(frozen=True)
class Condition:
    """A condition that every element of a mask meets. `precision`: the share of those that meet it which are in it."""

    text: str
    precision: float
    discrete: bool
    details: dict[str, Any]


def condition(evidence: Evidence, mask: np.ndarray, chance: float = CHANCE) -> Condition | None:
    """The most precise condition on an input that holds for all of `mask`, and seldom elsewhere.

    `chance`: the odds against coincidence that are asked for.
    """
    best: Condition | None = None
    if not mask.any() or mask.all():
        return None
    for name, values, distinct in _features(evidence):
        for found in _of_feature(name, values, distinct, mask, math.log(chance)):
            if found.precision >= _LEAST and (best is None or found.precision > best.precision + 1e-9):
                best = found
        if best is not None and best.precision == 1.0:
            break
    return best


def _of_feature(name: str, values: np.ndarray, distinct: int, mask: np.ndarray, unlikely: float) -> Iterator[Condition]:
    inside = values[mask]
    low, high = inside.min(), inside.max()
    if np.isnan(low) or np.isnan(high):
        return
    total, count = values.size, int(mask.sum())
    regions = {"equals": values == low} if low == high else {"above": values >= low, "below": values <= high}
    for word, region in regions.items():
        size = int(region.sum())
        if not _telling(total, size, count, distinct, unlikely):
            continue
        edge = low
        if word != "equals":
            edge = values[~region].max() if word == "above" else values[~region].min()
        text = f"{name} {'=' if word == 'equals' else word} {short(edge)}"
        yield Condition(text, count / size, word == "equals", {"input": name, word: float(edge)})


def _telling(total: int, region: int, count: int, distinct: int, unlikely: float) -> bool:
    """Is it more than chance that all of `count` elements lie in a region of this size?"""
    if region == total or region > 0.6 * total:
        return False
    # Elements of equal inputs are wrong together: only so many independent ones are there.
    scale = min(1.0, distinct / total)
    n, k = max(1, round(total * scale)), max(1, round(region * scale))
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    # A split of few values by a few others (two masks, say) is told by how well it fits.
    return ways >= unlikely or (distinct <= _FEW and count == region and min(count, total - count) >= 4)


def _features(evidence: Evidence) -> Iterator[tuple[str, np.ndarray, int]]:
    """(name, a number for each output element, how many distinct ones there are at most)."""
    shape = evidence.shape
    for number, array in enumerate(evidence.inputs):
        if array.dtype.kind not in "fiu" or array.size < 2:
            continue
        name = evidence.name(number)
        if (spread := _spread(array, shape)) is not None:
            values, distinct = spread.astype(np.float64), _distinct(array)
            yield name, values, distinct
            yield f"|{name}|", np.abs(values), distinct
        for text, axis, keep in _reductions(array.shape, shape, name):
            reduced = np.abs(array).max(axis=axis, keepdims=keep)
            if (spread := _spread(reduced, shape)) is not None:
                yield text, spread.astype(np.float64), reduced.size


def _distinct(array: np.ndarray) -> int:
    # The first elements of a large array are enough to tell a mask from numbers.
    few = len(np.unique(array.reshape(-1)[:4096]))
    return few if few <= _FEW else array.size


def _spread(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    if values.size < 2 or values.size > math.prod(shape):
        return None
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        return values.reshape(shape) if values.size == math.prod(shape) else None


def _reductions(found: tuple[int, ...], shape: tuple[int, ...], name: str) -> Iterator[tuple[str, int, bool]]:
    """Of the elements that lie in the row of an output, or are summed up to it: the largest magnitude."""
    rows = math.prod(found[:-1])
    if found[-1] > 1 and rows > 1 and found[:-1] == shape[: len(found) - 1]:
        yield f"the largest |{name}| of the row", -1, True
    for axis in range(len(found)):
        if found[axis] > 1 and found[:axis] + found[axis + 1 :] == shape:
            yield f"the largest |{name}| along axis {axis}", axis, False
