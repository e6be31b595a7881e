"""A suite's model, rebuilt from its graph and its operators' programs. Nothing of it is evaluated."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.lowering.emit import prim_func
from tapml.lowering.lower import Model
from tapml.lowering.quiet import quiet_tvm, reason
from tapml.operators.external import External
from tapml.operators.of_suite import read_operator
from tapml.operators.program import OperatorProgram
from tapml.program import Graph, Node, NodeKind
from tapml.suite import Suite

_MAIN = "main"
_OPAQUE = 8  # tvm::OpPatternKind::kOpaque

MOST_TURNS = 2**42
"""Of all loops of a model together: some hours."""


def read_models(suite: Suite) -> list[Model]:
    """The whole model for the sizes of each step, different ones once. Raises InputError as `read_model` does."""
    return [read_model(suite, graph) for graph in dict.fromkeys(suite.graphs)]


def read_model(suite: Suite, graph: Graph | None = None) -> Model:
    """The whole model, as it was lowered when it was carved, for one of the suite's graphs: a function at sizes
    (default: that of the first step).

    Raises InputError where the suite has no model, is of an earlier format, is damaged, or where a program is none
    that tapml runs.
    """
    graph = graph or suite.graphs[0]
    arguments = suite.arguments_of(graph)
    programs = {name: read_operator(suite, name, graph) for name in graph.kernels}
    called = (programs[node.kernel] for node in graph.kernel_nodes)
    turns = sum(program.turns for program in called if isinstance(program, OperatorProgram))
    if turns > MOST_TURNS:
        raise InputError(f"{suite.path} has a model whose loops make {turns} turns, more than {MOST_TURNS}")
    return Model(graph, arguments, programs)


def relax_module(model: Model) -> tvm.IRModule:
    """The Relax function "main" over a model's arguments, and the operators it calls, which are not fused again.

    Raises InputError where the graph is no model, or TVM refuses a program.
    """
    try:
        with quiet_tvm():
            return _module(model)
    except InputError:
        raise
    except Exception as error:  # TVM raises its own types, without a common base
        raise InputError(f"the suite has a graph that is no model: {reason(error)}; carve it again") from error


def _module(model: Model) -> tvm.IRModule:
    graph = model.graph
    # TVM would fuse an operator that is scheduled with a view's copy, and run part of that on the host, over whatever
    # lies in wasm's memory.
    functions = {
        name: prim_func(found).with_attr("op_pattern", _OPAQUE)
        for name, found in model.programs.items()
        if not isinstance(found, External)
    }
    module = tvm.IRModule(functions)
    for name, function in functions.items():
        # BlockBuilder.add_func would do it, but takes two equal functions for one.
        relax.expr._update_type(module.get_global_var(name), function.ty)
    callees = {
        name: relax.ExternFunc(found.model_dump_json()) if isinstance(found, External) else module.get_global_var(name)
        for name, found in model.programs.items()
    }
    builder = relax.BlockBuilder(module)
    variables: dict[str, Any] = {value: relax.Var(value, _tensor(graph, value)) for value in model.arguments}
    with builder.function(_MAIN, [variables[value] for value in model.arguments]):
        with builder.dataflow():
            for node in graph.nodes:
                variables |= _emitted(builder, callees, graph, node, [variables[value] for value in node.inputs])
            outputs = [variables[value] for value in graph.outputs]
            result = builder.emit_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
        builder.emit_func_output(result)
    return builder.finalize()


def _emitted(
    builder: relax.BlockBuilder, callees: dict[str, Any], graph: Graph, node: Node, operands: list[Any]
) -> Any:
    """Value id -> variable, of a node's outputs."""
    if node.kind is NodeKind.VIEW:
        (value,) = node.outputs
        return {value: builder.emit(relax.op.reshape(operands[0], graph.values[value].type.shape), value)}
    types = [_tensor(graph, value) for value in node.outputs]
    callee = callees[node.kernel]
    call = relax.call_dps_packed if isinstance(callee, relax.ExternFunc) else relax.call_tir
    found = builder.emit(call(callee, relax.Tuple(operands), types), node.id)
    if len(types) == 1:
        return {node.outputs[0]: found}
    return {value: builder.emit(relax.TupleGetItem(found, place), value) for place, value in enumerate(node.outputs)}


def _tensor(graph: Graph, value: str) -> Any:
    found = graph.values[value].type
    return relax.TensorType(found.shape, found.dtype)
