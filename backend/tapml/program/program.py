"""A model as a program: named functions of operator calls, whose sizes are expressions over symbols.

What runs, is recorded and compared are graphs of fixed sizes: `Program.at(sizes)`. One program, and one set of
kernels, stands behind them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, check_sizes, check_symbols, extent, printed
from tapml.program.graph import Graph, Node, TensorType, Value, ValueKind

MAIN = "main"


@dataclass(frozen=True)
class SymbolicType:
    """A tensor's shape, an expression for each axis, and its dtype (numpy's name)."""

    shape: tuple[Any, ...]
    dtype: str

    def at(self, sizes: Mapping[str, int], what: str) -> TensorType:
        """For the sizes of a call. Raises ExpressionError that begins with `what` it is the type of."""
        return TensorType(tuple(extent(axis, sizes, what) for axis in self.shape), self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(printed, self.shape))}]"


@dataclass(frozen=True)
class SymbolicValue:
    """One tensor of a function. `name` is the model's own name where it has one."""

    id: str
    name: str
    type: SymbolicType
    kind: ValueKind


@dataclass(frozen=True)
class Function:
    """Operator calls in topological order; values by id."""

    values: Mapping[str, SymbolicValue]
    nodes: Sequence[Node]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def at(self, sizes: Mapping[str, int]) -> Graph:
        """The graph of one call. Raises InputError where its sizes make it none."""
        values = {
            v.id: Value(v.id, v.name, v.type.at(sizes, f"the shape of {v.name or v.id}"), v.kind)
            for v in self.values.values()
        }
        graph = Graph(values, self.nodes, self.inputs, self.outputs, dict(sizes))
        graph.check()
        return graph

    def to_json(self) -> dict[str, Any]:
        return {
            "values": [
                {"id": v.id, "name": v.name, "dtype": v.type.dtype, "shape": list(v.type.shape), "kind": v.kind}
                for v in self.values.values()
            ],
            "nodes": [node.to_json() for node in self.nodes],
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
        }


@dataclass(frozen=True)
class Program:
    """`functions` by name, `main` among them; the sizes of all are made of `symbols`."""

    symbols: tuple[Symbol, ...]
    functions: Mapping[str, Function]

    @staticmethod
    def of(graph: Graph) -> Program:
        """Of one function of fixed sizes."""
        values = {
            v.id: SymbolicValue(v.id, v.name, SymbolicType(v.type.shape, v.type.dtype), v.kind)
            for v in graph.values.values()
        }
        return Program((), {MAIN: Function(values, graph.nodes, graph.inputs, graph.outputs)})

    @property
    def main(self) -> Function:
        return self.functions[MAIN]

    def at(self, sizes: Mapping[str, int], function: str = MAIN) -> Graph:
        """The graph of one call of a function.

        Raises InputError where `sizes` are not those of the symbols, or make no graph.
        """
        try:
            check_sizes(self.symbols, sizes)
            return self.functions[function].at(sizes)
        except ExpressionError as error:
            raise InputError(str(error)) from error

    def check(self) -> None:
        """Raise InputError unless every symbol that is used is declared, once."""
        names = [symbol.name for symbol in self.symbols]
        if len(set(names)) != len(names):
            raise InputError(f"a symbol stands twice among {', '.join(names)}")
        if MAIN not in self.functions:
            raise InputError(f"it has no function {MAIN!r}")
        for name, function in self.functions.items():
            shapes = [
                (f"{name}: value {value.id}", axis) for value in function.values.values() for axis in value.type.shape
            ]
            try:
                check_symbols(self.symbols, shapes)
            except ExpressionError as error:
                raise InputError(str(error)) from error

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": [symbol.model_dump() for symbol in self.symbols],
            "functions": {name: function.to_json() for name, function in self.functions.items()},
        }


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
