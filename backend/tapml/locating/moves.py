"""Which other place each value comes from, as one rule for all indices: so many further, backwards, always one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_AMBIGUOUS = 8
"""What may have come from more places tells nothing of where."""

_FEWEST = 4
_MOST_RULES = 3
_MOST_AXES = 6
"""Each triples the rules that there are."""


@dataclass(frozen=True)
class Move:
    """`axes`: what becomes of each index: a number more ("more"), a number minus what it was ("minus"), or a number
    ("always"). `block`, above 0: instead of that, backwards in every so many elements in memory."""

    axes: tuple[tuple[str, int], ...]
    block: int = 0

    @property
    def cost(self) -> int:
        """The more, the less likely it is what somebody wrote."""
        if self.block:
            return 6
        return sum(0 if one == ("more", 0) else 3 if one[0] == "minus" or abs(one[1]) == 1 else 4 for one in self.axes)

    @property
    def mirrors(self) -> bool:
        return self.block > 0 or any(how == "minus" for how, _ in self.axes)

    def applied(self, array: np.ndarray) -> np.ndarray:
        """An array as it is where each element is read there; what is beyond an edge is read at the edge."""
        if self.block:
            place = np.arange(array.size)
            start = place - place % self.block
            found = array.reshape(-1)[np.minimum(2 * start + self.block - 1 - place, array.size - 1)]
            return np.asarray(found.reshape(array.shape))
        for axis, (how, number) in enumerate(self.axes):
            index, size = np.arange(array.shape[axis]), array.shape[axis]
            new = index + number if how == "more" else number - index if how == "minus" else np.full(size, number)
            array = array.take(np.clip(new, 0, size - 1), axis=axis)
        return array

    def words(self, shape: Sequence[int]) -> str:
        """Such as "one element too far along the last axis"."""
        if self.block:
            return f"backwards in every {self.block} in memory"
        said = []
        for axis, (how, number) in enumerate(self.axes):
            if (how, number) == ("more", 0) or shape[axis] == 1:
                continue
            if how == "always":
                text = f"at index {number} always"
            elif how == "minus":
                text = "backwards" if number == shape[axis] - 1 else f"at {number} minus its index"
            else:
                amount = "one element" if abs(number) == 1 else f"{abs(number)} elements"
                text = f"{amount} too {'far' if number > 0 else 'early'}"
            said.append(text + (f" along {axis_of(axis, len(shape))}" if len(shape) > 1 else ""))
        return " and ".join(said)


def axis_of(axis: int, ndim: int) -> str:
    """Where an index stands, for people."""
    return "the last axis" if axis == ndim - 1 else f"axis {axis}"


def moves(shape: Sequence[int], before: Sequence[np.ndarray], possible: np.ndarray) -> list[Move]:
    """The rules that hold for half of the elements or more, the best first. `before`: for each axis, the index at which
    each element should be read; `possible`: (elements, places in memory), may its value come from there?"""
    count = possible.sum(axis=1)
    known = np.flatnonzero((count > 0) & (count <= _AMBIGUOUS))
    if len(known) < max(_FEWEST, len(possible) / 2) or len(shape) > _MOST_AXES:
        return []
    votes: Counter[tuple[tuple[str, int], ...]] = Counter()
    blocks: Counter[int] = Counter()
    for element in known:
        old = [int(index[element]) for index in before]
        places = np.flatnonzero(possible[element])
        rules: set[tuple[tuple[str, int], ...]] = set()
        for place in places:
            new = (int(index) for index in np.unravel_index(place, shape))
            ways = ((("more", n - o), ("minus", n + o), ("always", n)) for n, o in zip(new, old, strict=True))
            rules.update(itertools.product(*ways))
        votes.update(rules)
        start = int(np.ravel_multi_index(old, shape, mode="clip"))
        blocks.update({size for place in places for size in _blocks(int(place) + start + 1)})
    found = [(-n, Move(axes)) for axes, n in votes.items() if n >= len(known) / 2]
    best = [move for _, move in sorted(found, key=lambda one: (one[0], one[1].cost))[:_MOST_RULES]]
    n, block = max(((n, size) for size, n in blocks.items()), default=(0, 0))
    return [*best, Move((), block)] if n >= len(known) / 2 else best


def _blocks(together: int) -> list[int]:
    """Of what is backwards in blocks, a place and where it should be, counted from 1 and 0, add up to an odd number of
    blocks: the sizes that these may have."""
    odd = np.arange(1, together // 2 + 1, 2)
    found: list[int] = (together // odd[together % odd == 0]).tolist()
    return found
