"""Steps that change the sum so far: it is rounded, or it takes another place in an fma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapml.locating.formula.choices import which
from tapml.locating.formula.narrow import NARROW

_LONGEST = 512
_MOST_STARTS = 64
_LANES = (4, 8, 16, 32, 64, 128, 256)

Step = Callable[[np.ndarray, int], np.ndarray]
"""(the sum so far, the number of the term) -> the sum with it."""


def chains(terms: np.ndarray, factors: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, str, str, dict[str, Any]]]:
    """(what the sums would be off by, pattern, in words with a place for the sum, details). `terms`: (sums, terms);
    `factors`: the two that each term is a product of, where it is one.

    Terms follow on each other, all of them or in lanes beside each other, as the invocations of a workgroup take them.
    """
    count = terms.shape[1]
    for chosen, where, arranged in _orders(count):
        lanes = arranged(terms)
        if lanes.shape[1] > _LONGEST:
            continue
        exact = terms.sum(axis=1)
        with np.errstate(all="ignore"):
            for name, narrow in NARROW.items():
                if name != "float32":
                    found = _chain(lanes, chosen, _rounding(lanes, narrow))
                    text = f"{{sum}} so far rounded to {name} at {where}"
                    yield found - exact, "dtype-conversion", text, {"dtype": name}
                    for text, made in _trees(lanes, narrow):
                        said = f"{{sum}} so far rounded to {name} {text}"
                        yield made - exact, "dtype-conversion", said, {"dtype": name}
            for a, b in (factors, factors[::-1]) if factors else ():
                found = _chain(lanes, chosen, _exchanged(arranged(a), arranged(b)))
                yield found - exact, "wrong-operation", f"fma's factor and summand exchanged at {where} of {{sum}}", {}


def _trees(lanes: np.ndarray, narrow: Callable[[np.ndarray], np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Lanes that are summed two by two, with a rounding at one of the steps or at each; in words."""
    size = lanes.shape[2]
    if size < 2 or size & (size - 1):
        return
    each = np.zeros((lanes.shape[0], size))
    for place in range(lanes.shape[1]):
        each = narrow(each + lanes[:, place])
    for rounded in (-1, 0, *(1 << power for power in range(size.bit_length() - 1))):
        sums, half = each if rounded < 0 else lanes.sum(axis=1), size // 2
        while half:
            sums = sums[:, :half] + sums[:, half : 2 * half]
            sums = narrow(sums) if rounded in (-1, 0, half) else sums
            half //= 2
        at = f"where {2 * rounded} lanes become {rounded}" if rounded > 0 else "at each step"
        at = "at every term and at each step" if rounded < 0 else at
        yield f"{at}, of {size} lanes that are summed two by two", sums[:, 0]


def _rounding(lanes: np.ndarray, narrow: Callable[[np.ndarray], np.ndarray]) -> Step:
    return lambda total, place: narrow(total + lanes[:, place])


def _exchanged(a: np.ndarray, b: np.ndarray) -> Step:
    return lambda total, place: a[:, place] * total + b[:, place]


def _chain(lanes: np.ndarray, chosen: Sequence[int], step: Step) -> np.ndarray:
    """`lanes`: (sums, terms, lanes). Lanes are summed at the end."""
    total = np.zeros((lanes.shape[0], lanes.shape[2]))
    before = 0
    for place in chosen:
        if place > before:
            total = total + lanes[:, before:place].sum(axis=1)
        total = step(total, place)
        before = place + 1
    found: np.ndarray = (total + lanes[:, before:].sum(axis=1)).sum(axis=1)
    return found


def _orders(count: int) -> Iterator[tuple[range, str, Callable[[np.ndarray], np.ndarray]]]:
    """(which terms of a lane, in words, how the terms lie in lanes)."""

    def one(array: np.ndarray) -> np.ndarray:
        return array[:, :, None]

    yield range(count), "every term", one
    made = 0
    for period in (2, 4, 8, 16, 32, 64, count):
        for first in range(period if period <= count else 0):
            made += 1
            if made <= _MOST_STARTS:
                chosen = range(first, count, period)
                yield chosen, which(chosen, count), one
    for lanes in _LANES:
        if lanes >= 2 * count:
            continue
        rows = -(-count // lanes)

        def beside(array: np.ndarray, lanes: int = lanes, rows: int = rows) -> np.ndarray:
            filled = np.zeros((len(array), rows * lanes))
            filled[:, : array.shape[1]] = array
            return filled.reshape(len(array), rows, lanes)

        yield range(rows), f"every term of each of {lanes} lanes", beside
        for place in range(min(count // lanes, 8) if rows > 1 else 0):
            text = f"terms {place * lanes} to {(place + 1) * lanes - 1} of {count}"
            yield range(place, place + 1), text, beside
