"""States that grow: caches of which a page reserves as many places as its text has tokens, and not all that fit.

Possible is that where every kernel that a state goes to takes any size along one axis (`grows` of its document: it
reads the size off the buffer). The axis becomes a symbol of the compiled model, which sequences decide
(docs/model-format.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapml.expressions import Symbol
from tapml.files import unique
from tapml.program import NodeKind
from tapml.program.program import Function, State, SymbolicType
from tapml.program.program import Program as ModelProgram

BLOCK = 64
"""Places that there are at least. A sequence has twice as many each time that they run out."""

_NAME = "places"

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Grown:
    """A program of which states grow along `symbol`; None: nothing of it does."""

    symbol: Symbol | None
    functions: Mapping[str, Function]
    states: Sequence[State]
    documents: Documents

    @property
    def name(self) -> str | None:
        return None if self.symbol is None else self.symbol.name


def grown(program: ModelProgram, documents: Documents, symbols: Sequence[Symbol], capacity: int | None) -> Grown:
    """`capacity`: places of a model that generates; `symbols`: those that the compiled model has already."""
    as_it_is = Grown(None, program.functions, program.states, documents)
    if capacity is None or capacity <= BLOCK:
        return as_it_is
    found = _Growing(program, documents, capacity)
    if not found.axes:
        return as_it_is
    taken = {symbol.name for symbol in symbols}
    name = unique(_NAME, lambda known: known in taken, "_")
    functions = {key: _function(function, found.axes, name) for key, function in program.functions.items()}
    states = [
        replace(state, type=_along(state.type, found.axes[state.name], name)) if state.name in found.axes else state
        for state in program.states
    ]
    symbol = Symbol(name=name, minimum=BLOCK, maximum=capacity)
    kernels = {
        kernel: _document(document, symbol) if kernel in found.kernels else document
        for kernel, document in documents.items()
    }
    return Grown(symbol, functions, states, kernels)


class _Growing:
    """`axes`: of states that grow, by name; `kernels`: those that take any size of them."""

    def __init__(self, program: ModelProgram, documents: Documents, capacity: int) -> None:
        self._program = program
        self._documents = documents
        self.axes: dict[str, int] = {}
        uses = self._uses()
        for state in program.states:
            found = {documents[kernel]["arguments"][place].get("grows") for kernel, place in uses.get(state.name, ())}
            axis = next(iter(found), None)
            plain = state.initial is None and (state.type.dtype, state.type.encoding) == ("float32", None)
            if plain and len(found) == 1 and axis is not None and state.type.shape[axis] == capacity:
                self.axes[state.name] = axis
        # A kernel is one for all that it is called with: where something else goes into it no state of it grows.
        while wrong := self._wrong():
            for name, used in uses.items():
                if any(kernel in wrong for kernel, _ in used):
                    self.axes.pop(name, None)
        self.kernels = {kernel for name in self.axes for kernel, _ in uses[name]}

    def _uses(self) -> dict[str, set[tuple[str, int]]]:
        """By state, kernel and argument that it is; a use that is no kernel's is one that does not grow."""
        found: dict[str, set[tuple[str, int]]] = {}
        refused = set()
        for function in self._program.functions.values():
            of = _states_of(function)
            for node in function.nodes:
                for place, value in enumerate((*node.inputs, *node.outputs)):
                    if value in of and node.kind is NodeKind.KERNEL:
                        found.setdefault(of[value], set()).add((node.kernel, place))
                    elif value in of:
                        refused.add(of[value])
            given = [of[value] for value in function.outputs if value in of]
            refused |= {name for name in given if given.count(name) > 1}
            refused |= {name for name, (before, after) in function.states.items() if before == after}
        return {name: used for name, used in found.items() if name not in refused}

    def _wrong(self) -> set[str]:
        """Kernels that a state that grows goes to, and beside it one that does not."""
        wrong, going = set(), set()
        for function in self._program.functions.values():
            of = _states_of(function)
            for node in function.nodes:
                if node.kind is not NodeKind.KERNEL:
                    continue
                arguments = self._documents[node.kernel]["arguments"]
                grow = [
                    of.get(value) in self.axes
                    for argument, value in zip(arguments, (*node.inputs, *node.outputs), strict=True)
                    if argument.get("grows") is not None
                ]
                going |= {node.kernel} if any(grow) else set()
                wrong |= {node.kernel} if not all(grow) else set()
        return wrong & going


def _states_of(function: Function) -> dict[str, str]:
    """By value, the state that it is before the call or after it."""
    return {value: name for name, pair in function.states.items() for value in pair}


def _function(function: Function, axes: Mapping[str, int], name: str) -> Function:
    of = {value: axes[state] for value, state in _states_of(function).items() if state in axes}
    values = {
        key: replace(value, type=_along(value.type, of[key], name)) if key in of else value
        for key, value in function.values.items()
    }
    return replace(function, values=values)


def _along(found: SymbolicType, axis: int, name: str) -> SymbolicType:
    shape = [*found.shape]
    shape[axis] = name
    return replace(found, shape=tuple(shape))


def _document(document: Mapping[str, Any], symbol: Symbol) -> dict[str, Any]:
    """A kernel with the symbol for each axis that grows."""
    arguments = []
    for argument in document["arguments"]:
        shape = [symbol.name if axis == argument.get("grows") else size for axis, size in enumerate(argument["shape"])]
        arguments.append({**argument, "shape": shape})
    return {**document, "symbols": [*document["symbols"], symbol.model_dump()], "arguments": arguments}
