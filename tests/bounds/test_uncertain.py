"""Arithmetic with bounds: no device that keeps to WGSL's rules gets outside, and the bounds are not wide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding_device import Device

from tapml.bounds import uncertain
from tapml.bounds.expression import cast
from tapml.bounds.uncertain import Uncertain

numbers = st.floats(-1e6, 1e6, width=32) | st.floats(-(2.0**-126), 2.0**-126, width=32)
OPERATIONS: dict[str, tuple[Callable[..., Uncertain], Callable[..., np.ndarray]]] = {
    "add": (lambda a, b: uncertain.add(a, b, "float32"), np.add),
    "subtract": (lambda a, b: uncertain.add(a, b, "float32", -1), np.subtract),
    "multiply": (lambda a, b: uncertain.multiply(a, b, "float32"), np.multiply),
    "maximum": (lambda a, b: uncertain.extremum(a, b, largest=True), np.maximum),
}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(numbers, min_size=4, max_size=8),
    st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8
    ),
    st.integers(0, 2**32 - 1),
)
def test_no_device_that_keeps_to_the_rules_is_outside(
    values: list[float], steps: list[tuple[str, int, int]], seed: int
) -> None:
    """A random program, run many times by a device that rounds to a random side and flushes at random."""
    runs = 64
    device = Device(np.random.default_rng(seed))
    # As a program's inputs: a subnormal one may be taken for zero.
    known = [Uncertain(np.array([v]), np.array([abs(v) if abs(v) < 2.0**-126 else 0.0])) for v in values]
    got = [np.full(runs, v) for v in values]
    for name, first, second in steps:
        bounded, plain = OPERATIONS[name]
        a, b = first % len(known), second % len(known)
        known.append(bounded(known[a], known[b]))
        with np.errstate(over="ignore"):
            got.append(device.round(plain(got[a], got[b])))
    for number, measured in zip(known, got, strict=True):
        assert (np.abs(measured - number.value) <= number.spread + 1e-300).all() or np.isinf(number.spread).all()


def test_one_exact_operation_is_off_by_one_unit_at_most() -> None:
    third = uncertain.multiply(Uncertain(np.array([1.1])), Uncertain(np.array([1.3])), "float32")
    assert third.spread[0] == 2.0**-23


def test_what_the_dtype_holds_exactly_is_exact() -> None:
    one = Uncertain(np.array([1.0]))
    assert uncertain.add(one, one, "float32", -1).spread[0] == 0.0
    assert uncertain.multiply(Uncertain(np.array([0.1])), one, "float32").spread[0] == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_overflow_has_no_bound_and_the_lowest_number_takes_a_score(dtype: str) -> None:
    lowest = Uncertain(np.array([-uncertain.largest(dtype)]))
    assert uncertain.add(lowest, lowest, dtype).spread[0] == np.inf
    # The mask of a transformer: what is added is far below half a unit of it.
    assert np.isfinite(uncertain.add(lowest, Uncertain(np.array([-1.5])), dtype).spread[0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_score_is_lost_beside_the_lowest_number(dtype: str) -> None:
    """As of scores that a mask hides, less the greatest of their row, within one kernel: nothing overflows."""
    lowest, one = Uncertain(np.array([-uncertain.largest(dtype)])), np.array([1e-3])
    masked = uncertain.add(Uncertain(np.array([-1.5]), one), lowest, dtype)
    assert masked.value[0] == pytest.approx(lowest.value[0], rel=1e-4)
    assert masked.spread[0] == pytest.approx(1.501)
    assert uncertain.add(masked, Uncertain(np.array([2.0]), one), dtype, -1).spread[0] == pytest.approx(3.502)
    # Of a row of which nothing is seen what was lost may come back, in whatever order it is added up.
    assert uncertain.add(masked, masked, dtype, -1).spread[0] >= 2 * 1.5
    assert uncertain.add(masked, lowest, dtype).spread[0] == np.inf


def test_a_choice_that_rounding_may_turn_is_off_by_the_difference() -> None:
    yes, no = Uncertain(np.array([5.0])), Uncertain(np.array([3.0]))
    sure = uncertain.chosen(np.array([True]), np.array([False]), yes, no)
    unsure = uncertain.chosen(np.array([True]), np.array([True]), yes, no)
    assert sure.spread[0] == 0.0
    assert unsure.spread[0] == 2.0


def test_a_truth_value_of_what_depends_on_rounding_may_be_either_where_that_may_be_zero() -> None:
    found = cast(Uncertain(np.array([1e-9, 0.5, 0.0, 0.0]), np.array([1e-6, 1e-6, 0.0, 1e-9])), "float32", "bool")
    assert found.value.tolist() == [True, True, False, False]
    assert found.spread.tolist() == cast(found, "bool", "float32").spread.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert cast(Uncertain(np.array([0.0, 2.0])), "float32", "bool").exact
