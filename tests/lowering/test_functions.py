"""Several functions of one module: what they share, and what is each one's own."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.lowering.functions import lower_functions
from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy
from tapml.program.program import Program

SYMBOLS = [Symbol(name="n", minimum=1, maximum=8)]
FUNCTIONS: dict[str, dict[str, int]] = {"prefill": {}, "decode": {"n": 1}}
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def module() -> tvm.IRModule:
    """y[n, 3] = x[n, 4] @ w + c, and what it is squared; z[3] = the sum of the columns of w."""
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    w = relax.Var("w", relax.TensorType((4, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit(relax.op.add(relax.op.matmul(x, w), relax.const(np.float32([1, 2, 3]))))
            z = builder.emit(relax.op.sum(w, axis=0))
            result = builder.emit_output(relax.Tuple([y, z]))
        builder.emit_func_output(result)
    return builder.finalize()


def test_parameters_constants_and_kernels_that_are_the_same_are_shared() -> None:
    lowered = lower_functions(module(), 1, SYMBOLS, functions=FUNCTIONS)
    prefill, decode = lowered.model.functions.values()
    parameters = [[v.id for v in found.values.values() if v.kind == "parameter"] for found in (prefill, decode)]
    assert parameters[0] == parameters[1]
    assert len(lowered.constants) == 1
    assert lowered.arguments == [*prefill.inputs, *decode.inputs, *parameters[0]]
    nodes = [{node.kernel: node.id for node in found.nodes} for found in (prefill, decode)]
    (shared,) = nodes[0].keys() & nodes[1].keys()
    assert "sum" in shared
    own = [kernels.keys() - {shared} for kernels in nodes]
    assert {name.removesuffix("_decode") for name in own[1]} == own[0]
    kernels = {operator.name: [symbol.name for symbol in operator.symbols] for operator in lowered.operators}
    assert {name for name, symbols in kernels.items() if symbols} == own[0]
    assert not set(nodes[0].values()) & set(nodes[1].values())
    assert not {*prefill.values} - {*parameters[0]} & {*decode.values}
    assert decode.values[decode.outputs[0]].type.shape == (1, 3)


def test_one_function_is_what_it_is_by_itself() -> None:
    alone, made = lower(module(), 1, SYMBOLS), lower_functions(module(), 1, SYMBOLS)
    assert made.model.to_json() == alone.model.to_json()
    assert made.arguments == alone.arguments
    assert [operator.name for operator in made.operators] == [operator.name for operator in alone.operators]


def test_each_computes_the_same() -> None:
    lowered = lower_functions(module(), 1, SYMBOLS, functions=FUNCTIONS)
    documents = lowered.documents()
    x = np.float32([[1, -2, 3, 0.5]])
    calls = {"prefill": {"n": 1}, "decode": {}}
    models = {name: lowered.at(sizes, documents, name) for name, sizes in calls.items()}
    reference = Reference(*models.values())
    for model in models.values():
        given = {**dict.fromkeys(model.graph.inputs, x), **lowered.constants}
        (weight,) = {value.id for value in model.graph.parameters} - lowered.constants.keys()
        values = reference.run(model.graph, reference.values({**given, weight: WEIGHT}))
        found = [to_numpy(values[value], "float32") for value in model.graph.outputs]
        np.testing.assert_allclose(found[0], x @ WEIGHT + np.float32([1, 2, 3]), rtol=1e-6)
        np.testing.assert_allclose(found[1], WEIGHT.sum(0), rtol=1e-6)


def test_a_size_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="function decode is to have a fixed m, which the model has not"):
        lower_functions(module(), 1, SYMBOLS, functions={"decode": {"m": 1}})


def test_calls_of_all_functions_stand_beside_each_other() -> None:
    program: Program = lower_functions(module(), 1, SYMBOLS, functions=FUNCTIONS).model
    joined = program.joined({"n": 5})
    joined.check()
    prefill, decode = program.at({"n": 5}, "prefill"), program.at({}, "decode")
    assert [node.id for node in joined.nodes] == [node.id for found in (prefill, decode) for node in found.nodes]
    assert joined.inputs == (*prefill.inputs, *decode.inputs)
    assert program.function_of(decode.nodes[0].id) == "decode"
    with pytest.raises(InputError, match="no size is given for n"):
        program.at({}, "prefill")
    with pytest.raises(InputError, match="there is no function main: it has prefill, decode"):
        program.at({"n": 5})
    with pytest.raises(InputError, match="there is no function next: it has prefill, decode"):
        program.at({"n": 5}, "next")
