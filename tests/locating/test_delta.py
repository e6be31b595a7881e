"""Delta debugging: the guilty nodes exactly, in O(k log n) runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapml.locating.delta import culprits
from tapml.locating.simplify import Budget, fewest, simplify


def most_runs(guilty: int, nodes: int) -> int:
    return guilty * (math.ceil(math.log2(max(2, nodes))) + 2) + 1


class Counted:
    """How often it was asked."""

    def __init__(self, good: Callable[[frozenset[str]], bool]) -> None:
        self.runs = 0
        self._good = good

    def __call__(self, returned: frozenset[str]) -> bool:
        self.runs += 1
        return self._good(returned)


@settings(max_examples=300, deadline=None)
@given(size=st.integers(1, 130), data=st.data())
def test_the_guilty_are_found_in_few_runs(size: int, data: st.DataObject) -> None:
    nodes = [f"n{number:03d}" for number in range(size)]
    guilty = data.draw(st.sets(st.sampled_from(nodes), min_size=1, max_size=11))
    asked = Counted(guilty.issubset)
    found = culprits(nodes, asked, most=11)
    assert found is not None
    assert set(found) == guilty
    assert found == sorted(found)
    assert asked.runs <= most_runs(len(guilty), size)


def test_either_of_two_is_enough_where_one_heals_the_other() -> None:
    nodes = [f"n{number}" for number in range(64)]
    asked = Counted(lambda returned: bool(returned & {"n7", "n40"}))
    assert len(culprits(nodes, asked, most=5) or []) == 1
    assert asked.runs <= most_runs(1, 64)


@settings(max_examples=200, deadline=None)
@given(size=st.integers(1, 40), data=st.data())
def test_what_is_found_is_good_and_minimal_where_errors_add_up(size: int, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    limit = data.draw(st.integers(0, max(0, sum(weights) - 1)))
    nodes = [f"n{number:02d}" for number in range(size)]
    weight = dict(zip(nodes, weights, strict=True))

    def good(returned: frozenset[str]) -> bool:
        return sum(weight[node] for node in nodes if node not in returned) <= limit

    found = culprits(nodes, good, most=size)
    assert found is not None
    assert good(frozenset(found))
    for node in found:
        assert not good(frozenset(found) - {node})


def test_many_guilty_ones_end_the_search() -> None:
    nodes = [f"n{number}" for number in range(100)]
    asked = Counted(lambda returned: len(returned) == 100)
    assert culprits(nodes, asked, most=4) is None
    assert asked.runs <= most_runs(5, 100)


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 500), data=st.data())
def test_few_elements_remain(size: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=3))
    kept = fewest(np.arange(size), lambda part: needed <= set(part.tolist()))
    assert needed <= set(kept.tolist())
    assert len(kept) <= max(3, 2 * len(needed) * -(-size // 64))


def test_values_become_plain_and_few() -> None:
    """Wrong only where the product of two certain elements is above 1: two elements remain, with plain values."""
    random = np.random.default_rng(3)
    a, b = (random.uniform(1.5, 3.0, 200).astype(np.float32) for _ in range(2))
    budget = Budget(300, 60)
    found = simplify([a, b], lambda arrays: bool(arrays[0][17] * arrays[1][99] > 1), budget)
    assert np.flatnonzero(found[0]).tolist() == [17]
    assert np.flatnonzero(found[1]).tolist() == [99]
    assert float(found[0][17]) in (1.0, 2.0, 3.0)
    assert budget.spent <= 300
    assert found[0].dtype == np.float32


def test_a_spent_budget_ends_it_with_what_still_fails() -> None:
    a = np.random.default_rng(3).uniform(1, 2, 1000).astype(np.float32)
    found = simplify([a], lambda arrays: bool(arrays[0].sum() >= a.sum()), Budget(3, 60))
    assert bool(found[0].sum() >= a.sum())


def test_integers_become_zeros_or_stay() -> None:
    indices = np.array([5, 900, 3], np.int32)
    found = simplify([indices], lambda arrays: bool(arrays[0][1] == 900), Budget(50, 60))
    assert found[0].tolist() == [0, 900, 0]
