"""Integers that rounding makes: each element has a bound of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rounding_device import Device, operator
from tvm import relax
from tvm.relax import op

from tapml.bounds import Bound, Operator
from tapml.importing.activations import product_of_one_row
from tapml.importing.quantise import INT8, Q4F16, Kind, pack
from tapml.lowering.write import program_of


def quantized(builder: Any, x: Any) -> Any:
    """As QuantizeLinear: rounded, moved by a zero point, saturated, stored in an integer."""
    emit = builder.emit
    places = emit(op.round(emit(op.divide(x, relax.const(0.1, "float32")))))
    moved = emit(op.add(places, relax.const(100.0, "float32")))
    return op.astype(emit(op.clip(moved, 0, 255)), "int32")


def test_a_quantized_element_may_differ_by_one_where_a_step_is_near_and_by_nothing_elsewhere() -> None:
    x = np.array([0.05, 0.15, 0.25, 0.02, 0.37, -0.05, 99.0, -99.0], np.float32)
    carved = np.clip(np.round(x / np.float32(0.1)) + 100, 0, 255).astype(np.int32)
    (bound,) = operator(quantized, ((8,), "float32")).bounds([x], [carved])
    assert bound.bound is not None
    assert bound.absolute == 1
    np.testing.assert_array_equal(bound.bound, [1, 1, 1, 0, 0, 1, 0, 0])
    assert bound.reasons[0].startswith("int32: rounding may move 4 of 8 elements, by up to 1")


def test_no_device_that_rounds_as_it_may_is_outside() -> None:
    random = np.random.default_rng(0)
    # Half of them on a step.
    x = np.concatenate([random.normal(size=2000) * 9, (random.integers(-90, 90, 2000) + 0.5) * 0.1]).astype(np.float32)
    carved = np.clip(np.round(x / np.float32(0.1)) + 100, 0, 255).astype(np.int32)
    (bound,) = operator(quantized, ((4000,), "float32")).bounds([x], [carved])
    assert bound.bound is not None
    device = Device(random)
    for _ in range(20):
        quotient = device.round(x.astype(np.float64) / float(np.float32(0.1)))
        found = np.clip(np.round(quotient) + 100, 0, 255)
        assert (np.abs(found - carved) <= bound.bound).all()
    assert bound.bound.max() == 1
    assert (bound.bound[:2000] == 0).mean() > 0.99


def product_of(row: np.ndarray, weight: np.ndarray, kind: Kind = INT8) -> Bound:
    """Of a row that is rounded to 8-bit integers, by a weight of integers."""
    packed = pack(weight, kind, "weight")
    columns, inner = weight.shape
    program = program_of("product", product_of_one_row(2, inner, columns, "float32", kind))
    scale = np.abs(row).max() / np.float32(127)
    carved = (np.floor(row / scale + 0.5) * scale)[None] @ packed.array().T
    (bound,) = Operator(program).bounds([row[None], packed.words, packed.scales], [carved.astype(np.float32)])
    return bound


@pytest.mark.parametrize("kind", [INT8, Q4F16], ids=lambda kind: kind.name)
def test_sums_of_products_are_off_by_the_weight_of_what_may_be_either_of_two_integers(kind: Kind) -> None:
    weight = np.random.default_rng(0).normal(size=(33, 40)).astype(np.float32)
    row = np.arange(40, dtype=np.float32)
    row[0] = 127
    apart = product_of(row, weight, kind).bound
    row[5] = 6.5
    near = product_of(row, weight, kind).bound
    assert apart is not None
    assert near is not None
    assert apart.max() < 1e-3
    by = np.abs(pack(weight, kind, "weight").array()[:, 5])
    assert (by <= near).all()
    assert (near <= by + 1e-3).all()


def test_sums_of_groups_are_off_by_no_more_than_they_are_rounded() -> None:
    """Those of integers are exact: what they are added up of rounds, however long a group is."""
    weight = np.random.default_rng(0).normal(size=(33, 320)).astype(np.float32)
    row = np.random.default_rng(1).integers(-127, 128, 320).astype(np.float32)
    row[0] = 127
    found = product_of(row, weight, Q4F16)
    assert found.bound is not None
    size = np.abs(row) @ np.abs(pack(weight, Q4F16, "weight").array()).T
    # As many units as terms, of half of what they are together, and those of the products and the row's scale.
    assert (found.bound <= 8 * 2.0**-23 * size).all()


@pytest.mark.parametrize("kind", [INT8, Q4F16], ids=lambda kind: kind.name)
def test_nothing_is_promised_of_products_with_what_is_no_number(kind: Kind) -> None:
    row = np.arange(40, dtype=np.float32)
    row[3] = np.nan
    with np.errstate(invalid="ignore"):
        bound = product_of(row, np.ones((33, 40), np.float32), kind).bound
    assert bound is not None
    assert np.isinf(bound).all()


def test_x_unlike_itself_is_unbounded_for_nan_unless_the_kernel_looks_at_its_bits() -> None:
    x = np.array([1.0, np.nan, np.inf], np.float32)
    carved = np.isnan(x).astype(np.int32)

    def found(builder: Any, value: Any) -> Any:
        return op.astype(builder.emit(op.isnan(value)), "int32")

    (bound,) = operator(found, ((3,), "float32")).bounds([x], [carved])
    assert bound.bound is not None
    np.testing.assert_array_equal(bound.bound, [0, np.inf, 0])
    assert "WGSL promises nothing for 1" in bound.reasons[0]
    (bound,) = operator(found, ((3,), "float32"), wgsl=("y = i32(tapml_isnan(x));",)).bounds([x], [carved])
    assert bound.bound is None
    assert bound.absolute == 0


def test_sin_has_a_bound_beyond_pi_where_the_kernel_brings_its_argument_within() -> None:
    x = np.array([1.0, 4.0, -1e5, 1e30], np.float32)
    carved = np.sin(x.astype(np.float64)).astype(np.float32)
    (bound,) = operator(lambda _, value: op.sin(value), ((4,), "float32")).bounds([x], [carved])
    assert bound.bound is not None
    np.testing.assert_array_equal(np.isfinite(bound.bound), [True, False, False, False])
    assert "the kernels that tapml makes bring the argument within pi / 4 themselves" in bound.reasons[-1]
    own = ("fn tapml_sin(x : f32) -> f32 {}\ny = tapml_sin(x);",)
    (bound,) = operator(lambda _, value: op.sin(value), ((4,), "float32"), wgsl=own).bounds([x], [carved])
    assert bound.bound is not None
    assert bound.bound.max() < 1.1e-6
    assert "2^-20 absolute" in " ".join(bound.reasons)
