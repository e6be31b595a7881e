"""Whole operators: values as others compute them, and devices that sum in any order stay within the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rounding_device import Device, lowered, operator
from tvm import relax, topi

from tapml.bounds import NotDerivable, blocks, derive
from tapml.compare.tolerance import perturb
from tapml.platforms.reference import Reference, to_numpy

op = relax.op


def reference(function: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What the reference platform makes of one kernel."""
    found = lowered(function, *((array.shape, str(array.dtype)) for array in inputs))
    (node,) = found.graph.kernel_nodes
    platform = Reference(found)
    types = [found.graph.values[value].type for value in node.outputs]
    results = platform.call(node.kernel, [platform.tensor(array) for array in inputs], types)
    return [to_numpy(result, t.dtype) for result, t in zip(results, types, strict=True)]


def bounds_of(function: Any, inputs: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    expected = reference(function, inputs)
    found = operator(function, *((array.shape, str(array.dtype)) for array in inputs)).bounds(inputs, expected)
    return found[0], expected


def normal(random: np.random.Generator, *shape: int, dtype: str = "float32") -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("dtype", "terms"), [("float32", 16), ("float32", 600), ("float16", 64)])
def test_a_matrix_product_in_any_order_is_inside_and_not_far(
    random: np.random.Generator, dtype: str, terms: int
) -> None:
    """By a function of TVM's whose sums are of its result's dtype."""
    a, b = normal(random, 5, terms, dtype=dtype), normal(random, terms, 7, dtype=dtype)
    bound, (expected,) = bounds_of(lambda builder, x, y: builder.call_te(topi.matmul, x, y), [a, b])
    device = Device(random, dtype)
    worst = 0.0
    for _ in range(20):
        products = device.round(a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None])
        got = device.sum(products)
        ratio = np.abs(got - expected) / bound.bound
        assert (ratio <= 1).all()
        worst = max(worst, float(ratio.max()))
    assert worst > 0.02, "the bound is so wide that it says nothing"


def test_a_product_that_is_float16_is_summed_in_float32(random: np.random.Generator) -> None:
    """The bound is little more than its rounding, which no sum in float16 keeps to."""
    a, b = normal(random, 5, 600, dtype="float16"), normal(random, 600, 7, dtype="float16")
    bound, (expected,) = bounds_of(lambda _, x, y: op.matmul(x, y), [a, b])
    products = a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None]
    device, rounding = Device(random), Device(random, "float16")
    worst = 0.0
    for _ in range(20):
        got = rounding.round(device.sum(device.round(products)))
        worst = max(worst, float((np.abs(got - expected) / bound.bound).max()))
    assert 0.3 < worst <= 1
    in_float16 = rounding.sum(rounding.round(products))
    assert (np.abs(in_float16 - expected) > bound.bound).mean() > 0.7


def test_one_product_too_many_or_too_few_is_outside(random: np.random.Generator) -> None:
    a, b = normal(random, 4, 384), normal(random, 384, 64)
    bound, (expected,) = bounds_of(lambda _, x, y: op.matmul(x, y), [a, b])
    short = a[:, 1:].astype(np.float64) @ b[1:].astype(np.float64)
    assert (np.abs(short - expected) > bound.bound).mean() > 0.7


def test_a_constant_that_is_wrong_in_the_fifth_digit_is_outside(random: np.random.Generator) -> None:
    x, g, b = normal(random, 8, 64), normal(random, 64), normal(random, 64)
    bound, (expected,) = bounds_of(lambda _, x, g, b: op.nn.layer_norm(x, g, b, [-1], epsilon=1e-5), [x, g, b])
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    for epsilon, inside in ((1e-5, True), (1e-4, False)):
        got = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * g + b
        assert bool((np.abs(got - expected) <= bound.bound).all()) is inside


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda _, x: op.nn.softmax(x), [(6, 50)]),
        (lambda _, x: op.nn.gelu(x), [(6, 50)]),
        (lambda _, x: op.nn.gelu_tanh(x), [(6, 50)]),
        (lambda _, x: op.nn.silu(x), [(6, 50)]),
        (lambda _, x, g: op.nn.rms_norm(x, g, [-1]), [(6, 50), (50,)]),
        (lambda _, x, w: op.nn.conv2d(x, w, padding=1, strides=2), [(1, 3, 9, 9), (4, 3, 3, 3)]),
        (lambda _, x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)), [(1, 3, 9, 9)]),
        (lambda _, x: op.nn.avg_pool2d(x, (2, 2), (2, 2)), [(1, 3, 8, 8)]),
        (lambda _, x: op.sum(op.multiply(x, x), axis=[0, 2]), [(3, 4, 5)]),
        (lambda _, x, y: op.where(op.greater(x, y), op.exp(x), op.divide(x, y)), [(6, 7), (6, 1)]),
        (lambda _, x: op.astype(op.multiply(op.astype(x, "float16"), relax.const(3, "float16")), "float32"), [(6, 7)]),
    ],
)
def test_the_reference_and_its_neighbours_are_inside(
    random: np.random.Generator, function: Any, shapes: list[tuple[int, ...]]
) -> None:
    """Monte Carlo arithmetic checks the derivation: results for inputs a last bit away differ by their sensitivity,
    which is of the size of what rounding does, so some of these bounds widths off they must be."""
    inputs = [normal(random, *shape) for shape in shapes]
    bound, (expected,) = bounds_of(function, inputs)
    if bound.bound is None:
        return
    moved = [np.abs(reference(function, [perturb(a, random) for a in inputs])[0] - expected) for _ in range(5)]
    sensitivity = np.max(moved, axis=0).astype(np.float64)
    assert np.isfinite(bound.bound).all()
    assert np.median(sensitivity) <= 10 * np.median(bound.bound)
    assert np.max(bound.bound) <= 1e-2 * max(1.0, float(np.max(np.abs(expected))))


def test_a_grid_in_parts_gives_the_same(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(random, 4, 30, 5)
    whole, _ = bounds_of(lambda _, x: op.nn.softmax(x, axis=1), [x])
    monkeypatch.setattr(blocks, "POINTS", 64)
    parts, _ = bounds_of(lambda _, x: op.nn.softmax(x, axis=1), [x])
    assert np.array_equal(whole.bound, parts.bound)


def test_elements_in_parts_give_the_same(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(random, 7, 30), normal(random, 30, 5)
    whole, _ = bounds_of(lambda _, x, w: op.tanh(op.matmul(x, w)), [x, weight])
    monkeypatch.setattr(derive, "_AT_ONCE", 8)
    parts, _ = bounds_of(lambda _, x, w: op.tanh(op.matmul(x, w)), [x, weight])
    assert np.array_equal(whole.bound, parts.bound)
    assert whole.reasons == parts.reasons


def test_what_is_given_stays_as_it_is(random: np.random.Generator) -> None:
    inputs = [normal(random, 7, 30), normal(random, 30, 5)]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    found, expected = bounds_of(lambda _, x, w: op.tanh(op.matmul(x, w)), inputs)
    assert all(map(np.array_equal, inputs, before))
    assert found.bound.shape == expected[0].shape


@pytest.mark.parametrize(
    ("function", "value", "what"),
    [
        (lambda _, x: op.exp(x), 89.0, "exp"),
        (lambda _, x: op.sin(x), 4.0, "sin"),
        (lambda _, x: op.power(x, relax.const(3.0, "float32")), -1.5, "pow"),
        (lambda _, x: op.sigmoid(x), -90.0, "sigmoid"),
    ],
)
def test_what_wgsl_promises_nothing_for_is_unbounded_and_named(function: Any, value: float, what: str) -> None:
    x = np.array([0.5, value, 1.5], np.float32)
    bound, _ = bounds_of(function, [x])
    assert list(np.isinf(bound.bound)) == [False, True, False]
    assert "1 of 3 elements are unbounded" in bound.reasons[-1]
    assert f"{what}: " in bound.reasons[-1]


def test_a_divisor_that_no_choice_takes_leaves_no_element_without_a_bound() -> None:
    """As DynamicQuantizeLinear of zeros, whose scale is replaced; a scale that a device may take for 0 is in doubt."""
    most = np.array([[0], [2], [1e-36], [1e-40]], np.float32)
    x = np.array([0, 0.5, 1], np.float32) * most

    def quantized(builder: Any, most: Any, one: Any, x: Any) -> Any:
        scale = builder.emit(op.divide(most, relax.const(255.0)))
        # By an int32 of zeros and ones, as the importers choose.
        mask = builder.emit(op.astype(builder.emit(op.equal(scale, relax.const(0.0))), "int32"))
        divisor = builder.emit(op.where(builder.emit(op.greater(mask, relax.const(0))), one, scale))
        return op.divide(x, divisor)

    bound, (expected,) = bounds_of(quantized, [most, np.ones((), np.float32), x])
    assert not expected[0].any()
    np.testing.assert_array_equal(np.isfinite(bound.bound).all(axis=1), [True, True, False, False])
    assert not bound.bound[0].any()


def test_a_row_of_zeros_beside_others_is_off_by_nothing(random: np.random.Generator) -> None:
    """A condition may ask whether a vector's length is 0; the products of subnormal numbers may be flushed."""
    x, y = normal(random, 4, 32), normal(random, 32, 5)
    x[1], x[2] = 0, 1e-40
    bound, _ = bounds_of(lambda _, x, y: op.matmul(x, y), [x, y])
    np.testing.assert_array_equal(bound.bound.any(axis=1), [True, False, True, True])


def test_a_kernel_that_calls_the_builtin_tanh_relies_on_its_domain() -> None:
    x = np.array([1.0, 100.0], np.float32)
    expected = reference(lambda _, x: op.tanh(x), [x])
    for wgsl, unbounded in (("exp(2 * x)", [False, False]), ("y[i] = tanh (x[i]);", [False, True])):
        found = operator(lambda _, x: op.tanh(x), ((2,), "float32"), wgsl=(wgsl,)).bounds([x], expected)
        assert list(np.isinf(found[0].bound)) == unbounded


def test_moving_values_is_exact() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    bound, _ = bounds_of(lambda _, x: op.permute_dims(x), [x])
    assert bound.bound is None
    assert bound.absolute == 0.0


def test_a_mask_of_minus_infinity_is_no_overflow(random: np.random.Generator) -> None:
    """As PyTorch's attention masks; what overflows within the kernel has no bound."""
    scores, mask = normal(random, 3, 8), np.zeros((3, 8), np.float32)
    mask[:, 5:] = -np.inf
    masked, (expected,) = bounds_of(lambda _, x, m: op.add(op.multiply(x, relax.const(0.3)), m), [scores, mask])
    assert np.isneginf(expected[:, 5:]).all()
    assert np.isfinite(masked.bound).all()
    weights, _ = bounds_of(lambda _, x: op.nn.softmax(x), [expected])
    assert np.isfinite(weights.bound).all()
    assert weights.absolute < 1e-5
    overflow, _ = bounds_of(lambda _, x: op.multiply(x, relax.const(1e30)), [np.array([1e30, 2.0], np.float32)])
    assert list(np.isinf(overflow.bound)) == [True, False]


def test_a_scalar_is_read_everywhere() -> None:
    """As the index of a take, or a scale that is a parameter."""
    x, scale = np.array([1.5, -2.25], np.float32), np.array(0.1, np.float32)
    bound, (expected,) = bounds_of(lambda _, x, s: op.multiply(x, s), [x, scale])
    assert (np.abs(expected - x * np.float64(scale)) <= bound.bound).all()
    assert bound.absolute <= 2.0**-22


def test_a_sum_of_everything_is_a_scalar(random: np.random.Generator) -> None:
    x = normal(random, 5, 7)
    bound, (expected,) = bounds_of(lambda _, x: op.sum(x), [x])
    assert bound.bound.shape == expected.shape == ()
    assert np.abs(expected - x.astype(np.float64).sum()) <= bound.bound


def test_integers_are_exact_and_wrap() -> None:
    x = np.array([200, 100], np.uint8)
    bound, (expected,) = bounds_of(lambda _, x: op.add(x, relax.const(100, "uint8")), [x])
    assert list(expected) == [44, 200]
    assert (bound.bound, bound.absolute) == (None, 0.0)


def test_quantised_weights_unpack_exactly(random: np.random.Generator) -> None:
    packed = random.integers(0, 2**32, (4, 6), np.uint32)
    shift = np.arange(0, 32, 4, dtype=np.uint32)

    def unpack(_: Any, x: Any, s: Any) -> Any:
        nibbles = op.bitwise_and(op.right_shift(op.expand_dims(x, -1), s), relax.const(15, "uint32"))
        return op.multiply(op.subtract(op.astype(nibbles, "float32"), relax.const(8.0)), relax.const(0.1))

    bound, (expected,) = bounds_of(unpack, [packed, shift])
    exact = (((packed[..., None] >> shift) & 15).astype(np.float64) - 8) * np.float64(np.float32(0.1))
    assert (np.abs(expected - exact) <= bound.bound).all()
    assert bound.absolute <= 2e-7


def test_what_there_are_no_rules_for_is_said(random: np.random.Generator) -> None:
    x = np.abs(normal(random, 3, 4))
    with pytest.raises(NotDerivable, match="the function asinh"):
        bounds_of(lambda _, x: op.asinh(op.multiply(x, x)), [x])
