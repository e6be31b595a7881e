"""What `tapml show` says that fusing operators saved."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax, tirx

from helpers import small_model
from tapml.carving.carve import carve
from tapml.expressions import Symbol
from tapml.lowering.functions import lower_functions
from tapml.reports.fusion import fusion, fusion_text


def chain(rows: Any) -> Any:
    """relu(x) + x, seen as rows * 8 elements in a row, and its sum."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            added = builder.emit(relax.op.add(relax.op.nn.relu(x), x))
            flat = builder.emit(relax.op.reshape(added, (rows * 8,)))
            out = builder.emit_output(relax.op.sum(flat, axis=[0]))
        builder.emit_func_output(out)
    return builder.finalize()


def test_each_operator_by_itself_moves_what_it_reads_and_writes() -> None:
    """A reshape moves nothing; sizes are those of the call."""
    rows = tirx.Var("rows", "int64")
    found = lower_functions(chain(rows), 1, [Symbol(name="rows", minimum=1, maximum=100)]).unfused["main"]
    assert found is not None
    elements = [2, 3, 1]  # of relu, add and the sum: tensors of rows * 8, and one of one
    assert len(found.calls) == len(elements)
    for rows_of_call in (1, 50):
        assert found.bytes_at({"rows": rows_of_call}) == 4 * (sum(elements) * rows_of_call * 8 + 1)


def test_it_is_told_for_each_function(tmp_path: Path) -> None:
    x = np.ones((5, 8), np.float32)
    model = small_model()
    (step,) = model.steps
    model = dataclasses.replace(
        model, module=chain(5), parameters=[], outputs=["sum"],
        steps=[dataclasses.replace(step, inputs={"x": x}, expected=[np.float32(80.0).reshape(())])],
    )  # fmt: skip
    suite = carve(model, tmp_path / "chain.suite", name="chain")
    (told,) = fusion(suite)
    calls = suite.graphs[0].kernel_nodes
    moved = sum(suite.graph.values[value].type.nbytes for node in calls for value in (*node.inputs, *node.outputs))
    assert told == {
        "function": "main",
        "operators": 3,
        "operator_bytes": 4 * (6 * 40 + 1),
        "calls": len(calls),
        "call_bytes": moved,
    }
    assert len(calls) < 3
    assert moved < told["operator_bytes"]
    assert fusion_text(told, several=False).startswith("3 operators in ")
    del suite.manifest["steps"][0]["unfused"]
    assert fusion(suite) == []  # of a former version
