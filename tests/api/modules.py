"""Little modules for tests of the Python API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax


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
