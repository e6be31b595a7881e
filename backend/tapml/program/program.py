"""A model as a program: named functions of operator calls, whose sizes are expressions over symbols.

What runs, is recorded and compared are graphs of fixed sizes: `Program.at(sizes)`. One program, and one set of
kernels, stands behind them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tapml.encodings import Encoding
from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, check_sizes, check_symbols, extent, symbols_of
from tapml.program.graph import Calls, Graph, NodeKind, TensorType, Typed, Value, ValueKind
from tapml.text import listed

MAIN = "main"
"""The function of a model that has one, or that is meant where nobody says which."""


@dataclass(frozen=True)
class SymbolicType(Typed):
    """With an expression for each axis."""

    def at(self, sizes: Mapping[str, int], what: str) -> TensorType:
        """For the sizes of a call. Raises ExpressionError that begins with `what` it is the type of."""
        return TensorType(tuple(extent(axis, sizes, what) for axis in self.shape), self.dtype, self.encoding)


SymbolicValue: TypeAlias = Value[SymbolicType]


@dataclass(frozen=True)
class State:
    """A tensor that outlives a call and is changed by it (a KV cache): each call begins with what the former left."""

    name: str
    type: SymbolicType
    initial: str | None
    """Digest of what the first call begins with; None: zeros."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **self.type.to_json(), "initial": self.initial}


@dataclass(frozen=True, eq=False)
class Function(Calls[SymbolicType]):
    """The calls of a function, at all sizes."""

    @property
    def symbols(self) -> set[str]:
        """Names of those that its sizes are made of."""
        return {name for value in self.values.values() for axis in value.type.shape for name in symbols_of(axis)}

    def at(self, sizes: Mapping[str, int]) -> Graph:
        """The graph of one call. Raises InputError where its sizes make it none."""
        values = {
            v.id: Value(v.id, v.name, v.type.at(sizes, f"the shape of {v.name or v.id}"), v.kind)
            for v in self.values.values()
        }
        graph = Graph(values, self.nodes, self.inputs, self.outputs, dict(sizes), states=self.states)
        graph.check()
        return graph

    def stored_as(self, encodings: Mapping[str, Sequence[Encoding | None]]) -> Function:
        """With its values stored as their kernels take them: `encodings` of inputs, then outputs, by kernel; views as
        what they show.

        Raises InputError for a value that two kernels take in two ways.
        """
        shown: dict[str, str] = {}
        found: dict[str, tuple[Encoding | None, str]] = {}
        for node in self.nodes:
            if node.kind is NodeKind.VIEW:
                shown[node.outputs[0]] = shown.get(node.inputs[0], node.inputs[0])
            for value, encoding in zip((*node.inputs, *node.outputs), encodings.get(node.kernel, ()), strict=False):
                known, kernel = found.setdefault(shown.get(value, value), (encoding, node.kernel))
                if known != encoding:
                    names = f"{kernel} as {known or 'it is'}, and {node.kernel} as {encoding or 'it is'}"
                    raise InputError(f"{self.values[value].name or value} is stored by {names}: let them agree")
        taken = {name: found.get(shown.get(name, name), (None, ""))[0] for name in self.values}
        return replace(
            self,
            values={
                name: replace(value, type=replace(value.type, encoding=taken[name]))
                for name, value in self.values.items()
            },
        )


@dataclass(frozen=True)
class Program:
    """`functions` by name; the sizes of all are made of `symbols`, and they share `states` and parameters: what stands
    under one id in several of them is the same parameter. The ids of nodes are each one function's."""

    symbols: tuple[Symbol, ...]
    functions: Mapping[str, Function]
    states: tuple[State, ...] = ()
    _graphs: dict[Any, Graph] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(graph: Graph) -> Program:
        """Of one function of fixed sizes."""
        values = {
            v.id: SymbolicValue(v.id, v.name, SymbolicType(v.type.shape, v.type.dtype), v.kind)
            for v in graph.values.values()
        }
        return Program((), {MAIN: Function(values, graph.nodes, graph.inputs, graph.outputs)})

    def function_name(self, wanted: str | None = None) -> str:
        """The function of that name; where none is said, `main`, or the only one. Raises InputError."""
        return named_function(self.functions, wanted)

    @property
    def main(self) -> Function:
        """The function that is meant where nobody says which. Raises InputError."""
        return self.functions[self.function_name()]

    def at(self, sizes: Mapping[str, int], function: str | None = None) -> Graph:
        """The graph of one call of a function (`function_name`): for the same sizes the same one.

        Raises InputError where there is no such function, where `sizes` are not those of its symbols, or make no graph.
        """
        name = self.function_name(function)
        key = name, *sorted(sizes.items())
        if key not in self._graphs:
            found = self.functions[name]
            try:
                used = found.symbols if len(self.functions) > 1 else {symbol.name for symbol in self.symbols}
                check_sizes([symbol for symbol in self.symbols if symbol.name in {*used, *sizes}], sizes)
                self._graphs[key] = found.at(sizes)
            except ExpressionError as error:
                raise InputError(str(error)) from error
        return self._graphs[key]

    def joined(self, sizes: Mapping[str, int]) -> Graph:
        """The calls of all functions beside each other, at sizes of all symbols: of one function `at`. Raises as that
        does."""
        if len(self.functions) == 1:
            return self.at(sizes)
        key = "", *sorted(sizes.items())
        if key not in self._graphs:
            graphs = [self.at(sizes, name) for name in self.functions]
            values = {name: value for graph in graphs for name, value in graph.values.items()}
            nodes = [node for graph in graphs for node in graph.nodes]
            inputs = tuple(value for graph in graphs for value in graph.inputs)
            outputs = tuple(value for graph in graphs for value in graph.outputs)
            self._graphs[key] = Graph(values, nodes, inputs, outputs, dict(sizes))
        return self._graphs[key]

    def function_of(self, node: str) -> str | None:
        """The name of the function that has this node; None where there is none."""
        return next((n for n, found in self.functions.items() if any(node == each.id for each in found.nodes)), None)

    def check(self) -> None:
        """Raise InputError unless every symbol and every state that is used is declared, once, and states fit."""
        for what, names in (
            ("symbol", [symbol.name for symbol in self.symbols]),
            ("state", [state.name for state in self.states]),
        ):
            if len(set(names)) != len(names):
                raise InputError(f"a {what} stands twice among {', '.join(names)}")
        if not self.functions:
            raise InputError("it has no function")
        for name, function in self.functions.items():
            shapes = [
                (f"{name}: value {value.id}", axis) for value in function.values.values() for axis in value.type.shape
            ]
            try:
                check_symbols(self.symbols, shapes)
            except ExpressionError as error:
                raise InputError(str(error)) from error
            self._check_states(name, function)
        self._check_apart()

    def _check_apart(self) -> None:
        """Functions share parameters and nothing else."""
        nodes: dict[str, str] = {}
        values: dict[str, tuple[str, SymbolicValue]] = {}
        for name, function in self.functions.items():
            for node in dict.fromkeys(node.id for node in function.nodes):
                if nodes.setdefault(node, name) != name:
                    raise InputError(f"node {node} is one of {nodes[node]} and of {name}")
            for value in function.values.values():
                other, known = values.setdefault(value.id, (name, value))
                if other != name and not known == value:
                    raise InputError(f"value {value.id} is another in {other} than in {name}")
                if other != name and value.kind is not ValueKind.PARAMETER:
                    raise InputError(f"value {value.id} is one of {other} and of {name}, and no parameter")

    def _check_states(self, name: str, function: Function) -> None:
        declared = {state.name: state.type for state in self.states}
        for state, (before, after) in function.states.items():
            if state not in declared:
                raise InputError(f"{name}: there is no state {state}")
            known = function.values.keys()
            if before not in {*function.inputs} & known or after not in {*function.outputs} & known:
                raise InputError(f"{name}: state {state} is not an input ({before}) and an output ({after}) of it")
            for value in (before, after):
                if (found := function.values[value].type) != declared[state]:
                    raise InputError(f"{name}: state {state} is {declared[state]}, and its value {value} is {found}")
        if len({before for before, _ in function.states.values()}) != len(function.states):
            raise InputError(f"{name}: two states are the same input")

    def to_json(self) -> dict[str, Any]:
        """JSON; `states` only where there are such."""
        return {
            "symbols": [symbol.model_dump() for symbol in self.symbols],
            **({"states": [state.to_json() for state in self.states]} if self.states else {}),
            "functions": {name: function.to_json() for name, function in self.functions.items()},
        }


def named_function(functions: Iterable[str], wanted: str | None) -> str:
    """The one of that name; where none is said, `main`, or the only one. Raises InputError with the names of all."""
    names = [*functions]
    if wanted is None and len(names) == 1:
        return names[0]
    if (found := MAIN if wanted is None else wanted) not in names:
        raise InputError(f"there is no function {found[:100]}: it has {listed(names, 8)}")
    return found


def sizes_of(function: Function, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The sizes that inputs of these shapes (by value id) give to the symbols that stand alone in a shape.

    Raises InputError where two inputs disagree, named with both shapes, or a shape is not as declared.
    """
    found: dict[str, tuple[int, str]] = {}
    for value, shape in shapes.items():
        declared = function.values[value]
        said = f"{declared.name or value} {list(shape)}"
        if len(shape) != len(declared.type.shape):
            raise InputError(f"{said}: the model takes {declared.type}")
        for axis, size in zip(declared.type.shape, shape, strict=True):
            if isinstance(axis, int) and axis != size:
                raise InputError(f"{said}: the model takes {declared.type}")
            if isinstance(axis, str):
                before = found.setdefault(axis, (size, said))
                if before[0] != size:
                    raise InputError(f"two inputs disagree on {axis}: {before[1]} and {said}")
    return {name: size for name, (size, _) in found.items()}
