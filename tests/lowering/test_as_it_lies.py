"""A weight that is read as it is and transposed is copied nowhere."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tapml.expressions import Symbol
from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy

SYMBOLS = [Symbol(name="n", minimum=1, maximum=8)]
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3) / 8
DATA = np.arange(12, dtype=np.float32).reshape(4, 3) / 4
IDS = np.int32([4, 0, 1, 1])


def module(rows: tuple[int, ...], axes: tuple[int, int] | None) -> tvm.IRModule:
    """table[ids], and x @ table.T of x [*rows, n, 3]."""
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((*rows, n, 3), "float32"))
    ids = relax.Var("ids", relax.TensorType((n,), "int32"))
    table = relax.Var("table", relax.TensorType((5, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, ids, table]):
        with builder.dataflow():
            found = builder.emit(relax.op.take(table, ids, axis=0))
            turned = builder.emit(relax.op.permute_dims(table, axes))
            logits = builder.emit(relax.op.matmul(x, turned))
            result = builder.emit_output(relax.Tuple([found, logits]))
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.mark.parametrize("axes", [None, (1, 0)])
@pytest.mark.parametrize("rows", [(), (1,)])
def test_a_table_that_is_read_both_ways_is_read_as_it_lies(rows: tuple[int, ...], axes: tuple[int, int] | None) -> None:
    lowered = lower(module(rows, axes), 2, SYMBOLS)
    model = lowered.at({"n": 4}, lowered.documents())
    assert [node.kernel for node in model.graph.nodes] == ["take", "matmul_transposed"]
    reference = Reference(model)
    data = DATA.reshape(*rows, 4, 3)
    given = dict(zip(model.arguments, (data, IDS, TABLE), strict=True))
    values = reference.run(model.graph, reference.values(given))
    found, logits = (to_numpy(values[value], "float32") for value in model.graph.outputs)
    np.testing.assert_array_equal(found, TABLE[IDS])
    np.testing.assert_array_equal(logits, data @ TABLE.T)  # numbers that float32 sums exactly
