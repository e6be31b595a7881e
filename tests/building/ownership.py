"""Whether a plan is safe, told without the planner's idea of when a tensor is needed: the nodes write and read in
order, and every byte knows what was written to it last."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from tapml.building.plan import Placement, Plan, Temporary
from tapml.compiled.model import ALIGNMENT
from tapml.expressions import evaluate
from tapml.program import Graph, Node, NodeKind
from tapml.program.graph import ValueKind

Kernels = Mapping[str, Mapping[str, Any]]


class Overwritten(AssertionError):
    """The plan lets a node read what is no more."""


class _Memory:
    def __init__(self, arenas: tuple[int, ...]) -> None:
        self._sizes = arenas
        self._held: list[list[tuple[int, int, object]]] = [[] for _ in arenas]

    def write(self, place: Placement, what: object) -> None:
        held = self._held[place.arena]
        assert 0 <= place.offset < place.end <= self._sizes[place.arena], f"{what} lies outside of its arena"
        assert place.offset % ALIGNMENT == 0
        assert place.bytes % 4 == 0
        cut = []
        for begin, end, whose in held:
            cut += [(begin, min(end, place.offset), whose), (max(begin, place.end), end, whose)]
        self._held[place.arena] = [found for found in cut if found[0] < found[1]] + [(place.offset, place.end, what)]

    def holds(self, place: Placement, what: object) -> bool:
        return any(
            begin <= place.offset and place.end <= end and whose == what
            for begin, end, whose in self._held[place.arena]
        )


def check(plan: Plan, graph: Graph, kernels: Kernels, after: Callable[[Node], None] = lambda node: None) -> None:
    """Raise AssertionError unless every node reads what was written for it, all inside of the arenas, and no dispatch
    reads an arena that it writes, or writes two overlapping ranges of one."""
    memory = _Memory(plan.arenas)
    written: dict[str, str] = {v.id: v.id for v in graph.values.values() if v.kind is not ValueKind.INTERMEDIATE}
    for node in graph.nodes:
        if node.kind is NodeKind.VIEW:
            written[node.outputs[0]] = written[node.inputs[0]]
            assert plan.values.get(node.outputs[0]) == plan.values.get(node.inputs[0]), "a view lies elsewhere"
            continue
        document = kernels[node.kernel]
        for variant in document["variants"]:
            places = [plan.values.get(value) for value in (*node.inputs, *node.outputs)]
            scratch = {}
            for number, size in enumerate(variant["temporaries"]):
                scratch[number] = plan.temporaries[Temporary(node.id, number)]
                assert evaluate(size, graph.sizes) <= scratch[number].bytes
                memory.write(scratch[number], (node.id, number))
            for value in node.outputs:
                written[value] = value
                if (place := plan.values.get(value)) is not None:
                    assert graph.values[value].type.nbytes <= place.bytes
                    memory.write(place, value)
            for value in (*node.inputs, *node.outputs):
                place = plan.values.get(value)
                if place is not None and not memory.holds(place, written[value]):
                    raise Overwritten(f"node {node.id}: {value} was overwritten")
            assert all(memory.holds(place, (node.id, number)) for number, place in scratch.items())
            _check_dispatches(variant, places, scratch)
    for value in graph.outputs:
        assert value not in plan.values, "an output has a buffer of its own"


def _check_dispatches(
    variant: Mapping[str, Any], places: list[Placement | None], scratch: Mapping[int, Placement]
) -> None:
    for launch in variant["launches"]:
        entry_point = next(found for found in variant["entry_points"] if found["name"] == launch["entry_point"])
        storage = sorted((b for b in entry_point["bindings"] if b["access"] != "uniform"), key=lambda b: b["binding"])
        read, written = set(), []
        for binding, operand in zip(storage, launch["operands"], strict=True):
            place = places[operand["argument"]] if "argument" in operand else scratch[operand["temporary"]]
            if place is not None and binding["access"] == "read":
                read.add(place.arena)
            elif place is not None:
                written.append(place)
        assert not read & {place.arena for place in written}, "a dispatch reads an arena that it writes"
        ranges = sorted((place.arena, place.offset, place.end) for place in written)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(ranges)), (
            "a dispatch writes two overlapping ranges"
        )
