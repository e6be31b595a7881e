"""Indices: the operator may choose among equals, and among nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from rounding_device import lowered
from tvm import relax

from tapml.bounds import Operator
from tapml.bounds.ties import alternatives
from tapml.importing import portable
from tapml.lowering.write import program_of
from tapml.platforms.reference import Reference, to_numpy


def groups(ties: np.ndarray) -> list[tuple[list[int], list[int]]]:
    """(positions, values) of each group."""
    return [
        (list(ties[(ties[:, 0] == g) & (ties[:, 1] == 0), 2]), list(ties[(ties[:, 0] == g) & (ties[:, 1] == 1), 2]))
        for g in range(int(ties[-1, 0]) + 1)
    ]


def ties_of(scores: np.ndarray, count: int, **changes: Any) -> np.ndarray | None:
    """Of the indices of a top-k, made as the importers make it."""

    def ranked(builder: Any, x: Any) -> Any:
        attrs = {"k": count, "axis": -1, "ret_type": "both", "largest": True, **changes}
        return portable.lower("relax.topk", builder, [x], attrs)

    found = lowered(ranked, (scores.shape, str(scores.dtype)))
    (node,) = found.graph.kernel_nodes
    platform = Reference(found)
    types = [found.graph.values[value].type for value in node.outputs]
    results = platform.call(node.kernel, [platform.tensor(scores)], types)
    expected = [to_numpy(result, t.dtype) for result, t in zip(results, types, strict=True)]
    program = program_of(node.kernel, found.programs[node.kernel])
    values, indices = Operator(program).bounds([scores], expected)
    assert values.bound is None
    assert values.ties is None
    return indices.ties


def test_different_scores_have_one_order() -> None:
    assert ties_of(np.array([[3.0, 1.0, 2.0, 0.0]], np.float32), 2) is None


def test_equals_may_change_places() -> None:
    found = ties_of(np.array([[1.0, 2.0, 2.0, 0.0], [5.0, 5.0, 5.0, 7.0]], np.float32), 2)
    assert found is not None
    # Row 0 takes 1 and 2 in either order; row 1 takes 3 and then any of the three that are equal.
    assert groups(found) == [([0, 1], [1, 2]), ([3], [0, 1, 2])]


def test_equals_that_are_not_taken_matter_not() -> None:
    assert ties_of(np.array([[9.0, 8.0, 1.0, 1.0]], np.float32), 2) is None


def test_the_smallest_first() -> None:
    found = ties_of(np.array([[4.0, 1.0, 1.0, 2.0]], np.float32), 3, largest=False)
    assert found is not None
    assert groups(found) == [([0, 1], [1, 2])]


def test_choices_that_differ_are_alternatives() -> None:
    found = alternatives([np.array([4, 7]), np.array([4, 9]), np.array([4, 7])])
    assert found is not None
    assert groups(found) == [([1], [7, 9])]
    assert alternatives([np.array([1]), np.array([1])]) is None


def test_an_argmax_may_take_any_of_the_best() -> None:
    found = lowered(lambda _, x: relax.op.argmax(x, axis=-1), ((2, 4), "float32"))
    program = program_of("argmax", found.programs["argmax"])
    scores = np.array([[1.0, 3.0, 0.0, 3.0], [4.0, 1.0, 2.0, 3.0]], np.float32)
    (bound,) = Operator(program).bounds([scores], [np.array([1, 0], np.int64)])
    assert bound.ties is not None
    assert groups(bound.ties) == [([0], [1, 3])]
