"""`program.json`: the model's functions, read from a document that may be hostile (docs/suite-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from tapml.encodings import Encoding, check_encoding
from tapml.errors import InputError
from tapml.expressions import CheckedExpression, Symbol
from tapml.formats import REMEDY, validated
from tapml.program import Graph, Node, NodeKind, ValueKind
from tapml.program.program import MAIN, Function, Program, State, SymbolicType, SymbolicValue
from tapml.protocol.base import MAX_BYTES, Digest
from tapml.protocol.fields import DType, Id, KernelName, Line, Open

_MOST_SYMBOLS = 100
_MOST_STATES = 10_000


def _no_negative(expression: Any) -> Any:
    if isinstance(expression, int) and expression < 0:
        raise ValueError("a size is at least 0")
    return expression


_Extent = Annotated[CheckedExpression, AfterValidator(_no_negative)]


class TypeDocument(Open):
    """What a tensor is."""

    dtype: DType
    shape: Annotated[list[_Extent], Field(max_length=32)]
    encoding: Encoding | None = None
    """How its elements are stored, where that is not one by one."""

    @model_validator(mode="after")
    def _fits(self) -> TypeDocument:
        check_encoding(self.encoding, self.dtype)
        return self

    @property
    def type(self) -> SymbolicType:
        return SymbolicType(tuple(self.shape), self.dtype, self.encoding)


class ValueDocument(TypeDocument):
    """One tensor of a function."""

    id: Id
    name: Line
    """The model's own, where it has one."""
    kind: Literal["input", "parameter", "intermediate"]


class NodeDocument(Open):
    """One operator call: its arguments are the values of `inputs`, then those of `outputs`."""

    id: Id
    kind: Literal["kernel", "view"]
    kernel: KernelName
    inputs: list[Id]
    outputs: Annotated[list[Id], Field(min_length=1)]


class CarriedDocument(Open):
    """A state in a function: the input that it is before a call, and the output that it is after it."""

    state: Id
    before: Id
    after: Id


class FunctionDocument(Open):
    """Nodes in topological order."""

    values: list[ValueDocument]
    nodes: list[NodeDocument]
    inputs: list[Id]
    outputs: list[Id]
    states: Annotated[list[CarriedDocument], Field(max_length=_MOST_STATES, default_factory=list)]


class StateDocument(TypeDocument):
    """A tensor that outlives a call."""

    name: Id
    initial: Digest | None = None
    """Of what the first call begins with; null: zeros."""


class ProgramDocument(Open):
    """Named functions, the symbols that their sizes are made of, and the states that they share."""

    states: Annotated[list[StateDocument], Field(max_length=_MOST_STATES, default_factory=list)]
    symbols: Annotated[list[Symbol], Field(max_length=_MOST_SYMBOLS)]
    functions: Annotated[dict[Id, FunctionDocument], Field(max_length=100)]


def read_program(where: Path | str, found: Any) -> Program:
    """Inverse of `Program.to_json`. Raises InputError naming `where`, and field, value or symbol."""
    document = validated(where, ProgramDocument, found, REMEDY)
    functions = {name: _function(where, function) for name, function in document.functions.items()}
    states = tuple(State(state.name, state.type, state.initial) for state in document.states)
    return _checked(where, Program(tuple(document.symbols), functions, states))


def read_main(where: Path | str, found: Any) -> Program:
    """A program that is nothing but one function of fixed sizes, as suites of version 1 have it (`graph.json`)."""
    return _checked(where, Program((), {MAIN: _function(where, validated(where, FunctionDocument, found, REMEDY))}))


def graph_at(where: Path | str, program: Program, sizes: Mapping[str, int], function: str | None = None) -> Graph:
    """The graph of a call of a function. Raises InputError naming `where`."""
    return _bounded(where, lambda: program.at(sizes, function))


def joined_at(where: Path | str, program: Program, steps: Sequence[Graph]) -> Graph:
    """The calls of all functions beside each other: symbols are what they are in the first of `steps` that has them, or
    their least. Raises InputError naming `where`."""
    sizes = {symbol.name: symbol.minimum for symbol in program.symbols}
    for graph in reversed(steps):
        sizes |= graph.sizes
    return _bounded(where, lambda: program.joined(sizes))


def _bounded(where: Path | str, made: Callable[[], Graph]) -> Graph:
    try:
        graph = made()
        for value in graph.values.values():
            if value.type.nbytes > MAX_BYTES:
                raise InputError(f"value {value.id} is {value.type}, and a tensor has at most {MAX_BYTES} bytes")
    except InputError as error:
        raise InputError(f"{where}: {error}{REMEDY}") from error
    return graph


def _checked(where: Path | str, program: Program) -> Program:
    try:
        program.check()
    except InputError as error:
        raise InputError(f"{where}: {error}{REMEDY}") from error
    if not program.symbols:
        joined_at(where, program, [])
    return program


def _function(where: Path | str, document: FunctionDocument) -> Function:
    values = {v.id: SymbolicValue(v.id, v.name, v.type, ValueKind(v.kind)) for v in document.values}
    if len(values) != len(document.values):
        raise InputError(f"{where}: the id of a value stands twice{REMEDY}")
    states = {found.state: (found.before, found.after) for found in document.states}
    if len(states) != len(document.states):
        raise InputError(f"{where}: a state stands twice in a function{REMEDY}")
    nodes = [Node(n.id, NodeKind(n.kind), n.kernel, tuple(n.inputs), tuple(n.outputs)) for n in document.nodes]
    return Function(values, nodes, tuple(document.inputs), tuple(document.outputs), states=states)
