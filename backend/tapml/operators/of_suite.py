"""One operator of a suite's model: its program, for the sizes of one call."""

from __future__ import annotations

import re

from tapml.errors import InputError
from tapml.operators.external import External
from tapml.operators.program import OperatorProgram
from tapml.operators.read import read_document
from tapml.program import Graph, Node, TensorType
from tapml.suite import Suite
from tapml.text import listed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAIN = "main"


def read_operator(suite: Suite, name: str, graph: Graph) -> OperatorProgram | External:
    """One operator of the model for the sizes of `graph`: its program, or who computes it. Raises InputError where
    it is no operator of the model, is damaged, or is no program that tapml runs."""
    if name == _MAIN or not _NAME.fullmatch(name):
        raise InputError(
            f"{suite.path} has an operator {name!r}, which is no name of a function: carve the suite again"
        )
    where, document = suite.operator_document(name)
    program = read_document(document, name, str(where), graph.sizes)
    nodes = graph.nodes_of(name)
    if not nodes:
        raise InputError(f"{suite.path} has no operator {name!r} in its model")
    for node in nodes:
        _check_types(graph, node, program, str(where))
    return program


def _check_types(graph: Graph, node: Node, program: OperatorProgram | External, where: str) -> None:
    if isinstance(program, External):
        counts, given = program.counts, (len(node.inputs), len(node.outputs))
        if counts != given:
            raise InputError(
                f"{where} has {counts} inputs and outputs, but node {node.id} {given}: carve the suite again"
            )
        return
    expected = [graph.values[value].type.logical for value in (*node.inputs, *node.outputs)]
    found = [TensorType(buffer.shape, buffer.dtype) for buffer in program.parameters]
    if expected != found:
        raise InputError(
            f"{where} takes {listed(found, 8) or 'nothing'}, but node {node.id} of the graph gives it "
            f"{listed(expected, 8)}: carve the suite again"
        )
