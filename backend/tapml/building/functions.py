"""A function of a program as tensors and `code`: what a host does for a call (docs/model-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tapml.building.branches import READ_DOCUMENT, Branch, Check, Flow, Item, with_branches
from tapml.building.moves import COPY_DOCUMENT, Moves, with_moves
from tapml.building.plan import Placement, Plan, Temporary
from tapml.building.planning import plan_for_range
from tapml.building.weights import Weights
from tapml.errors import InputError
from tapml.expressions import Symbol, printed, symbols_of
from tapml.files import unique
from tapml.kernels.document import overwritten
from tapml.operators.program import limits
from tapml.program import Node, NodeKind
from tapml.program.graph import shown_by
from tapml.program.program import Function, State

_MOST_ARENA = 2**32
"""Bytes: no WebGPU device makes larger buffers."""
_EXAMPLE = 128
Ranges = Mapping[str, tuple[Any, Any]]
_NONE: Mapping[int, str] = MappingProxyType({})

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class CompiledFunction:
    """`document` as a compiled model has it, and the plan that its tensors lie by."""

    document: dict[str, Any]
    plan: Plan


@dataclass(frozen=True)
class Parts:
    """What functions share. `kernels`: documents by name, in the order of the compiled model's; `weights` have the
    parameters, by the digests that `parameters` gives of value ids; `choosing`: the kernels that are choices."""

    kernels: Documents
    symbols: Sequence[Symbol]
    states: Sequence[State]
    weights: Weights
    parameters: Mapping[str, str]
    choosing: Collection[str] = ()


def compiled_function(
    function: Function,
    outputs: Sequence[str],
    parts: Parts,
    limits: Mapping[int, str] = _NONE,
    ranges: Callable[[], Ranges] = dict,
    together: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> CompiledFunction:
    """`outputs`: names of all that the function gives, its states among them; `limits`: places of those that are not
    given, for a call where they are not 0 is refused, with the reason; `ranges`: of the elements of inputs, by value
    id, as expressions over the symbols; they are asked for once the plan stands, for they take reading operators at
    sizes that no device may have memory for; `together`: nodes that are several -> the ids of these.

    Raises InputError for what no plan can be made of.
    """
    checks = {function.outputs[place]: cause for place, cause in limits.items()}
    kept = [place for place in range(len(function.outputs)) if place not in limits]
    function = replace(function, outputs=tuple(function.outputs[place] for place in kept))
    outputs = [outputs[place] for place in kept]
    branching = any(node.kernel in parts.choosing for node in function.nodes)
    overwrites = {name: pairs for name, document in parts.kernels.items() if (pairs := overwritten(document))}
    moves = with_moves(function, {} if branching else overwrites)
    before = {name: before for name, (before, _) in function.states.items()}
    flow = with_branches(moves, before, parts.choosing, checks)
    kernels = {**parts.kernels, moves.copy: COPY_DOCUMENT, flow.read: READ_DOCUMENT}
    plan = plan_for_range(flow.function, kernels, parts.symbols)
    if max(plan.arenas, default=0) > _MOST_ARENA:
        raise _too_large(plan, parts.symbols)
    lowering = _Lowering(function, moves, flow, plan, outputs, parts, ranges(), together)
    return CompiledFunction(lowering.document(), plan)


def _too_large(plan: Plan, symbols: Sequence[Symbol]) -> InputError:
    takes = f"the tensors of a call take {plan.bytes / 1e9:.1f} GB, which no device has"
    if not symbols:
        return InputError(f"{takes}: carve the model with a smaller input")
    sizes = " and ".join(f"{symbol.name} is {symbol.maximum}" for symbol in symbols)
    ranges = " ".join(f"--range {found.name}={found.minimum}:{min(_EXAMPLE, found.maximum)}" for found in symbols)
    return InputError(f"{takes}, where {sizes}: give smaller ranges, such as {ranges}")


def used_parameters(function: Function) -> list[str]:
    """Value ids of the parameters that a kernel reads or that are given out, in the order of the model's."""
    shown = shown_by(function)
    read = {shown[value] for node in function.nodes if node.kind is NodeKind.KERNEL for value in node.inputs}
    read |= {shown[value] for value in function.outputs}
    return [value.id for value in function.values.values() if value.kind == "parameter" and value.id in read]


@dataclass
class _Lowering:
    function: Function
    moves: Moves
    flow: Flow
    plan: Plan
    names: Sequence[str]
    parts: Parts
    ranges: Ranges
    together: Mapping[str, Sequence[str]]
    tensors: list[dict[str, Any]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """Value id -> place among the tensors."""
    names_read: set[str] = field(default_factory=set)
    """The names of the numbers that are read."""

    def document(self) -> dict[str, Any]:
        moves, function = self.moves, self.flow.function
        before = {value: name for name, (value, _) in self.function.states.items()}
        given = [value for value in function.inputs if value not in before]
        self.shown = shown_by(function)
        # What is an output is no view of anything: what is written there may be one of it.
        outputs_by_root = {self.shown[value]: value for value in moves.outputs}
        self.shown = {value: outputs_by_root.get(root, root) for value, root in self.shown.items()}
        self.kernels = {name: number for number, name in enumerate(self.parts.kernels)}
        numbers = {state.name: number for number, state in enumerate(self.parts.states)}
        self.at: dict[str, list[Any]] = {
            **{
                value: ["weights", *self.parts.weights.places[digest]]
                for value, digest in self.parts.parameters.items()
            },
            **{value: ["state", numbers[name]] for value, name in before.items()},
            **{value: ["output", number] for number, value in enumerate(moves.outputs)},
            **{value: ["input", number] for number, value in enumerate(given)},
        }
        inputs = [self._input(value) for value in given]
        outputs = [
            {"name": self.names[place], "tensor": self._tensor(value)}
            for place, value in zip(moves.places, moves.outputs, strict=True)
        ]
        code = self._block(self.flow.items)
        return {
            "inputs": inputs,
            "outputs": outputs,
            "arena": list(self.plan.arenas),
            "tensors": self.tensors,
            "code": code,
        }

    def _input(self, value: str) -> dict[str, Any]:
        found = self.ranges.get(value)
        described = {} if found is None else {"range": list(found)}
        return {"name": self.flow.function.values[value].name or value, "tensor": self._tensor(value), **described}

    def _block(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        code = []
        for item in items:
            if isinstance(item, Branch):
                code += self._branch(item)
            elif isinstance(item, Check):
                code.append({**self._read(item.number, f"limit{len(self.names_read)}", 0, 0), "otherwise": item.cause})
            elif item.kind is NodeKind.KERNEL:
                code += self._instructions(item)
        return code

    def _branch(self, branch: Branch) -> list[dict[str, Any]]:
        least, most = limits(self.flow.function.values[branch.number].type.dtype)
        read = self._read(branch.number, f"condition{len(self.names_read)}", least, most)
        then, otherwise = self._block(branch.then), self._block(branch.otherwise)
        return [read, {"op": "if", "condition": read["name"], "then": then, "else": otherwise}]

    def _read(self, value: str, name: str, least: int, most: int) -> dict[str, Any]:
        """A number under a name of its own."""
        taken = {symbol.name for symbol in self.parts.symbols} | self.names_read
        name = unique(name, lambda found: found in taken, "_")
        self.names_read.add(name)
        tensor = self._tensor(value)
        return {"op": "read", "name": name, "tensor": tensor, "index": 0, "minimum": least, "maximum": most}

    def _instructions(self, node: Node) -> list[dict[str, Any]]:
        operands = [self._tensor(value) for value in (*node.inputs, *node.outputs)]
        if node.kernel == self.moves.copy:
            return [{"op": "copy", "from": operands[0], "to": operands[1]}]
        code: list[dict[str, Any]] = []
        for output, before in overwritten(self.parts.kernels[node.kernel]).items():
            if operands[output] != operands[before]:  # what it was is read later, or is no tensor to be overwritten
                code.append({"op": "copy", "from": operands[before], "to": operands[output]})
                operands[before] = operands[output]
        temporaries: list[int] = []
        while (name := Temporary(node.id, len(temporaries))) in self.plan.temporaries:
            temporaries.append(self._temporary(name, self.plan.temporaries[name]))
        dispatch = {"op": "dispatch", "kernel": self.kernels[node.kernel], "operands": operands}
        parts = self._parts(node, operands)
        return [*code, {**dispatch, "temporaries": temporaries, "node": node.id, **parts}]

    def _parts(self, node: Node, operands: Sequence[int]) -> dict[str, Any]:
        """What a node that is several is made of."""
        ids = self.together.get(node.id)
        if ids is None:
            return {}
        parts = [
            {"kernel": self.kernels[part["kernel"]], "operands": [operands[n] for n in part["operands"]], "node": one}
            for part, one in zip(self.parts.kernels[node.kernel]["parts"], ids, strict=True)
        ]
        return {"parts": parts}

    def _tensor(self, value: str) -> int:
        """Its place among the tensors, where it is put when it is first asked for, behind what it shows."""
        if value in self.moves.states:  # a state is one tensor, before it is written and after
            return self._tensor(self.function.states[self.moves.states[value]][0])
        if value not in self.places:
            found, root = self.flow.function.values[value], self.shown[value]
            if root in self.at:
                at = self.at[root]
            else:
                placed = self.plan.values[value]
                at = ["arena", placed.arena, placed.offset]
            view = {} if root == value else {"view": self._tensor(root)}
            self.places[value] = self._add(found.name or value, {**found.type.to_json(), **view}, at)
        return self.places[value]

    def _temporary(self, name: Temporary, placed: Placement) -> int:
        shape = {"dtype": "uint32", "shape": [placed.bytes // 4]}
        return self._add(f"{name.node}.temporary{name.number}", shape, ["arena", placed.arena, placed.offset])

    def _add(self, name: str, described: Mapping[str, Any], at: list[Any]) -> int:
        self.tensors.append({"name": name, **described, "at": at})
        return len(self.tensors) - 1


def state_document(state: State, weights: Weights, places: str | None = None) -> dict[str, Any]:
    """A state as a compiled model has it. Raises InputError for one whose size is another at each call; `places` is the
    size that sequences decide (growing.py)."""
    if any(symbols_of(axis) for axis in state.type.shape if axis != places):
        shape = ", ".join(map(printed, state.type.shape))
        raise InputError(
            f"state {state.name} has the shape [{shape}], and a compiled model keeps states of one size: export the "
            "model with a cache of fixed length"
        )
    initial = None if state.initial is None else list(weights.places[state.initial])
    return {"name": state.name, **state.type.to_json(), "initial": initial}
