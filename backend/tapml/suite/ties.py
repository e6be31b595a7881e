"""Groups of equals among which an operator may choose (`Tolerance.ties`), as devices judge them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np


def accepted_ties(rows: np.ndarray, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Which elements differ from the expected ones and are right all the same: a mask of their shape.

    A group of `rows` (group, kind, number) passes when all elements at its positions (kind 0) are among its values
    (kind 1) and no two are equal.
    """
    positions: dict[int, list[int]] = defaultdict(list)
    values: dict[int, set[int]] = defaultdict(set)
    for group, kind, number in rows.reshape(-1, 3).tolist():
        if kind == 0:
            positions[group].append(number)
        else:
            values[group].add(number)
    accepted = np.zeros(got.size, bool)
    flat, wanted = got.reshape(-1), expected.reshape(-1)
    for group, places in positions.items():
        chosen = flat[places].tolist()
        if len(set(chosen)) == len(chosen) and values[group].issuperset(chosen):
            accepted[places] = flat[places] != wanted[places]
    return accepted.reshape(got.shape)
