"""An RMSNorm is one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy

X = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7 - 3) / 4


def normalized(
    axes: list[int] | None, dtype: str = "float32", also: bool = False
) -> tuple[list[str], list[np.ndarray]]:
    """x / sqrt(mean(x * x) + 1): its kernels, and what they give. `also`: the squares are a result, too."""
    x = relax.Var("x", relax.TensorType(X.shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            squares = builder.emit(op.multiply(x, x))
            mean = builder.emit(op.mean(squares, axes, keepdims=True))
            root = builder.emit(op.rsqrt(builder.emit(op.add(mean, relax.const(1, dtype)))))
            results: list[Any] = [builder.emit_output(op.multiply(x, root))]
            results += [builder.emit_output(squares)] if also else []
        builder.emit_func_output(relax.Tuple(results))
    lowered = lower(builder.finalize(), 1)
    model = lowered.at({}, lowered.documents())
    reference = Reference(model)
    values = reference.run(model.graph, reference.values({model.arguments[0]: X.astype(dtype)}))
    found = [to_numpy(values[value], dtype) for value in model.graph.outputs]
    return [node.kernel for node in model.graph.nodes], found


@pytest.mark.parametrize("axes", [[-1], [1, 2], None])
def test_the_mean_of_squares_is_part_of_one_kernel(axes: list[int] | None) -> None:
    kernels, (found,) = normalized(axes)
    assert kernels == ["fused_mean_of_squares_add_tir_rsqrt_multiply"]
    mean = np.mean(np.float64(X) ** 2, axis=None if axes is None else tuple(axes), keepdims=True)
    np.testing.assert_allclose(found, X / np.sqrt(mean + 1), rtol=1e-6)


def test_squares_that_are_a_result_are_read_by_the_mean() -> None:
    kernels, (found, squares) = normalized([-1], also=True)
    assert len(kernels) == 2
    np.testing.assert_array_equal(squares, X * X)
    np.testing.assert_allclose(found, X / np.sqrt(np.mean(X * X, -1, keepdims=True) + 1), rtol=1e-6)


def test_squares_of_float16_are_rounded_as_before() -> None:
    kernels, _ = normalized([-1], dtype="float16")
    assert not any("mean_of_squares" in kernel for kernel in kernels)
