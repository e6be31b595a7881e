"""`graph.json`: values and nodes, read from a document that may be hostile (docs/suite-format.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tapml.errors import InputError
from tapml.graph import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.protocol.base import MAX_BYTES, Shape
from tapml.protocol.fields import DType, Id, KernelName, Line, Open, nbytes
from tapml.suite.formats import MEND, validated


class ValueDocument(Open):
    """One tensor of the graph."""

    id: Id
    name: Line
    """The model's own, where it has one."""
    dtype: DType
    shape: Shape
    kind: Literal["input", "parameter", "intermediate"]


def _bounded(value: ValueDocument) -> ValueDocument:
    if nbytes(value.dtype, value.shape) > MAX_BYTES:
        raise ValueError(f"a tensor has at most {MAX_BYTES} bytes")
    return value


class NodeDocument(Open):
    """One operator call: its arguments are the values of `inputs`, then those of `outputs`."""

    id: Id
    kind: Literal["kernel", "view"]
    kernel: KernelName
    inputs: list[Id]
    outputs: Annotated[list[Id], Field(min_length=1)]


class GraphDocument(Open):
    """Nodes in topological order."""

    values: list[Annotated[ValueDocument, AfterValidator(_bounded)]]
    nodes: list[NodeDocument]
    inputs: list[Id]
    outputs: list[Id]


def read_graph(where: Path | str, found: Any) -> Graph:
    """Inverse of `Graph.to_json`. Raises InputError naming `where`, and field, value or node."""
    document = validated(where, GraphDocument, found, MEND)
    values = {
        v.id: Value(v.id, v.name, TensorType(tuple(v.shape), v.dtype), ValueKind(v.kind)) for v in document.values
    }
    nodes = [Node(n.id, NodeKind(n.kind), n.kernel, tuple(n.inputs), tuple(n.outputs)) for n in document.nodes]
    graph = Graph(values, nodes, tuple(document.inputs), tuple(document.outputs))
    try:
        if len(values) != len(document.values):
            raise InputError("the id of a value stands twice")
        graph.check()
    except InputError as error:
        raise InputError(f"{where}: {error}{MEND}") from error
    return graph
