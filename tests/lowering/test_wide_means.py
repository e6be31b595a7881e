"""Means of more float16 than a float16 counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy


def given(mean: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    variable = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", [variable]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(mean(variable)))
        builder.emit_func_output(result)
    lowered = lower(builder.finalize(), 1)
    model = lowered.at({}, lowered.documents())
    reference = Reference(model)
    values = reference.run(model.graph, reference.values({model.arguments[0]: x}))
    return to_numpy(values[model.graph.outputs[0]], str(x.dtype))


@pytest.mark.parametrize(
    ("mean", "exact"),
    [
        (lambda x: op.mean(x, [-2, -1]), lambda x: x.mean((1, 2))),
        (lambda x: op.mean(x, None, keepdims=True), lambda x: x.mean(keepdims=True)),
        (lambda x: op.variance(x, [1, 2], keepdims=True), lambda x: x.var((1, 2), keepdims=True)),
        (lambda x: op.std(x, [-1, 1]), lambda x: x.std((1, 2))),
    ],
)
def test_they_are_rounded_once(mean: Callable[..., Any], exact: Callable[..., Any]) -> None:
    """Their sum is no float16 either."""
    x = (np.arange(3 * 256 * 257) % 11 + 2).reshape(3, 256, 257).astype(np.float16)
    np.testing.assert_allclose(given(mean, x), exact(x.astype(np.float64)), rtol=1e-3)
