"""How much of a suite's model is moving elements, as text and as a document."""

from __future__ import annotations

from collections.abc import Iterator

from tapml.errors import InputError
from tapml.operators.of_suite import read_operator
from tapml.regions.count import Moved, moved
from tapml.suite import Suite
from tapml.text import counted, size


def moves_of(suite: Suite) -> dict[str, Moved]:
    """By function, of its first step; none where the suite has no model that could be read."""
    found: dict[str, Moved] = {}
    try:
        for name, graph in zip(suite.step_functions, suite.graphs, strict=False):
            if name not in found:
                found[name] = moved(graph, {kernel: read_operator(suite, kernel, graph) for kernel in graph.kernels})
    except InputError:
        return {}
    return found


def moves_texts(found: dict[str, Moved]) -> Iterator[str]:
    """A line for each function."""
    for name, one in found.items():
        of = f"{name}: " if len(found) > 1 else ""
        verb = "only moves" if one.moves == 1 else "only move"
        left = (
            f"{one.moves} of {counted(one.calls, 'kernel call')} {verb}" if one.moves else "no kernel call only moves"
        )
        much = f", {size(one.bytes)} of reads and writes" if one.moves else ""
        yield f"{of}{counted(one.transforms, 'transform')}, for which {left} elements{much}"
