"""Kernels for any size, made for the sizes that a module fixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx

from tapml.lowering.lower import Lowered, lower
from tapml.platforms.reference import Reference, to_numpy


def doubled(t: Any) -> Any:
    return te.compute(t.shape, lambda i, j: t[i, j] * 2.0, "doubled")


def in_rows(t: Any, rows: Any) -> Any:
    return te.compute((rows, 4), lambda i, j: t[i * 4 + j] * 2.0, "in_rows")


def module(flat: bool) -> tuple[tvm.IRModule, int]:
    """Of x [n, 4], or of w [n] and x [n * 4]: twice x and x, in rows. Twice x is a kernel that an importer writes."""
    builder, n = relax.BlockBuilder(), tirx.Var("n", "int64")
    w = relax.Var("w", relax.TensorType((n,), "float32"))
    x = relax.Var("x", relax.TensorType((n * 4,) if flat else (n, 4), "float32"))
    inputs = [w, x] if flat else [x]
    with builder.function("main", inputs):
        with builder.dataflow():
            made = builder.call_te(in_rows, x, n) if flat else builder.call_te(doubled, x)
            rows = relax.op.reshape(x, (n, 4)) if flat else x
            result = builder.emit_output(relax.op.add(builder.emit(made), builder.emit(rows)))
        builder.emit_func_output(result)
    return builder.finalize(), len(inputs)


def lowered(flat: bool, sizes: Mapping[str, int]) -> Lowered:
    made, inputs = module(flat)
    return lower(relax.transform.BindSymbolicVars(dict(sizes), "main")(made), inputs)


@pytest.mark.parametrize("flat", [False, True], ids=["in its operands' shapes", "handed over by itself"])
def test_kernels_of_any_size_are_fused_where_a_module_fixes_it(flat: bool) -> None:
    """TVM refused: "Inconsistent buffers"."""
    found = lowered(flat, {"n": 3})
    (operator,) = found.operators
    assert not operator.symbols
    assert "add" in operator.name
    model = found.at({}, found.documents())
    x = np.arange(12, dtype=np.float32).reshape(12 if flat else (3, 4))
    given = dict(zip(model.graph.inputs, [np.zeros(3, np.float32), x] if flat else [x], strict=True))
    reference = Reference(model)
    values = reference.run(model.graph, reference.values(given))
    result = to_numpy(values[model.graph.outputs[0]], "float32")
    np.testing.assert_array_equal(result, 3 * x.reshape(3, 4))


def test_one_kernel_of_two_sizes_becomes_two_and_one_of_one_size_keeps_its_name() -> None:
    builder, (n, m) = relax.BlockBuilder(), (tirx.Var(name, "int64") for name in "nm")
    x, y = (relax.Var(name, relax.TensorType((size, 4), "float32")) for name, size in (("x", n), ("y", m)))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            found = [builder.emit(builder.call_te(doubled, given)) for given in (x, y, x)]
            once = builder.emit(
                builder.call_te(in_rows, builder.emit(relax.op.flatten(x)), n, primfunc_name_hint="once")
            )
            result = builder.emit_output(relax.Tuple([*found, once]))
        builder.emit_func_output(result)
    made = relax.transform.BindSymbolicVars({"n": 3, "m": 6}, "main")(builder.finalize())
    assert sum(isinstance(function, tirx.PrimFunc) for function in made.functions.values()) == 2
    operators = lower(made, 2).operators
    names = [operator.name for operator in operators]
    assert [operator.arguments[-1]["shape"] for operator in operators if "doubled" in operator.name] == [[3, 4], [6, 4]]
    assert any(name.endswith("_once") for name in names), names
