"""What a sum is off by, as several changes of some of its terms together: an element of a tile that is stored in
another's place is read twice, and what should be there is not read at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.locating.formula.choices import Places, families
from tapml.locating.formula.nodes import Node
from tapml.locating.formula.work import Work

_FITTED = 48
_FEWEST = 8
"""Sums that a mixture is made from."""

_WAYS = 24
"""First changes that a second one is looked for with, and pairs that a third one is looked for with."""

_MOST_SETS = 1 << 16
_LARGEST = 128
"""A family of more sets is none of tiles."""

_COST = 30
"""Of the families of one change, times its terms, and in operations."""

_FITS = 0.9
_MOST_TERMS = 0.75
"""Of a sum's terms: what changes more of them at one time is no mixture."""


@dataclass(frozen=True)
class Changed:
    """One way in which terms may be another: `node` is what they are then, `change` by how much: (sums, terms); `text`
    has a place for which of them, and one for the sum."""

    node: Node
    change: np.ndarray
    pattern: str
    text: str
    cost: int
    details: dict[str, Any]


Mixture = list[tuple[Changed, Places]]


def mixtures(
    changes: Sequence[Changed], off: np.ndarray, allowed: np.ndarray, fitted: np.ndarray, work: Work
) -> Iterator[Mixture]:
    """Two or three changes, each of other terms, that together make what most of the `fitted` sums are off by."""
    some = fitted[:_FITTED]
    if len(some) < _FEWEST:
        return
    off, allowed = off[some], allowed[some]
    scale = 1.0 / np.maximum(np.abs(off), np.median(np.abs(off)))
    sets: list[tuple[Changed, Places]] = []
    costs: list[int] = []
    columns: list[np.ndarray] = []
    known: dict[int, list[tuple[int, Places]]] = {}
    """Of each family, whatever the change: its sets that are not too large."""
    for changed in changes:
        count = changed.change.shape[1]
        work.add(_COST * len(some) * count, _COST)
        if work.over() or len(sets) > _MOST_SETS:
            break
        for number, family in enumerate(families(changed.change[some])):
            if family.made.shape[1] > _LARGEST:
                continue
            if number not in known:
                every = [(place, family.places(place)) for place in range(family.made.shape[1])]
                known[number] = [(place, terms) for place, terms in every if len(terms) <= _MOST_TERMS * count]
            columns.append(family.made[:, [place for place, _ in known[number]]])
            sets += [(changed, terms) for _, terms in known[number]]
            costs += [changed.cost + family.cost(terms) for _, terms in known[number]]
    if not columns:
        return
    made = np.concatenate(columns, axis=1)
    scaled = made * scale[:, None]
    size = np.einsum("ij,ij->j", scaled, scaled)
    chosen: list[tuple[int, ...]] = [()]
    for count in (1, 2, 3):
        longer: dict[tuple[int, ...], float] = {}
        for before in chosen:
            rest = off * scale - scaled[:, list(before)].sum(axis=1)
            gain = 2 * (rest @ scaled) - size
            work.add(scaled.size)
            for number in np.argsort(-gain)[:_WAYS].tolist():
                if all(_apart(sets[number][1], sets[other][1]) for other in before):
                    longer[tuple(sorted((*before, number)))] = float(rest @ rest - gain[number])
            if work.over():
                return
        chosen = sorted(longer, key=lambda one: (round(longer[one], 6), sum(costs[number] for number in one)))[:_WAYS]
        fits = [one for one in chosen if _fit(made[:, list(one)].sum(axis=1), off, allowed)]
        if count > 1 and fits:
            fits.sort(key=lambda one: sum(costs[number] for number in one))
            yield from ([sets[number] for number in one] for one in fits[:2])
            return


def _apart(some: Places, others: Places) -> bool:
    return not set(some) & set(others)


def _fit(made: np.ndarray, off: np.ndarray, allowed: np.ndarray) -> bool:
    left = np.abs(made - off)
    return float(((left <= allowed) & (left <= 0.1 * np.abs(off))).mean()) >= _FITS
