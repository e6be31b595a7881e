"""Moves that keep the order of elements are no kernels, and none stands between a product and what is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm.relax import op

from lowering.bodies import Body, N, given, lowered, numbers, run

Made = tuple[list[str], list[np.ndarray]]


def made(shapes: dict[str, tuple[Any, ...]], body: Body, n: int = 4) -> Made:
    """Kernels of what `body` makes of tensors of these shapes (x first, an input), and what they give of numbers that
    float32 sums exactly."""
    return run(lowered(shapes, body), given(shapes, n), n)


@pytest.mark.parametrize("n", [N, 1, 4])
def test_what_is_added_to_a_product_is_part_of_its_kernel(n: Any) -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        product = emit(op.matmul(emit(op.reshape(x, (n, 3))), w))
        return [op.add(x, emit(op.reshape(product, (1, n, 3))))]

    size = 4 if n is N else n
    kernels, (found,) = made({"x": (1, n, 3), "w": (3, 3)}, body, size)
    assert kernels == ["fused_matmul_add"]
    x = numbers((1, size, 3))
    np.testing.assert_array_equal(found, x + x @ numbers((3, 3)))


def test_a_product_with_a_bias_and_another_tensor_beside_it() -> None:
    def body(emit: Any, x: Any, w: Any, bias: Any, beside: Any) -> list[Any]:
        product = emit(op.add(bias, emit(op.matmul(emit(op.reshape(x, (N, 3))), w))))
        return [op.multiply(x, emit(op.reshape(emit(op.multiply(product, beside)), (1, N, 3))))]

    shapes = {"x": (1, N, 3), "w": (3, 3), "bias": (3,), "beside": (1, 3)}
    kernels, (found,) = made(shapes, body)
    assert kernels == ["fused_matmul_add_multiply_multiply1"]
    x = numbers((1, 4, 3))
    product = (x @ numbers((3, 3)) + numbers((3,))) * numbers((1, 3))
    np.testing.assert_array_equal(found, x * product)


def test_a_product_that_something_else_reads_is_made_once() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        product = emit(op.matmul(emit(op.reshape(x, (4, 3))), w))
        return [op.add(x, emit(op.reshape(product, (1, 4, 3)))), op.exp(product)]

    kernels, (found, other) = made({"x": (1, 4, 3), "w": (3, 3)}, body)
    assert sum("matmul" in kernel for kernel in kernels) == 1
    product = numbers((4, 3)) @ numbers((3, 3))
    np.testing.assert_array_equal(found, numbers((1, 4, 3)) + product)
    np.testing.assert_allclose(other, np.exp(product), rtol=1e-6)


def test_a_batch_stays_the_rows_of_one_product() -> None:
    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        product = emit(op.matmul(emit(op.reshape(x, (8, 3))), w))
        return [op.add(x, emit(op.reshape(product, (2, 4, 3))))]

    kernels, (found,) = made({"x": (2, 4, 3), "w": (3, 3)}, body)
    assert kernels == ["matmul", "fused_reshape1_add"]
    np.testing.assert_array_equal(found, numbers((2, 4, 3)) + numbers((2, 4, 3)) @ numbers((3, 3)))


MOVES: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "axes of one element": (3, lambda emit, x: op.permute_dims(emit(op.reshape(x, (1, 1, 4, 3))), (0, 2, 1, 3))),
    "a chain": (2, lambda emit, x: op.squeeze(emit(op.expand_dims(emit(op.reshape(x, (6, 2))), (0, 2))))),
    "back again": (3, lambda emit, x: op.reshape(emit(op.flatten(x)), (1, 4, 3))),
    "all axes": (4, lambda emit, x: op.reshape(emit(op.permute_dims(emit(op.reshape(x, (12, 1))))), (3, 4))),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_that_keep_the_order_are_views(name: str) -> None:
    last, move = MOVES[name]

    def body(emit: Any, x: Any, w: Any) -> list[Any]:
        return [op.matmul(emit(move(emit, x)), w)]

    kernels, (found,) = made({"x": (1, 4, 3), "w": (last, last)}, body)
    assert kernels == ["matmul"]
    product = numbers((12,)).reshape(-1, last) @ numbers((last, last))
    np.testing.assert_array_equal(found.reshape(-1, last), product)


def test_a_move_of_elements_is_a_kernel() -> None:
    def body(emit: Any, x: Any) -> list[Any]:
        return [op.reshape(emit(op.permute_dims(emit(op.reshape(x, (1, 4, 3))), (0, 2, 1))), (12,))]

    kernels, (found,) = made({"x": (4, 3)}, body)
    assert len(kernels) == 1
    np.testing.assert_array_equal(found, numbers((4, 3)).T.reshape(-1))
