"""How errors grow along the graph when every node runs on the device and reads what the device made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tapml.compare.elements import errors, largest
from tapml.program import Graph, NodeKind


@dataclass(frozen=True)
class Grown:
    """One node. `error`: the largest of its outputs' elements, in the whole model; `relative`: that by the largest
    expected magnitude; `local`: with the carved inputs, that is, what it adds by itself; `amplification`: how many
    times the larger of its inputs' errors and its own part comes out of it, None where both are zero, and where
    integers come out: the numbers of tokens and places are as far from each other as it happens."""

    node: str
    kernel: str
    error: float
    relative: float
    local: float | None
    amplification: float | None


def growth(
    graph: Graph,
    got: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    local: Mapping[str, float | None],
) -> list[Grown]:
    """In topological order. `got` and `expected`: by value id; `local`: a node's error in its own carved test."""
    known: dict[str, float] = {}
    found = []
    for node in graph.nodes:
        if node.kind is NodeKind.VIEW:
            known[node.outputs[0]] = known.get(node.inputs[0], 0.0)
            continue
        error = relative = 0.0
        for value in node.outputs:
            own = float(np.max(errors(got[value], expected[value]), initial=0.0))
            magnitude = largest(expected[value].astype(np.float64))
            known[value] = own
            error = max(error, own)
            relative = max(relative, own / magnitude if magnitude else 0.0)
        own_part = local.get(node.id)
        came_in = max((known.get(value, 0.0) for value in node.inputs), default=0.0)
        cause = max(came_in, own_part or 0.0)
        numbers = any(expected[value].dtype.kind == "f" for value in node.outputs)
        times = error / cause if cause and numbers else None
        found.append(Grown(node.id, node.kernel, error, relative, own_part, times))
    return found
