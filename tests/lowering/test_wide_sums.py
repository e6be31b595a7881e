"""What gives float16 adds up in float32, in the kernel that it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from lowering import bodies
from tapml.lowering.lower import Lowered
from tapml.operators.program import OperatorProgram

Body = Callable[..., Any]


def lowered(shapes: dict[str, tuple[Any, ...]], body: Body, fusing: bool = True) -> Lowered:
    """Of float16 tensors, with one result."""
    return bodies.lowered(shapes, lambda emit, *given: [body(emit, *given)], dtype="float16", fusing=fusing)


def run(found: Lowered, *arrays: np.ndarray, n: int = 1) -> np.ndarray:
    _, (result,) = bodies.run(found, [*arrays], n)
    return result


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4100), (4100, 5)),
        ((2, 3, 4100), (4100, 5)),
        ((2, 1, 3, 4100), (4, 4100, 5)),
        ((4100,), (4100, 5)),
        ((3, 4100), (4100,)),
    ],
)
def test_a_sum_is_rounded_once(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """A sum of ones in float16 is never more than 2048."""
    found = lowered({"a": left, "b": right}, lambda _, a, b: op.matmul(a, b))
    assert [operator.name for operator in found.operators] == ["matmul"]
    ones = np.ones(left, np.float16), np.ones(right, np.float16)
    given = run(found, *ones)
    assert given.shape == np.matmul(*ones).shape
    assert (given == 4100).all()


def test_a_parameter_that_is_read_as_it_lies_is_added_up_so() -> None:
    found = lowered({"a": (3, 4100), "w": (5, 4100)}, lambda emit, a, w: op.matmul(a, emit(op.permute_dims(w))))
    assert [operator.name for operator in found.operators] == ["matmul_transposed"]
    assert (run(found, np.ones((3, 4100), np.float16), np.ones((5, 4100), np.float16)) == 4100).all()


@pytest.mark.parametrize(
    ("convolution", "x", "w", "shape"),
    [
        (op.nn.conv1d, (1, 820, 7), (2, 820, 5), (1, 2, 3)),
        (op.nn.conv2d, (1, 4100, 3, 2), (5, 4100, 1, 1), (1, 5, 3, 2)),
        (partial(op.nn.conv2d, strides=2, groups=2), (1, 328, 7, 5), (4, 164, 5, 5), (1, 4, 2, 1)),
        (
            partial(op.nn.conv2d, data_layout="NHWC", kernel_layout="HWIO"),
            (1, 5, 5, 164),
            (5, 5, 164, 3),
            (1, 1, 1, 3),
        ),
        (op.nn.conv3d, (1, 41, 5, 5, 4), (2, 41, 5, 5, 4), (1, 2, 1, 1, 1)),
        (op.nn.conv1d_transpose, (1, 4100, 3), (4100, 2, 1), (1, 2, 3)),
        (op.nn.conv2d_transpose, (1, 4100, 3, 2), (4100, 2, 1, 1), (1, 2, 3, 2)),
        (op.nn.conv3d_transpose, (1, 4100, 1, 3, 2), (4100, 2, 1, 1, 1), (1, 2, 1, 3, 2)),
    ],
)
def test_convolutions_are_rounded_once(
    convolution: Body, x: tuple[int, ...], w: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """Of windows of 4,100 ones."""
    found = lowered({"x": x, "w": w}, lambda _, x, w: convolution(x, w))
    assert len(found.operators) == 1
    given = run(found, np.ones(x, np.float16), np.ones(w, np.float16))
    assert given.shape == shape
    assert (given == 4100).all()


def test_an_einsum_is_rounded_once() -> None:
    shapes = {"a": (2, 3, 4100), "b": (2, 5, 4100)}
    found = lowered(shapes, lambda emit, a, b: op.einsum(emit(relax.Tuple([a, b])), "hid,hjd->hij"))
    assert [operator.name for operator in found.operators] == ["einsum"]
    assert (run(found, *(np.ones(shape, np.float16) for shape in shapes.values())) == 4100).all()


@pytest.mark.parametrize(
    "pooled",
    [lambda x: op.nn.avg_pool2d(x, (64, 64)), lambda x: op.nn.adaptive_avg_pool2d(x, (1, 1))],
    ids=["avg_pool2d", "adaptive_avg_pool2d"],
)
def test_means_of_windows_are_rounded_once(pooled: Body) -> None:
    """Of 4,096 numbers of 1 to 3, whose sum in float16 would not be more than 4,096."""
    x = (np.arange(2 * 64 * 64) % 3 + 1).reshape(1, 2, 64, 64).astype(np.float16)
    given = run(lowered({"x": x.shape}, lambda _, x: pooled(x)), x)
    np.testing.assert_array_equal(given, x.astype(np.float64).mean((2, 3), keepdims=True).astype(np.float16))


@pytest.mark.parametrize(
    ("reduced", "exact"),
    [
        (lambda x: op.mean(x, [-2, -1]), lambda x: x.mean((1, 2))),
        (lambda x: op.mean(x, None, keepdims=True), lambda x: x.mean(keepdims=True)),
        (lambda x: op.variance(x, [1, 2], keepdims=True), lambda x: x.var((1, 2), keepdims=True)),
        (lambda x: op.std(x, [-1, 1]), lambda x: x.std((1, 2))),
        (lambda x: op.sum(x / relax.const(64, "float16"), [1, 2]), lambda x: (x / 64).sum((1, 2))),
        (lambda x: op.nn.softmax(x, 1), lambda x: softmax(x, 1)),
        (lambda x: op.nn.softmax(x / relax.const(64, "float16")), lambda x: softmax(x / 64, 2)),
        (lambda x: op.nn.log_softmax(x), lambda x: np.log(softmax(x, 2))),
    ],
)
def test_it_is_rounded_once(reduced: Body, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    """Sums of 65,792 numbers, and how many these are, are no float16."""
    x = (np.arange(3 * 256 * 257) % 11 + 2).reshape(3, 256, 257).astype(np.float16)
    found = lowered({"x": x.shape}, lambda emit, x: reduced(x))
    np.testing.assert_allclose(run(found, x), exact(x.astype(np.float64)), rtol=1e-3, atol=1e-7)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    weights = np.exp(x - x.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def test_a_sum_stays_one_operator_with_what_it_is_of() -> None:
    def body(emit: Any, x: Any) -> Any:
        return op.sum(emit(op.multiply(x, x)), [-1])

    assert [operator.name for operator in lowered({"x": (3, 8)}, body).operators] == ["fused_multiply_sum"]


@pytest.mark.parametrize(
    ("body", "shape", "wanted"),
    [
        (lambda _, x: op.sum(x), (3, 0), 0),
        (lambda _, x: op.sum(x), (3, 2), 6),
        (lambda _, x: op.matmul(x, x), (8,), 8),
        (lambda emit, x: op.einsum(emit(relax.Tuple([x, x])), "i,i->"), (8,), 8),
        (lambda emit, x: op.einsum(emit(relax.Tuple([x])), "ij->i"), (3, 2), 2),
    ],
)
def test_what_is_as_tvm_has_it(body: Body, shape: tuple[int, ...], wanted: int) -> None:
    """Sums of nothing, those that are one number, and einsum of one tensor."""
    found = lowered({"x": shape}, body)
    (operator,) = found.operators
    assert isinstance(operator.program, OperatorProgram)
    assert not any(buffer.name.startswith("rounded") for buffer in operator.program.parameters)
    assert (run(found, np.ones(shape, np.float16)) == wanted).all()


def test_no_terms_are_zero() -> None:
    found = lowered({"a": (3, 0), "b": (0, 5)}, lambda _, a, b: op.matmul(a, b))
    assert (run(found, np.ones((3, 0), np.float16), np.ones((0, 5), np.float16)) == 0).all()


def test_what_is_fused_with_it_is_computed_in_float16_as_before() -> None:
    def body(emit: Any, a: Any, b: Any, bias: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.matmul(a, b)), bias)))

    shapes = {"a": (3, 8), "b": (8, 5), "bias": (5,)}
    found = lowered(shapes, body)
    assert [operator.name for operator in found.operators] == ["fused_matmul_add_relu"]
    numbers = np.random.default_rng(0)
    a, b, bias = (numbers.standard_normal(shape).astype(np.float16) for shape in shapes.values())
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16) + bias
    np.testing.assert_array_equal(run(found, a, b, bias), np.maximum(wanted, 0))


def test_no_operator_is_one_that_the_model_does_not_have() -> None:
    found = lowered({"a": (3, 8), "b": (8, 5)}, lambda emit, a, b: op.nn.relu(emit(op.matmul(a, b))), fusing=False)
    assert [operator.name for operator in found.operators] == ["matmul", "relu"]


def test_of_sizes_that_vary() -> None:
    found = lowered({"a": (bodies.N, 4100), "b": (4100, 5)}, lambda _, a, b: op.matmul(a, b))
    given = run(found, np.ones((3, 4100), np.float16), np.ones((4100, 5), np.float16), n=3)
    assert given.shape == (3, 5)
    assert (given == 4100).all()
