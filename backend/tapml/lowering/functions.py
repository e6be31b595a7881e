"""Several functions of one module: the same calls, with sizes fixed in some, so that each has kernels of its own
(a decoder's `decode` takes one token). They share parameters, and kernels that are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.files import sha256, unique
from tapml.lowering.accepts import Accepts
from tapml.lowering.lower import Lowered, lower, short_name
from tapml.lowering.operator import Operator
from tapml.lowering.unfused import Unfused
from tapml.operators.document import to_json_text
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.program import MAIN, Function, SymbolicType, SymbolicValue
from tapml.program.program import Program as ModelProgram

Fixed = Mapping[str, Mapping[str, int]]
"""By name of a function, the sizes of symbols that are fixed in it."""

ONE: Fixed = MappingProxyType({MAIN: MappingProxyType({})})
"""One function, of all sizes."""


def lower_functions(
    module: tvm.IRModule,
    input_count: int,
    symbols: Sequence[Symbol] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    functions: Fixed = ONE,
    beside: Mapping[str, tuple[tvm.IRModule, int]] = MappingProxyType({}),
    accepts: Accepts | None = None,
    fusing: bool = True,
) -> Lowered:
    """`lower`, once for each of `functions`, and of each module in `beside`, which has so many inputs and nothing else.
    Raises InputError as that does, and for a symbol that is not there."""
    made = _Together(symbols)
    for name, sizes in functions.items():
        if unknown := sizes.keys() - {symbol.name for symbol in symbols}:
            raise InputError(f"function {name} is to have a fixed {min(unknown)}, which the model has not")
        fixed = relax.transform.BindSymbolicVars(dict(sizes), MAIN)(module) if sizes else module
        free = [symbol for symbol in symbols if symbol.name not in sizes]
        made.add(name, lower(fixed, input_count, free, names, accepts, fusing), input_count)
    for name, (other, count) in beside.items():
        made.add(name, lower(other, count, accepts=accepts, fusing=fusing), count)
    return made.lowered()


class _Together:
    """Functions beside each other. The first keeps its ids; those of others are counted on."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self._symbols = tuple(symbols)
        self._functions: dict[str, Function] = {}
        self._inputs: list[str] = []
        self._parameters: list[str] = []
        self._shared: dict[str, SymbolicValue] = {}
        """Parameters and constants, by id."""
        self._constants: dict[str, np.ndarray] = {}
        self._of_bytes: dict[tuple[SymbolicType, str], str] = {}
        self._operators: dict[str, Operator] = {}
        self._values = self._nodes = 0
        self._unfused: dict[str, Unfused | None] = {}

    def add(self, name: str, found: Lowered, input_count: int) -> None:
        function = found.model.functions[MAIN]
        given = found.arguments[input_count : len(found.arguments) - len(found.constants)]
        ids = dict(zip(given, self._parameters or given, strict=True)) if given else {}
        for value, array in found.constants.items():
            key = function.values[value].type, sha256(array.tobytes())
            ids[value] = self._of_bytes.setdefault(key, self._id(value))
            self._constants.setdefault(ids[value], array)
        for value in function.values:
            ids.setdefault(value, self._id(value))
        values = {}
        for found_value in function.values.values():
            renamed = replace(found_value, id=ids[found_value.id])
            # Equal constants stand under the name that they had first.
            shared = renamed.kind is ValueKind.PARAMETER
            values[renamed.id] = self._shared.setdefault(renamed.id, renamed) if shared else renamed
        kernels = {operator.name: self._kernel(operator, name) for operator in found.operators}
        nodes = [self._node(number, node, ids, kernels) for number, node in enumerate(function.nodes)]
        inputs, outputs = (tuple(ids[value] for value in named) for named in (function.inputs, function.outputs))
        self._unfused[name] = found.unfused.get(MAIN)
        self._functions[name] = Function(values, nodes, inputs, outputs)
        self._inputs += inputs
        self._parameters = self._parameters or given
        self._values, self._nodes = self._values + len(function.values), self._nodes + len(nodes)

    def lowered(self) -> Lowered:
        model = ModelProgram(self._symbols, self._functions)
        model.check()
        arguments = [*self._inputs, *self._parameters, *self._constants]
        return Lowered(model, arguments, self._constants, [*self._operators.values()], self._unfused)

    def _id(self, value: str) -> str:
        """Of a value: its own in the first function, one that is not taken in others."""
        return f"v{int(value[1:]) + self._values:03d}"

    def _node(self, number: int, node: Node, ids: Mapping[str, str], kernels: Mapping[str, str]) -> Node:
        kernel = kernels[node.kernel] if node.kind is NodeKind.KERNEL else node.kernel
        inputs, outputs = (tuple(ids[value] for value in named) for named in (node.inputs, node.outputs))
        return Node(f"n{self._nodes + number:03d}", node.kind, kernel, inputs, outputs)

    def _kernel(self, operator: Operator, function: str) -> str:
        """That of an operator: one that is there already, or the operator under a name that is not taken."""
        known = self._operators.get(operator.name)
        if known is None:
            self._operators[operator.name] = operator
            return operator.name
        if _same(known, operator):
            return known.name
        name = unique(short_name(f"{operator.name}_{function}"), lambda found: found in self._operators, "_")
        self._operators[name] = replace(operator, name=name)
        return name


def _same(one: Operator, other: Operator) -> bool:
    """Do they compute the same of the same? Operators that no suite can hold are never taken to."""
    try:
        return _described(one) == _described(other)
    except InputError:
        return False


def _described(operator: Operator) -> tuple[Any, ...]:
    return [symbol.name for symbol in operator.symbols], operator.arguments, to_json_text(operator.program)
