"""Which terms of a sum changed, found from what the sums are off by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Places = range | tuple[int, ...]

_TRIED = 12
_LARGEST = 9
_PERIODS = (2, 3, 4, 5, 7, 8, 9, 16, 25, 32, 49, 64, 128, 256)


@dataclass(frozen=True)
class Family:
    """Sets of terms that are alike. `made`: what the sums are off by with each, (sums, sets); `places`: the terms of
    one, `cost`: the more, the less likely it is that kernels change those."""

    made: np.ndarray
    places: Callable[[int], Places]
    cost: Callable[[Places], int]


def families(change: np.ndarray) -> Iterator[Family]:
    """Every one, one, the first ones, the last ones, every n-th (from the first tile on, or from the second), all but
    those, a block, and a part of every so many (what a tree of sums adds in one of its steps). `change`: (sums, terms).
    """
    count = change.shape[1]
    whole = change.sum(axis=1, keepdims=True)
    yield Family(whole, lambda place: range(count), lambda places: 0)
    yield Family(change, lambda place: range(place, place + 1), lambda places: 1)
    sums = np.cumsum(change, axis=1)
    yield Family(sums[:, :-1], lambda place: range(place + 1), lambda places: _cost(len(places), count))
    last = sums[:, -1:] - sums[:, :-1]
    yield Family(last, lambda place: range(place + 1, count), lambda places: _cost(len(places), count))
    for period in (period for period in _PERIODS if period < count):
        blocks = _filled(change, period).reshape(len(change), -1, period)
        every = blocks.sum(axis=1)
        yield Family(every, lambda place, n=period: range(place, count, n), lambda places: 2)  # type: ignore[misc]
        inner = blocks.sum(axis=2)[:, 1:-1]  # the first and the last ones have been there
        yield Family(
            inner,
            lambda place, n=period: range((place + 1) * n, (place + 2) * n),  # type: ignore[misc]
            lambda places, n=period: 2 if count % n == 0 else 6,  # type: ignore[misc]
        )
        if period > 2:
            yield Family(whole - every, lambda place, n=period: _others(place, n, count), lambda places: 3)  # type: ignore[misc]
        if 2 * period < count:
            later = every - blocks[:, 0]
            yield Family(later, lambda place, n=period: range(place + n, count, n), lambda places: 3)  # type: ignore[misc]
    for period in (1 << power for power in range(2, min(count.bit_length(), _LARGEST))):
        for part in (1 << power for power in range(1, period.bit_length() - 1)):
            yield _parts(change, period, part)


def choices(
    change: np.ndarray, off: np.ndarray, allowed: np.ndarray, fitted: np.ndarray
) -> Iterator[tuple[Places, str, int]]:
    """Sets of terms whose changes together make what the sums are off by: (terms, in words, cost)."""
    some = fitted[:_TRIED]
    count = change.shape[1]
    change, off, allowed = change[some], off[some, None], allowed[some, None]
    for family in families(change):
        left = np.abs(family.made - off)
        share = ((left <= allowed) & (left <= 0.1 * np.abs(off))).mean(axis=0)
        place = int(np.argmax(share)) if share.size else 0
        if share.size and share[place] >= 0.5:
            places = family.places(place)
            yield places, which(places, count), family.cost(places)
            if len(places) == count:
                return


def _parts(change: np.ndarray, period: int, part: int) -> Family:
    """Of every `period` terms `part` that follow on each other."""
    count = change.shape[1]
    made = _filled(change, period).reshape(len(change), -1, period // part, part).sum(axis=3).sum(axis=1)

    def places(place: int) -> Places:
        return tuple(number for number in range(count) if number % period // part == place)

    return Family(made, places, lambda places: 3)


def _filled(change: np.ndarray, period: int) -> np.ndarray:
    """With as many terms of 0 as make whole periods."""
    padded = np.zeros((len(change), -(-change.shape[1] // period) * period))
    padded[:, : change.shape[1]] = change
    return padded


def _others(place: int, period: int, count: int) -> Places:
    return tuple(number for number in range(count) if number % period != place)


def _cost(part: int, count: int) -> int:
    """Kernels take a sum in parts that are equally large: other ones are seldom what is left out."""
    rest = count - part
    return 1 if count % part == 0 or (rest > part and count % rest == 0) else 5


def which(places: Sequence[int], count: int) -> str:
    """Terms in words."""
    size = len(places)
    if size == count:
        return "every term"
    if size == 1:
        last = " (the last)" if places[0] == count - 1 else ""
        return f"term {places[0]}{last} of {count}"
    if size == 2:
        return f"terms {places[0]} and {places[1]} of {count}"
    steps = np.diff(np.array(places))
    if steps.max() == 1:
        if places[0] == 0:
            return f"the first {size} of {count} terms"
        if places[-1] == count - 1:
            return f"the last {size} of {count} terms"
        return f"terms {places[0]} to {places[-1]} of {count}"
    if steps.min() == steps.max():
        return f"terms {places[0]}, {places[1]}, {places[2]}, ... of {count}"
    absent = np.setdiff1d(np.arange(count), places)
    apart = np.diff(absent)
    if len(apart) and apart.min() == apart.max() and (apart[0] > 1 or len(absent) < size):
        return f"all but {which(absent.tolist(), count)}"
    part = int(np.argmax(steps > 1)) + 1
    period = part - 1 + int(steps.max())
    if 2 * part == period:
        return f"the {'second' if places[0] else 'first'} {part} of every {period} of the {count} terms"
    return f"{places[0]} to {places[0] + part - 1} of every {period} of the {count} terms"
