"""Operators whose results are not theirs to repeat: memory that nobody wrote, random numbers.

A test of them would expect what no device gives, nor the reference a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tapml.carving.runs import ReferenceRun, Run
from tapml.errors import InputError
from tapml.lowering.lower import Lowered, Model
from tapml.operators.external import External
from tapml.operators.program import FLOATS, OperatorProgram
from tapml.operators.written import doubtful, filled
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import Graph, Node
from tapml.program.graph import TensorType, numpy_dtype
from tapml.text import listed

_UNWRITTEN = "it does not write all of its elements"


def irreproducible(reference: ReferenceRun, runs: Sequence[Run], models: Mapping[Graph, Model]) -> list[str]:
    """A sentence for each operator that gives another result for the same inputs; `models` by graph of a step.

    What is computed elsewhere is run again; of the programs those that are not shown to write all that they give, with
    other things in the memory that they write to.
    """
    return list(dict.fromkeys(said for run in runs for said in _of_run(reference, run, models[run.graph])))


def unrepeatable(lowered: Lowered) -> list[str]:
    """As `irreproducible`, of a module without symbols that comes without inputs: its operators are given random
    numbers, and integers that are 0. Operators that no suite can hold are not looked at."""
    try:
        model = lowered.at({}, lowered.documents())
    except InputError:
        return []
    twice = _filled(model.graph, model, "cpu")
    elsewhere = {name: program for name, program in model.programs.items() if isinstance(program, External)}
    platform = Reference(Model(model.graph, [], elsewhere)) if elsewhere else None
    random = np.random.default_rng(0)
    found: list[str] = []
    for node in model.graph.kernel_nodes:
        given = {value: _made_up(model.graph.values[value].type, random) for value in node.inputs}
        if platform is not None and node.kernel in elsewhere:
            first, second = (_called(platform, model.graph, given, node) for _ in range(2))
            found += _compared(model.graph, node, first, second, elsewhere[node.kernel].who)
        elif node.kernel in twice.kernels:
            first, second = (_called(each, model.graph, given, node) for each in twice.platforms)
            found += _compared(model.graph, node, first, second, _UNWRITTEN)
    return list(dict.fromkeys(found))


def _made_up(kind: TensorType, random: np.random.Generator) -> np.ndarray:
    dtype = numpy_dtype(kind.dtype)
    if kind.dtype in FLOATS:
        return random.standard_normal(kind.shape).astype(dtype)
    return np.zeros(kind.shape, dtype)


def _of_run(reference: ReferenceRun, run: Run, model: Model) -> Iterator[str]:
    twice = _filled(run.graph, model, reference.platform.platform)
    for node in run.graph.kernel_nodes:
        program = model.programs[node.kernel]
        if isinstance(program, External):
            before = [run.arrays[value] for value in node.outputs]
            again = _called(reference.platform, run.graph, run.arrays, node)
            yield from _compared(run.graph, node, before, again, program.who)
        elif node.kernel in twice.kernels:
            first, second = (_called(platform, run.graph, run.arrays, node) for platform in twice.platforms)
            yield from _compared(run.graph, node, first, second, _UNWRITTEN)


class _Twice:
    """The programs that are in doubt, built with their memory filled in two ways."""

    def __init__(self, kernels: Sequence[str], platforms: Sequence[Reference]) -> None:
        self.kernels = kernels
        self.platforms = platforms


def _filled(graph: Graph, model: Model, platform: str) -> _Twice:
    first: dict[str, OperatorProgram] = {}
    second: dict[str, OperatorProgram] = {}
    for kernel, program in model.programs.items():
        nodes = graph.nodes_of(kernel)
        if isinstance(program, OperatorProgram) and nodes and (buffers := doubtful(program, len(nodes[0].inputs))):
            first[kernel], second[kernel] = (filled(program, buffers, other) for other in (False, True))
    built = [Reference(Model(graph, [], programs), platform=platform) for programs in (first, second) if first]
    return _Twice([*first], built)


def _called(platform: Reference, graph: Graph, arrays: Mapping[str, np.ndarray], node: Node) -> list[np.ndarray]:
    types = [graph.values[value].type for value in node.outputs]
    inputs = [platform.tensor(arrays[value]) for value in node.inputs]
    found = platform.call(node.kernel, inputs, types, graph.sizes)
    return [to_numpy(tensor, kind.dtype) for tensor, kind in zip(found, types, strict=True)]


def _compared(
    graph: Graph, node: Node, first: Sequence[np.ndarray], second: Sequence[np.ndarray], why: str
) -> Iterator[str]:
    for value, one, two in zip(node.outputs, first, second, strict=True):
        differ = (one != two) & ~((one != one) & (two != two))
        if differ.any():
            places = listed([list(map(int, at)) for at in np.argwhere(differ)[:3]], 3)
            name = graph.values[value].name
            yield (
                f"operator {node.kernel} (node {node.id}) gives another {name} each time that it runs ({why}): "
                f"{int(differ.sum())} of {differ.size} elements, {places} first"
            )
