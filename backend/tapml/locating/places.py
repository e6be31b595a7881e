"""Inputs with a place for each position of a text, as a model that computes attention over all of its capacity hands
them on: caches, masks, scores, probabilities. What lies behind the carved positions is nothing yet: zeros, or one
number where a mask hides it. So a kernel that goes wrong there passes its carved tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tapml.locating.trials import scaled


@dataclass(frozen=True)
class Places:
    """`carved`, and `drawn`: the same with other numbers at the places from `known` of `axis` on, each 0.5 to 1.6 times
    one that stands at a place before."""

    carved: np.ndarray
    drawn: np.ndarray
    axis: int

    def until(self, end: int) -> np.ndarray:
        """Drawn at the places before `end`, and as it was carved behind them."""
        return np.concatenate(
            [
                np.take(self.drawn, range(end), self.axis),
                np.take(self.carved, range(end, self.carved.shape[self.axis]), self.axis),
            ],
            self.axis,
        )


def places_of(carved: np.ndarray, capacity: int, known: int) -> Places | None:
    """`known` places of `capacity` are those of the carved positions. None where no axis has places: one number stands
    at all those that are not known, and others before."""
    for axis, size in enumerate(carved.shape):
        if size != capacity or not 0 < known < capacity or carved.size == 0:
            continue
        before, behind = np.split(carved, [known], axis)
        if np.array_equal(before, np.broadcast_to(behind.flat[0], before.shape)):
            continue
        if np.array_equal(behind, np.broadcast_to(behind.flat[0], behind.shape)):
            return Places(carved, drawn(carved, axis, known), axis)
    return None


def not_yet(shape: tuple[int, ...], capacity: int, end: int) -> np.ndarray:
    """Which elements of an output of all places stand at those from `end` on, which no token is at yet."""
    axes = [axis for axis, size in enumerate(shape) if size == capacity]
    if len(axes) != 1:
        return np.zeros(shape, bool)
    places = np.arange(capacity).reshape([capacity if axis in axes else 1 for axis in range(len(shape))])
    return np.broadcast_to(places >= end, shape)


def drawn(array: np.ndarray, axis: int, known: int) -> np.ndarray:
    """With other numbers from place `known` of `axis` on, the same each time."""
    chance = np.random.default_rng(0)
    before = np.take(array, range(known), axis)
    rows = chance.integers(0, known, array.shape[axis] - known)
    return np.concatenate([before, scaled(np.take(before, rows, axis), chance)], axis)
