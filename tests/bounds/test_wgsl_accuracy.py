"""The table of the WGSL specification, "Accuracy of Concrete Floating Point Expressions", point by point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tapml.bounds import uncertain, wgsl
from tapml.bounds.uncertain import Uncertain

ULP = 2.0**-23


def at(x: float, error: float | None = None) -> Uncertain:
    return Uncertain(np.array([x]), None if error is None else np.array([error]))


@pytest.mark.parametrize(
    ("name", "x", "dtype", "value", "error"),
    [
        # 3 + 2|x| ULP, of a result in [2, 4).
        ("exp", 1.0, "float32", math.e, 5 * 2 * ULP),
        ("exp", 1.0, "float16", math.e, 3 * 2 * 2.0**-10),
        ("exp2", 3.0, "float32", 8.0, 9 * 8 * ULP),
        # 2^-21 absolute near 1, else 3 ULP.
        ("log", 1.5, "float32", math.log(1.5), 2.0**-21 + 3 * 2.0**-25),
        ("log", 10.0, "float32", math.log(10.0), 3 * 2 * ULP),
        ("log2", 8.0, "float32", 3.0, 3 * 2 * ULP),
        ("log2", 1.5, "float16", math.log2(1.5), 2.0**-7 + 3 * 2.0**-11),
        ("rsqrt", 4.0, "float32", 0.5, 2 * 2.0**-24),
        # Inherited from 1 / inverseSqrt: 2 ULP and 2.5 ULP.
        ("sqrt", 4.0, "float32", 2.0, 4.5 * 2 * ULP),
        ("sqrt", 0.0, "float32", 0.0, 0.0),
        ("sin", 1.0, "float32", math.sin(1.0), 2.0**-11),
        ("sin", 1.0, "float16", math.sin(1.0), 2.0**-7),
        ("cos", 3.14159, "float32", math.cos(3.14159), 2.0**-11),
        ("atan", 1.0, "float32", math.pi / 4, 4096 * 2.0**-24),
        ("atan", 1.0, "float16", math.pi / 4, 5 * 2.0**-11),
        ("floor", 1.5, "float32", 1.0, 0.0),
        ("fabs", -1.5, "float32", 1.5, 0.0),
    ],
)
def test_a_builtin_is_off_by_what_the_specification_says(
    name: str, x: float, dtype: str, value: float, error: float
) -> None:
    found = wgsl.FUNCTIONS[name](at(x), dtype)
    assert found.value[0] == pytest.approx(value, rel=1e-12, abs=1e-15)
    assert found.spread.reshape(-1)[0] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "x", "dtype"),
    [
        ("exp", 88.8, "float32"),
        ("exp", 11.2, "float16"),
        ("sigmoid", -88.8, "float32"),
        ("sin", 3.2, "float32"),
        ("cos", -100.0, "float32"),
        ("tan", 4.0, "float32"),
        ("log", 0.0, "float32"),
        ("log", -1.0, "float32"),
        ("rsqrt", 0.0, "float32"),
        ("sqrt", -1e-3, "float32"),
        ("exp", math.inf, "float32"),
        ("exp", math.nan, "float32"),
    ],
)
def test_where_nothing_is_promised_there_is_no_bound(name: str, x: float, dtype: str) -> None:
    assert wgsl.FUNCTIONS[name](at(x), dtype).spread.reshape(-1)[0] == np.inf


def test_tanh_is_worth_its_absolute_error_and_has_an_end_only_as_a_builtin() -> None:
    assert wgsl.tanh(at(0.5), "float32").spread[0] == pytest.approx(1e-5)
    assert wgsl.tanh(at(1e4), "float32").spread[0] == pytest.approx(1e-5)
    assert wgsl.tanh_builtin(at(88.0), "float32").spread[0] < 2e-4
    assert wgsl.tanh_builtin(at(88.8), "float32").spread[0] == np.inf
    assert wgsl.tanh_builtin(at(11.2), "float16").spread[0] == np.inf


def test_pow_is_exp2_of_y_log2_x() -> None:
    found = wgsl.power(at(2.0), at(3.0), "float32")
    # log2(2) is off by 2^-21 absolute and 3 ULP: three times that, and 3 + 2 * 3 ULP of exp2.
    least = 8 * math.log(2) * 3 * (2.0**-21 + 3 * ULP) + 9 * 8 * ULP
    assert found.value[0] == pytest.approx(8.0)
    assert least < found.spread[0] < 1.2 * least
    assert wgsl.power(at(-2.0), at(3.0), "float32").spread[0] == np.inf
    assert wgsl.power(at(0.0), at(3.0), "float32").spread[0] == 0.0


def test_division_takes_two_and_a_half_ulp_for_divisors_that_are_normal() -> None:
    assert uncertain.divide(at(1.0), at(3.0), "float32").spread[0] == pytest.approx(2.5 * 2.0**-25)
    for divisor in (0.0, 2.0**-127, 2.0**127):
        assert uncertain.divide(at(1.0), at(divisor), "float32").spread[0] == np.inf
    assert uncertain.divide(at(1.0), at(2.0**15), "float16").spread[0] == np.inf


def test_zero_divided_is_zero_unless_it_may_be_something_else() -> None:
    for dtype in ("float32", "float16"):
        assert uncertain.divide(at(0.0), at(255.0, 1.0), dtype).spread[0] == 0.0
        assert uncertain.divide(at(0.0, 1e-7), at(255.0), dtype).spread[0] > 1e-7 / 255
        assert uncertain.divide(at(0.0), at(0.0), dtype).spread[0] == np.inf


def test_erf_and_sigmoid_follow_their_arguments() -> None:
    exact, moved = wgsl.erf(at(0.3), "float32"), wgsl.erf(at(0.3, 1e-3), "float32")
    assert exact.value[0] == math.erf(0.3)
    assert moved.spread[0] - exact.spread[0] >= math.erf(0.301) - math.erf(0.3)
    sigmoid = wgsl.sigmoid(at(2.0, 1e-3), "float32")
    assert sigmoid.spread[0] > 0.9e-3 * sigmoid.value[0] * (1 - sigmoid.value[0])


def test_a_step_that_may_fall_on_either_side_is_off_by_one() -> None:
    assert wgsl.FUNCTIONS["floor"](at(2.0, 1e-6), "float32").spread[0] == 1.0
    assert wgsl.FUNCTIONS["floor"](at(2.5, 1e-6), "float32").spread[0] == 0.0


def test_a_sigmoid_by_its_arguments_size_is_bounded_everywhere() -> None:
    """TVM's own overflows below -88.7, where nothing is promised any more."""
    x = np.concatenate([np.linspace(-200, 200, 4001), [-np.inf, np.inf, 1e30, -1e30]]).astype(np.float32)
    found = wgsl.sigmoid_of_size(Uncertain(x.astype(np.float64)), "float32")
    small = np.exp(-np.abs(x))
    device = np.where(x >= 0, np.float32(1), small) / (np.float32(1) + small)
    assert np.isfinite(found.spread).all()
    assert (np.abs(device - found.value) <= found.spread).all()
    # Of an argument that is off by as much.
    near = wgsl.sigmoid_of_size(Uncertain(x[:4001].astype(np.float64), np.full(4001, 0.25)), "float32")
    for moved in (-0.25, 0.1, 0.25):
        with np.errstate(over="ignore"):
            other = 1 / (1 + np.exp(-(x[:4001].astype(np.float64) + moved)))
        assert (np.abs(other - near.value) <= near.spread).all()
