"""Where an explanation is accepted: it is made from one half of what there is, and the other half decides.

Whatever has something fitted or chosen (a number, a threshold, one of several changes) comes through `accepted`; facts,
such as where the wrong elements lie, do not need it.
"""

from __future__ import annotations

import numpy as np


def halves(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of so many items, drawn in the same way each time: those that a hypothesis may be made from (one more, of
    an odd count), and those that decide about it. The first of a half are a sample of it."""
    order = np.random.default_rng(0).permutation(count)
    half = (count + 1) // 2
    return order[:half], order[half:]


def accepted(right: np.ndarray, held: np.ndarray, least: float) -> float | None:
    """The share of the items `held` that a hypothesis gives; None where that is less than `least`, or nothing is held.

    `right`: for every item, does the hypothesis give it; `held`: numbers of items, or a mask.
    """
    tested = right[held]
    share = float(tested.mean()) if tested.size else 0.0
    return share if tested.size and share >= least else None
