"""Little modules for tests of the Python API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

ROWS, WIDTH = 8, 16


def function(build: Callable[..., Any], *shapes: tuple[int, ...], name: str = "f") -> tvm.IRModule:
    """A module of one function: `build(builder, *arguments)` gives its result."""
    builder = relax.BlockBuilder()
    add_function(builder, name, build, shapes)
    return builder.finalize()


def add_function(builder: Any, name: str, build: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    arguments = [relax.Var(f"x{number}", relax.TensorType(shape, "float32")) for number, shape in enumerate(shapes)]
    with builder.function(name, arguments):
        with builder.dataflow():
            out = builder.emit_output(build(builder, *arguments))
        builder.emit_func_output(out)


def elementwise(*names: str) -> tvm.IRModule:
    """Functions of two float32[4]: "add", "multiply", "chain" (two kernels that are not fused)."""
    op = relax.op
    found: dict[str, Callable[..., Any]] = {
        "add": lambda builder, x, y: op.add(x, y),
        "multiply": lambda builder, x, y: op.multiply(x, y),
        "chain": lambda builder, x, y: op.nn.softmax(builder.emit(op.nn.softmax(op.add(x, y), 0)), 0),
    }
    builder = relax.BlockBuilder()
    for name in names:
        add_function(builder, name, found[name], ((4,), (4,)))
    return builder.finalize()


def transformer_block() -> tvm.IRModule:
    """transformer_block(x, wq, wk, wv, w1, w2): one-head attention and a gelu MLP, each with its residual."""
    op = relax.op

    def build(builder: Any, x: Any, wq: Any, wk: Any, wv: Any, w1: Any, w2: Any) -> Any:
        scores = builder.emit(op.matmul(op.matmul(x, wq), op.permute_dims(op.matmul(x, wk))))
        weights = builder.emit(op.nn.softmax(op.multiply(scores, relax.const(WIDTH**-0.5, "float32"))))
        mixed = builder.emit(op.add(x, op.matmul(weights, op.matmul(x, wv))))
        return op.add(mixed, op.matmul(op.nn.gelu(op.matmul(mixed, w1)), w2))

    return function(build, *(array.shape for array in transformer_arrays()), name="transformer_block")


def transformer_arrays() -> list[np.ndarray]:
    """x and the weights."""
    random = np.random.default_rng(5)
    shapes = [(ROWS, WIDTH), *[(WIDTH, WIDTH)] * 3, (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    return [(random.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]
