"""Small modules of a body's making: what is lowered of them, and what that gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.expressions import Symbol
from tapml.lowering.accepts import Accepts
from tapml.lowering.lower import Lowered, lower
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import NodeKind

SYMBOLS = [Symbol(name="n", minimum=1, maximum=8)]
N = tvm.tirx.Var("n", "int64")
Body = Callable[..., list[Any]]


def lowered(
    shapes: dict[str, tuple[Any, ...]],
    body: Body,
    accepts: Accepts | None = None,
    dtype: str = "float32",
    fusing: bool = True,
) -> Lowered:
    given = [relax.Var(name, relax.TensorType(shape, dtype)) for name, shape in shapes.items()]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            results = [builder.emit_output(found) for found in body(builder.emit, *given)]
        builder.emit_func_output(relax.Tuple(results))
    varies = any(axis is N for shape in shapes.values() for axis in shape)
    return lower(builder.finalize(), 1, SYMBOLS if varies else [], accepts=accepts, fusing=fusing)


def given(shapes: dict[str, tuple[Any, ...]], n: int) -> list[np.ndarray[Any, Any]]:
    return [numbers(shape, n) for shape in shapes.values()]


def numbers(shape: tuple[Any, ...], n: int = 4) -> np.ndarray[Any, Any]:
    """That float32 sums exactly."""
    known = [n if axis is N else axis for axis in shape]
    return (np.arange(np.prod(known), dtype=np.float32).reshape(known) % 7 - 3) / 4


def run(found: Lowered, arrays: list[np.ndarray[Any, Any]], n: int) -> tuple[list[str], list[np.ndarray[Any, Any]]]:
    """Kernels in the order in which they are called, and what is given."""
    model = found.at({"n": n} if found.model.symbols else {}, found.documents())
    reference = Reference(model)
    given = [*arrays, *found.constants.values()]
    values = reference.run(model.graph, reference.values(dict(zip(model.arguments, given, strict=True))))
    kernels = [node.kernel for node in model.graph.nodes if node.kind is NodeKind.KERNEL]
    return kernels, [to_numpy(values[value], model.graph.values[value].type.dtype) for value in model.graph.outputs]
