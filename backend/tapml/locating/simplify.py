"""Simpler inputs that still make a test fail: plain values first, then as few elements as will do (delta debugging)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

Fails = Callable[[list[np.ndarray]], bool]

_FINEST = 64
"""Parts that the elements are cut into at most: single ones of many thousands are not worth a run each."""


class Budget:
    """Runs and seconds that may be spent. `spent` counts the runs."""

    def __init__(self, runs: int, seconds: float) -> None:
        self.spent = 0
        self._runs = runs
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> bool:
        return self.spent < self._runs and time.monotonic() < self._end


def simplify(inputs: Sequence[np.ndarray], fails: Fails, budget: Budget) -> list[np.ndarray]:
    """Inputs of the same types for which `fails` still holds, as it does for `inputs`."""
    current = [np.array(array) for array in inputs]

    def try_(place: int, array: np.ndarray) -> bool:
        if not budget.left or np.array_equal(array, current[place]):
            return False
        candidate = [*current[:place], array, *current[place + 1 :]]
        budget.spent += 1
        if not fails(candidate):
            return False
        current[place] = array
        return True

    order = sorted(range(len(current)), key=lambda place: -current[place].size)
    for place in order:
        if not current[place].any():
            continue  # nothing is plainer than zeros
        any(try_(place, array) for array in plainer(current[place]))  # up to the first that still fails
    for place in order:
        _fewer(current, place, try_)
    for place in order:
        any(try_(place, array) for array in plainer(current[place], nonzero=True))
    return current


def plainer(array: np.ndarray, *, nonzero: bool = False) -> Iterator[np.ndarray]:
    """Arrays of plainer values, the plainest first. `nonzero`: zeros stay where they are."""
    keep = array != 0 if nonzero else np.ones(array.shape, bool)
    if not nonzero:
        yield np.zeros_like(array)
    yield np.where(keep, 1, 0).astype(array.dtype)
    if array.dtype.kind != "f":
        return
    values = array.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        whole = np.clip(np.rint(values), -8, 8)
        power = np.sign(values) * np.exp2(np.rint(np.log2(np.abs(values))))
        scale = np.exp2(np.floor(np.log2(np.abs(values))) - 3)
        four_bits = np.rint(values / scale) * scale
    for found in (whole, power, four_bits):
        yield np.where(np.isfinite(values) & (values != 0), found, values).astype(array.dtype)


def _fewer(current: list[np.ndarray], place: int, try_: Callable[[int, np.ndarray], bool]) -> None:
    """Set as many elements to zero as will go."""
    whole = current[place].reshape(-1).copy()
    shape = current[place].shape

    def still_fails(kept: np.ndarray) -> bool:
        array = np.zeros_like(whole)
        array[kept] = whole[kept]
        return try_(place, array.reshape(shape))

    fewest(np.flatnonzero(whole), still_fails)


def fewest(items: np.ndarray, still_fails: Callable[[np.ndarray], bool]) -> np.ndarray:
    """A small part of `items` for which `still_fails` holds (ddmin): one part alone, else all but one, else finer."""
    parts = 2
    while len(items) >= 2:
        pieces = np.array_split(items, min(parts, len(items)))
        smaller = next((piece for piece in pieces if still_fails(piece)), None)
        if smaller is not None:
            items, parts = smaller, 2
            continue
        others = (np.concatenate(pieces[:n] + pieces[n + 1 :]) for n in range(len(pieces)))
        smaller = next((rest for rest in others if len(pieces) > 2 and still_fails(rest)), None)
        if smaller is not None:
            items, parts = smaller, max(2, parts - 1)
            continue
        if parts >= min(len(items), _FINEST):
            break
        parts = min(2 * parts, len(items), _FINEST)
    return items
