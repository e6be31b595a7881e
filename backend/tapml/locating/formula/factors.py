"""A sum of products in which one factor of some terms is another number than it should be.

A kernel that stages tiles of two inputs and reads one of them at a wrong place gives each row of its results other
numbers in the place of that row's own, which hang on threads and registers: no change of an index says them all. But
all results of the row have them in common, each times the other factor. So they follow from half of these results, and
the other half tells whether they are what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tapml.locating.formula.choices import Places, which
from tapml.locating.formula.nodes import Node, NotAFormula, within
from tapml.locating.formula.sums import Pool
from tapml.locating.formula.words import Words
from tapml.locating.held_out import accepted, halves

_PERIODS = (2, 4, 8, 16, 32, 64, 128)
_MOST_UNKNOWN = 16
"""Numbers of a row that are worked back together."""

_FEWEST = 12
_MOSTLY = 0.5
"""Results that decide, and their share of all: of the others there are too few in a row."""

_HOLDS = 0.9
_WORKED_BACK = 4.0
"""Times what a result may be off by: numbers that were worked back are off, too."""

_NEAR = 0.03
"""Of what a result is off by."""

_SAME = 1e-4
"""Of the largest factor."""


@dataclass(frozen=True)
class OtherFactor:
    """`text` goes on "got is what the operator gives with"; `share`: of the results that it was not made from."""

    pattern: str
    text: str
    share: float
    places: Places


def other_factors(pool: Pool, words: Words) -> Iterator[OtherFactor]:
    """Of each factor the fewest terms that do it."""
    term = pool.whole.operands[0]
    if term.kind != "mul" or term.operands[0] is term.operands[1]:
        return
    for factor, other in (term.operands, term.operands[::-1]):
        try:
            rows = pool.alike({str(node.value) for node in within(factor) if node.kind == "variable"})
            known, times = pool.of_terms(factor), pool.of_terms(other)
        except NotAFormula:
            continue
        groups = [found for row in range(rows.max() + 1) if (found := _Row.of(rows == row, times, pool)) is not None]
        for places in _sets(times.shape[1]):
            if (share := _share(groups, places, len(pool.off))) is not None:
                yield _said(factor, other, places, share, groups, known, pool, words)
                break


@dataclass(frozen=True)
class _Row:
    """Results with one factor in common: their numbers, those that tell of it, and those that are held."""

    numbers: np.ndarray
    times: np.ndarray
    off: np.ndarray
    allowed: np.ndarray
    fitted: np.ndarray
    held: np.ndarray

    @staticmethod
    def of(mask: np.ndarray, times: np.ndarray, pool: Pool) -> _Row | None:
        """None where there are too few of them."""
        numbers = np.flatnonzero(mask)
        # What is made of the same numbers tells nothing new.
        numbers = numbers[np.sort(np.unique(times[numbers], axis=0, return_index=True)[1])]
        if len(numbers) < 4:
            return None
        fitted, held = halves(len(numbers))
        return _Row(numbers, times[numbers], pool.off[numbers], pool.allowed[numbers], fitted, held)

    def tells(self, places: Places) -> bool:
        return len(self.fitted) >= len(places) + (2 if len(places) > 1 else 0)

    def amounts(self, places: Places) -> np.ndarray:
        """What the factor is off by in each of these terms, by the fitted results."""
        weight = 1.0 / np.maximum(self.allowed[self.fitted], 1e-30)
        matrix = self.times[self.fitted][:, list(places)] * weight[:, None]
        return np.asarray(np.linalg.lstsq(matrix, self.off[self.fitted] * weight, rcond=None)[0])

    def right(self, places: Places) -> np.ndarray:
        """Of the held results: are they what they are with those?"""
        left = np.abs(self.times[self.held][:, list(places)] @ self.amounts(places) - self.off[self.held])
        allowed = np.minimum(_WORKED_BACK * self.allowed[self.held], _NEAR * np.abs(self.off[self.held]))
        return np.asarray(left <= allowed)


def _sets(count: int) -> Iterator[Places]:
    """Terms that a tile's step reads together, the fewest first."""
    found: dict[Places, None] = {(place,): None for place in range(count)}
    for size in (count // period for period in _PERIODS if count % period == 0):
        if 1 < size <= _MOST_UNKNOWN:
            found |= {range(start, count, count // size): None for start in range(count // size)}
            found |= {range(start, start + size): None for start in range(0, count, size)}
    if count <= _MOST_UNKNOWN:
        found[range(count)] = None
    yield from sorted(found, key=len)


def _share(groups: list[_Row], places: Places, total: int) -> float | None:
    telling = [row for row in groups if row.tells(places)]
    held = sum(len(row.held) for row in telling)
    if held < _FEWEST or 2 * held < _MOSTLY * total:
        return None
    # A row that shows nothing of it refutes it: most sets of terms are none of what is looked for.
    if not telling[0].right(places).mean() >= _HOLDS:
        return None
    right = np.concatenate([row.right(places) for row in telling])
    return accepted(right, np.arange(len(right)), _HOLDS)


def _said(
    factor: Node,
    other: Node,
    places: Places,
    share: float,
    groups: list[_Row],
    known: np.ndarray,
    pool: Pool,
    words: Words,
) -> OtherFactor:
    telling = [row for row in groups if row.tells(places)]
    own = np.array([known[row.numbers[0], list(places)] for row in telling])
    got = own + np.array([row.amounts(places) for row in telling])
    size = float(np.abs(known).max())
    changed = np.abs(got - own) > _SAME * size
    given, was = got[changed], own[changed]
    name, where = words.of(factor), f"{which(places, known.shape[1])} of {words.of(pool.whole)}"
    if given.size > 2 and np.ptp(given) <= _SAME * max(size, float(np.abs(given).max())):
        return OtherFactor("wrong-terms", f"{given[0]:.4g} in place of {name} in {where}", share, places)
    example = f", such as {given[0]:.4g} in place of {was[0]:.4g}" if given.size else ""
    elements = np.sort(np.unique(known))
    after = np.clip(np.searchsorted(elements, given), 1, len(elements) - 1) if len(elements) > 1 else None
    near = (
        np.minimum(np.abs(elements[after] - given), np.abs(elements[after - 1] - given)) if after is not None else given
    )
    if len(near) and (near <= _SAME * size).mean() >= _HOLDS:
        text = f"other elements of {name} in {where}{example} ({words.of(other)} is the right one)"
        return OtherFactor("wrong-index", text, share, places)
    text = f"other numbers in place of {name} in {where}{example} ({words.of(other)} is the right one)"
    return OtherFactor("wrong-terms", text, share, places)
