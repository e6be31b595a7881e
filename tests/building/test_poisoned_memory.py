"""A model in the memory that was planned for it, where bytes that nobody needs any more are made NaN."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tvm import relax

from tapml.building.buffers import Buffer
from tapml.building.plan import Placement, Plan
from tapml.building.planning import buffers_for_sizes, plans
from tapml.compilers.choose import compile_operators
from tapml.lowering.lower import Lowered, lower
from tapml.platforms.reference import Reference
from tapml.program import Graph, NodeKind

ROWS, WIDTH = 5, 12


@pytest.fixture(scope="module")
def model() -> Lowered:
    """main(x, w) of two residual blocks, whose sums read what was made some nodes before; with views."""
    builder, op = relax.BlockBuilder(), relax.op
    x, w = (relax.Var(name, relax.TensorType((rows, WIDTH), "float32")) for name, rows in (("x", ROWS), ("w", WIDTH)))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            found = builder.emit(op.matmul(x, w))
            for _ in range(2):
                scores = builder.emit(op.nn.softmax(op.matmul(found, op.permute_dims(found))))
                mixed = builder.emit(op.reshape(op.matmul(scores, found), (WIDTH, ROWS)))
                hidden = builder.emit(op.matmul(w, op.nn.gelu(mixed)))
                found = builder.emit(op.add(found, op.reshape(hidden, (ROWS, WIDTH))))
            out = builder.emit_output(op.matmul(found, w))
        builder.emit_func_output(out)
    return lower(builder.finalize(), 2)


class Memory:
    """The arenas of a plan, and a buffer for each value outside of them."""

    def __init__(self, plan: Plan, graph: Graph) -> None:
        self._plan, self._graph = plan, graph
        self._arenas = [np.full(size, 0xFF, np.uint8) for size in plan.arenas]
        self._own: dict[str, np.ndarray] = {}

    def put(self, value: str, array: np.ndarray) -> None:
        place = self._plan.values.get(value)
        if place is None:
            self._own[value] = array
        else:
            self._arenas[place.arena][place.offset :][: array.nbytes] = (
                np.ascontiguousarray(array).view(np.uint8).ravel()
            )

    def get(self, value: str) -> np.ndarray:
        place, found = self._plan.values.get(value), self._graph.values[value].type
        if place is None:
            return self._own[value].reshape(found.shape)
        bytes_ = self._arenas[place.arena][place.offset :][: found.nbytes]
        return bytes_.copy().view(found.dtype).reshape(found.shape)

    def poison(self, position: int) -> None:
        """All bytes but those of what a node from `position` on reads."""
        after = self._graph.nodes[position:]
        needed = [self._plan.values.get(value) for node in after for value in node.inputs]
        kept = [(place, self._bytes(place).copy()) for place in needed if place is not None]
        for arena in self._arenas:
            arena[:] = 0xFF
        for place, bytes_ in kept:
            self._bytes(place)[:] = bytes_

    def _bytes(self, place: Placement) -> np.ndarray:
        return self._arenas[place.arena][place.offset : place.end]


def run(plan: Plan, graph: Graph, reference: Reference, given: dict[str, np.ndarray]) -> np.ndarray:
    memory = Memory(plan, graph)
    for value, array in given.items():
        memory.put(value, array)
    for position, node in enumerate(graph.nodes):
        if node.kind is NodeKind.VIEW:
            if node.outputs[0] not in plan.values:
                memory.put(node.outputs[0], memory.get(node.inputs[0]))
        else:
            inputs = [reference.tensor(memory.get(value)) for value in node.inputs]
            types = [graph.values[value].type for value in node.outputs]
            for value, found in zip(node.outputs, reference.call(node.kernel, inputs, types), strict=True):
                memory.put(value, found.numpy())
        memory.poison(position + 1)
    return memory.get(graph.outputs[0])


Ran = tuple[dict[str, np.ndarray], np.ndarray, Graph, Reference]


@pytest.fixture(scope="module")
def ran(model: Lowered) -> Ran:
    """Inputs, and what the reference makes of them."""
    random = np.random.default_rng(5)
    graph = model.model.at({})
    arrays = (random.standard_normal(graph.values[value].type.shape, np.float32) for value in graph.inputs)
    given = dict(zip(graph.inputs, arrays, strict=True))
    reference = Reference(model.as_it_is)
    values = reference.run(graph, reference.values(given))
    return given, values[graph.outputs[0]].numpy(), graph, reference


@pytest.fixture(scope="module")
def wanted(model: Lowered, ran: Ran) -> list[Buffer]:
    kernels = {name: found.document for name, found in compile_operators(model.operators, ("256",)).items()}
    return buffers_for_sizes(ran[2], kernels)


def test_a_model_gives_the_same_where_all_that_nobody_needs_is_nan(ran: Ran, wanted: list[Buffer]) -> None:
    given, expected, graph, reference = ran
    assert len(wanted) >= 8
    for plan in plans(graph, wanted):
        np.testing.assert_array_equal(run(plan, graph, reference, given), expected, plan.strategy)
        assert plan.bytes < plan.naive


def test_a_plan_that_frees_too_early_is_found(ran: Ran, wanted: list[Buffer]) -> None:
    given, expected, graph, reference = ran
    early = [dataclasses.replace(found, last=found.first, apart=frozenset()) for found in wanted]
    for plan in plans(graph, early):
        assert not np.array_equal(run(plan, graph, reference, given), expected), plan.strategy
