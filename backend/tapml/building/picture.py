"""A memory plan as people see it: what lies where, from when to when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.building.buffers import Buffer, most_bytes
from tapml.building.plan import Placement, Plan, Temporary, padded
from tapml.building.planning import Kernels, best, buffers_for_range, buffers_for_sizes, plans
from tapml.compiled.instructions import Call, Copy, Dispatch, Fill, If, Instruction, Loop, Read
from tapml.compiled.model import CompiledFunction, CompiledModel
from tapml.expressions import Symbol, symbols_of
from tapml.program import Graph
from tapml.program.graph import Calls
from tapml.program.intervals import interval
from tapml.program.program import Function


@dataclass(frozen=True)
class Held:
    """A tensor or a temporary, from step `first` to step `last`."""

    name: str
    made_by: str
    place: Placement
    first: int
    last: int
    temporary: bool = False


@dataclass(frozen=True)
class Picture:
    """The arenas of a function. A step is a node of a program, an instruction of a compiled model."""

    function: str
    sizes: str
    """What it was planned for; empty where all sizes are fixed."""
    steps: Sequence[str]
    arenas: Sequence[int]
    held: Sequence[Held]
    strategy: str
    naive: int
    lower_bound: int

    @property
    def bytes(self) -> int:
        return sum(self.arenas)

    @property
    def live(self) -> list[int]:
        """Bytes that are needed at each step."""
        return _live(self.held, len(self.steps))


def _live(held: Sequence[Held], steps: int) -> list[int]:
    found = [0] * steps
    for one in held:
        for step in range(one.first, one.last + 1):
            found[step] += one.place.bytes
    return found


def of_function(name: str, function: Function, kernels: Kernels, symbols: Sequence[Symbol]) -> Picture:
    """Of a program's function, for all sizes. Raises as plan_for_range does."""
    found = buffers_for_range(function, kernels, symbols)
    used = [symbol for symbol in symbols if symbol.name in function.symbols]
    return _of_plan(name, _in_words(used), function, found, best(plans(function, found)))


def of_graph(name: str, graph: Graph, kernels: Kernels) -> Picture:
    """The same at the sizes of one call."""
    found = buffers_for_sizes(graph, kernels)
    sizes = ", ".join(f"{symbol} = {size}" for symbol, size in graph.sizes.items())
    return _of_plan(name, sizes, graph, found, best(plans(graph, found)))


def _of_plan(function: str, sizes: str, calls: Calls[Any], buffers: Sequence[Buffer], plan: Plan) -> Picture:
    held = []
    for found in buffers:
        temporary = isinstance(found.name, Temporary)
        made_by = calls.nodes[found.first].kernel
        if isinstance(found.name, Temporary):
            name, place = f"temporary {found.name.number} of {found.name.node}", plan.temporaries[found.name]
        else:
            value = calls.values[found.name]
            name, place = f"{value.name or found.name} {value.type}", plan.values[found.name]
        held.append(Held(name, made_by, place, found.first, found.last, temporary))
    steps = [f"{node.id} {node.kernel}" for node in calls.nodes]
    return Picture(function, sizes, steps, plan.arenas, held, plan.strategy, plan.naive, plan.lower_bound)


def of_model(model: CompiledModel, name: str) -> Picture:
    """Of a function of a compiled model that is verified; a loop is one step, and the sides of a condition stand one
    after the other."""
    function = model.functions[name]
    code = [*_one_by_one(function.code)]
    used: dict[int, list[int]] = {}
    for step, instruction in enumerate(code):
        for touched in _tensors(instruction):
            used.setdefault(_root(function, touched), []).append(step)
    scratch = {found for one in code if isinstance(one, Dispatch) for found in one.temporaries}
    held = []
    for index, tensor in enumerate(function.tensors):
        if tensor.at[0] == "arena" and index in used:
            _, arena, offset = tensor.at
            place = Placement(arena, offset, padded(most_bytes(tensor, lambda axis: interval(axis, model.symbols)[1])))
            first, last = min(used[index]), max(used[index])
            made_by = _step(model, code[first])
            held.append(Held(f"{tensor.name} {tensor.dtype}", made_by, place, first, last, index in scratch))
    steps = [_step(model, instruction) for instruction in code]
    named = {name for tensor in function.tensors for axis in tensor.shape for name in symbols_of(axis)}
    sizes = _in_words([symbol for symbol in model.symbols if symbol.name in named])
    strategy = model.memory[name].strategy if name in model.memory else "not told"
    naive = sum(one.place.bytes for one in held)
    return Picture(name, sizes, steps, function.arena, held, strategy, naive, max(_live(held, len(steps)), default=0))


def _one_by_one(code: Sequence[Instruction]) -> Iterator[Instruction]:
    for found in code:
        if isinstance(found, If):
            yield from _one_by_one((*found.then, *found.otherwise))
        else:
            yield found


def _in_words(symbols: Sequence[Symbol]) -> str:
    """Their ranges: `n from 1 to 512`."""
    return ", ".join(f"{symbol.name} from {symbol.minimum} to {symbol.maximum}" for symbol in symbols)


def _root(function: CompiledFunction, tensor: int) -> int:
    while (shown := function.tensors[tensor].view) is not None:
        tensor = shown
    return tensor


def _step(model: CompiledModel, instruction: Instruction) -> str:
    if isinstance(instruction, Dispatch):
        return f"{instruction.node or ''} {model.kernels[instruction.kernel].kernel}".strip()
    return instruction.op


def _tensors(instruction: Instruction) -> Iterator[int]:
    """All that it touches."""
    if isinstance(instruction, Dispatch):
        yield from (*instruction.operands, *instruction.temporaries)
    elif isinstance(instruction, Copy):
        yield from (instruction.source, instruction.target)
    elif isinstance(instruction, Fill | Read):
        yield instruction.tensor
    elif isinstance(instruction, Call):
        yield from (*instruction.inputs, *instruction.outputs)
    elif isinstance(instruction, Loop):
        yield from () if instruction.until is None else (instruction.until,)
        for inner in _one_by_one(instruction.body):
            yield from _tensors(inner)
