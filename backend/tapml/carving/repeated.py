"""Operators whose results are not theirs to repeat: memory that nobody wrote, random numbers.

A test of them would expect what no device gives, nor the reference a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tapml.carving.runs import ReferenceRun, Run
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.program import OperatorProgram
from tapml.operators.written import doubtful, filled
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import Graph, Node
from tapml.text import listed


def irreproducible(reference: ReferenceRun, runs: Sequence[Run], models: Mapping[Graph, Model]) -> list[str]:
    """A sentence for each operator that gives another result for the same inputs; `models` by graph of a step.

    What is computed elsewhere is run again; of the programs those that are not shown to write all that they give, with
    other things in the memory that they write to.
    """
    return list(dict.fromkeys(said for run in runs for said in _of_run(reference, run, models[run.graph])))


def _of_run(reference: ReferenceRun, run: Run, model: Model) -> Iterator[str]:
    twice = _filled(run.graph, model, reference.platform)
    for node in run.graph.kernel_nodes:
        program = model.programs[node.kernel]
        if isinstance(program, External):
            before = [run.arrays[value] for value in node.outputs]
            yield from _compared(run.graph, node, before, _called(reference.platform, run, node), program.who)
        elif node.kernel in twice.kernels:
            first, second = (_called(platform, run, node) for platform in twice.platforms)
            yield from _compared(run.graph, node, first, second, "it does not write all of its elements")


class _Twice:
    """The programs that are in doubt, built with their memory filled in two ways."""

    def __init__(self, kernels: Sequence[str], platforms: Sequence[Reference]) -> None:
        self.kernels = kernels
        self.platforms = platforms


def _filled(graph: Graph, model: Model, platform: Reference) -> _Twice:
    first: dict[str, OperatorProgram] = {}
    second: dict[str, OperatorProgram] = {}
    for kernel, program in model.programs.items():
        nodes = graph.nodes_of(kernel)
        if isinstance(program, OperatorProgram) and nodes and (buffers := doubtful(program, len(nodes[0].inputs))):
            first[kernel], second[kernel] = (filled(program, buffers, other) for other in (False, True))
    built = [Reference(Model(graph, [], programs), platform=platform.platform) for programs in (first, second) if first]
    return _Twice([*first], built)


def _called(platform: Reference, run: Run, node: Node) -> list[np.ndarray]:
    types = [run.graph.values[value].type for value in node.outputs]
    inputs = [platform.tensor(run.arrays[value]) for value in node.inputs]
    found = platform.call(node.kernel, inputs, types, run.graph.sizes)
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
