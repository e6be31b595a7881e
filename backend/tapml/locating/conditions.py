"""Which inputs the wrong elements come with: a threshold or a value of an input that tells them from right ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.locating.evidence import Evidence, short
from tapml.locating.held_out import accepted, halves

CHANCE = 1e4
"""A threshold that splits n values into k wrong and others right by chance has odds of one in n over k: below this it
is taken for chance."""


_LEAST = 0.5
"""Of the elements that meet a condition so many must be wrong."""

_MET = 0.9
"""Of the wrong elements that a condition was not made from so many must meet it."""

_AS_PRECISE = 0.9
"""Of those that meet it so many must be wrong, for each that is among all."""

_FEW = 8
"""An input of no more distinct values is a mask or a table of flags."""


@dataclass(frozen=True)
class Condition:
    """A condition that every element of a mask meets. `precision`: the share of those that meet it which are in it."""

    text: str
    precision: float
    discrete: bool
    details: dict[str, Any]


@dataclass(frozen=True)
class _Feature:
    """A number for each output element, of which there are `distinct` ones at most. `origin`: which value of the input
    it is: elements that share one are wrong together, and stand in the same half."""

    name: str
    values: np.ndarray
    origin: np.ndarray
    distinct: int


def condition(evidence: Evidence, mask: np.ndarray, chance: float = CHANCE) -> Condition | None:
    """The most precise condition on an input that holds for all of `mask`, and seldom elsewhere.

    Its threshold is taken from half of the input's values, and has to tell the elements of the others. `chance`: the
    odds against coincidence that are asked for.
    """
    best: Condition | None = None
    if not mask.any() or mask.all():
        return None
    for feature in _features(evidence):
        for found in _of_feature(feature, mask, math.log(chance)):
            if best is None or found.precision > best.precision + 1e-9:
                best = found
        if best is not None and best.precision == 1.0:
            break
    return best


def _of_feature(feature: _Feature, mask: np.ndarray, unlikely: float) -> Iterator[Condition]:
    values, total, count = feature.values, feature.values.size, int(mask.sum())
    if np.isnan(values[mask]).any():
        return
    for word in ("equals", "above", "below"):
        # It is what it is for all elements that is said, where half of them would say it of the others.
        whole = _region(values, mask, ~mask, word)
        if whole is None or not _telling(total, int(whole[0].sum()), count, feature.distinct, unlikely):
            continue
        held = _held(feature.origin, mask)
        made = _region(values, mask & ~held, ~mask & ~held, word)
        if made is None:
            continue
        tried = _between(values, values[mask & ~held], made[1], word)
        if accepted(tried, mask & held, _MET) is None:
            continue
        region, edge = whole
        precision = count / int(region.sum())
        if precision >= _LEAST and accepted(mask, tried & held, _AS_PRECISE * precision) is not None:
            text = f"{feature.name} {'=' if word == 'equals' else word} {short(edge)}"
            yield Condition(text, precision, word == "equals", {"input": feature.name, word: edge})


def _held(origin: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Elements that no threshold is made from: of half of the values that come with elements of the mask, and of half
    of the others."""
    marked = np.zeros(int(origin.max()) + 1, np.bool_)
    marked[origin[mask]] = True
    kept = np.zeros_like(marked)
    for values in (np.flatnonzero(marked), np.flatnonzero(~marked)):
        kept[values[halves(len(values))[1]]] = True
    return np.asarray(kept[origin])


def _region(values: np.ndarray, inside: np.ndarray, outside: np.ndarray, word: str) -> tuple[np.ndarray, float] | None:
    """Where the condition holds that all elements `inside` meet, and the fewest of those `outside`; its number."""
    found = values[inside]
    if not found.size:
        return None
    low, high = found.min(), found.max()
    if word == "equals":
        return (values == low, float(low)) if low == high else None
    beyond = values[outside & ((values < low) if word == "above" else (values > high))]
    if not beyond.size:
        return None
    edge = beyond.max() if word == "above" else beyond.min()
    return (values > edge if word == "above" else values < edge), float(edge)


def _between(values: np.ndarray, inside: np.ndarray, edge: float, word: str) -> np.ndarray:
    """Where the condition holds with a threshold halfway from what is outside to what is inside: of few elements the
    halves seldom have both neighbours of the true one."""
    if word == "equals":
        region = values == edge
    else:
        nearest = inside.min() if word == "above" else inside.max()
        halfway = (edge + nearest) / 2
        region = values > halfway if word == "above" else values < halfway
    return np.asarray(region)


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


def _features(evidence: Evidence) -> Iterator[_Feature]:
    shape = evidence.shape
    for number, array in enumerate(evidence.inputs):
        if array.dtype.kind not in "fiu" or array.size < 2:
            continue
        name = evidence.name(number)
        if (spread := _spread(array, shape)) is not None:
            values, origin, distinct = spread.astype(np.float64), _origin(array, shape), _distinct(array)
            yield _Feature(name, values, origin, distinct)
            yield _Feature(f"|{name}|", np.abs(values), origin, distinct)
        for text, axis, keep in _reductions(array.shape, shape, name):
            reduced = np.abs(array).max(axis=axis, keepdims=keep)
            if (spread := _spread(reduced, shape)) is not None:
                yield _Feature(text, spread.astype(np.float64), _origin(reduced, shape), reduced.size)


def _origin(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """For each element of the output, which of the values it comes with."""
    found = _spread(np.arange(values.size).reshape(values.shape), shape)
    assert found is not None  # the values themselves were spread
    return found


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
