"""Which terms of a sum changed, found from what the sums are off by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

Places = range | tuple[int, ...]

_TRIED = 12
_PERIODS = (2, 3, 4, 5, 7, 8, 9, 16, 25, 32, 49, 64, 128, 256)


def choices(
    change: np.ndarray, off: np.ndarray, allowed: np.ndarray, fitted: np.ndarray
) -> Iterator[tuple[Places, str, int]]:
    """Sets of terms whose changes together make what the sums are off by: (terms, in words, cost).

    `change`: (sums, terms). Every one, one, the first ones, the last ones, every n-th, a block, and those with a bit of
    their number set or not (half of a tree of sums).
    """
    count = change.shape[1]
    some = fitted[:_TRIED]
    change, off, allowed = change[some], off[some, None], allowed[some, None]

    def best(made: np.ndarray) -> int | None:
        left = np.abs(made - off)
        share = ((left <= allowed) & (left <= 0.1 * np.abs(off))).mean(axis=0)
        place = int(np.argmax(share))
        return place if share[place] >= 0.5 else None

    if best(change.sum(axis=1, keepdims=True)) is not None:
        yield range(count), "every term", 0
        return
    if (place := best(change)) is not None:
        yield range(place, place + 1), which(range(place, place + 1), count), 1
    sums = np.cumsum(change, axis=1)
    if (place := best(sums[:, :-1])) is not None:
        yield range(place + 1), f"the first {place + 1} of {count} terms", _cost(place + 1, count)
    if (place := best(sums[:, -1:] - sums[:, :-1])) is not None:
        yield range(place + 1, count), f"the last {count - place - 1} of {count} terms", _cost(count - place - 1, count)
    for period in (period for period in _PERIODS if period < count):
        padded = np.zeros((len(some), -(-count // period) * period))
        padded[:, :count] = change
        blocks = padded.reshape(len(some), -1, period)
        if (place := best(blocks.sum(axis=1))) is not None:
            yield range(place, count, period), which(range(place, count, period), count), 2
        if (place := best(blocks.sum(axis=2))) is not None:
            found = range(place * period, min((place + 1) * period, count))
            if found[0] > 0 and found[-1] < count - 1:  # the first and the last ones have been said
                yield found, f"terms {found[0]} to {found[-1]} of {count}", 2 if count % period == 0 else 6
    number = np.arange(count)
    for bit in range(count.bit_length() - 1):
        for value in (1, 0):
            chosen = (number >> bit) & 1 == value
            if best(change[:, chosen].sum(axis=1, keepdims=True)) is not None:
                yield tuple(np.flatnonzero(chosen).tolist()), _halves(bit, value, count), 3


def _cost(part: int, count: int) -> int:
    """Kernels take a sum in parts that are equally large: other ones are seldom what is left out."""
    rest = count - part
    return 1 if count % part == 0 or (rest > part and count % rest == 0) else 6


def which(places: Sequence[int], count: int) -> str:
    """Terms in words."""
    if len(places) == count:
        return "every term"
    if len(places) == 1:
        last = " (the last)" if places[0] == count - 1 else ""
        return f"term {places[0]}{last} of {count}"
    if len(places) == 2:
        return f"terms {places[0]} and {places[1]} of {count}"
    return f"terms {places[0]}, {places[1]}, {places[2]}, ... of {count}"


def _halves(bit: int, value: int, count: int) -> str:
    size = 1 << bit
    if size == 1:
        return which(range(value, count, 2), count)
    return f"the {'second' if value else 'first'} {size} of every {2 * size} of the {count} terms"
