"""The memory plan of a function (docs/memory-plan.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapml.building.buffers import Buffer, Name, buffers_of
from tapml.building.plan import Placement, Plan, Temporary
from tapml.building.strategies import STRATEGIES, ends, live_at
from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, evaluate
from tapml.program import Graph
from tapml.program.graph import Calls, shown_by
from tapml.program.intervals import interval
from tapml.program.program import Function

MOST_BYTES = 2**28
"""Of an arena: the default maxBufferSize of WebGPU."""

Kernels = Mapping[str, Mapping[str, Any]]


def plan_for_range(function: Function, kernels: Kernels, symbols: Sequence[Symbol], most: int = MOST_BYTES) -> Plan:
    """For all sizes in the range of `symbols`. `kernels`: documents by name. No arena exceeds `most` bytes, unless for
    one tensor that does.

    Raises InputError where a kernel is missing, and where a size has no upper bound.
    """
    return best(plans(function, buffers_for_range(function, kernels, symbols), most))


def plan_for_sizes(graph: Graph, kernels: Kernels, most: int = MOST_BYTES) -> Plan:
    """For a call at the graph's sizes, and every other whose tensors are not larger. Raises as plan_for_range does."""
    return best(plans(graph, buffers_for_sizes(graph, kernels), most))


def buffers_for_range(function: Function, kernels: Kernels, symbols: Sequence[Symbol]) -> list[Buffer]:
    """What plan_for_range places. Raises as it does."""
    return _buffers(function, kernels, lambda size: interval(size, symbols)[1])


def buffers_for_sizes(graph: Graph, kernels: Kernels) -> list[Buffer]:
    """What plan_for_sizes places. Raises as it does."""
    return _buffers(graph, kernels, lambda size: evaluate(size, graph.sizes))


def _buffers(calls: Calls[Any], kernels: Kernels, extent: Callable[[Any], int]) -> list[Buffer]:
    try:
        return buffers_of(calls, kernels, extent)
    except ExpressionError as error:
        raise InputError(f"there is no memory plan: {error}") from error


def plans(calls: Calls[Any], found: Sequence[Buffer], most: int = MOST_BYTES) -> list[Plan]:
    """What each strategy gives."""
    naive = sum(buffer.bytes for buffer in found)
    least = max((sum(buffer.bytes for buffer in live) for live in live_at(found).values()), default=0)
    return [_plan(name, strategy(found, most), calls, naive, least) for name, strategy in STRATEGIES.items()]


def best(given: Sequence[Plan]) -> Plan:
    """Of the fewest bytes, then of the fewest arenas, then the first."""
    return min(given, key=lambda plan: (plan.bytes, len(plan.arenas)))


def _plan(strategy: str, placed: Mapping[Name, Placement], calls: Calls[Any], naive: int, least: int) -> Plan:
    arenas = [size for _, size in sorted(ends(placed).items())]
    values = {value: placed[root] for value, root in shown_by(calls).items() if root in placed}
    temporaries = {name: place for name, place in placed.items() if isinstance(name, Temporary)}
    return Plan(strategy, tuple(arenas), values, temporaries, naive, least)
