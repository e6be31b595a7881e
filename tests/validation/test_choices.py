"""A device that is right may choose the other of two elements that are nearly equal."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.compare.choices import choices
from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.results.base import ModelTolerance, within
from tapml.validation.hybrid import ModelStep

TOLERANCE: ModelTolerance = {"cosine": 0.999999, "max_abs_error": 1e-4, "reasons": []}
LOGITS = np.array([[0.5, 3.0, -1.0, 3.0 - 1e-5, 2.0]], np.float32)


def step(logits: np.ndarray, places: np.ndarray) -> ModelStep:
    """A model that gives logits and what is chosen of them."""
    values = {
        name: Value(id=name, kind=kind, type=TensorType(array.shape, str(array.dtype)), name=name)
        for name, array, kind in (
            ("x", logits, ValueKind.INPUT),
            ("logits", logits, ValueKind.INTERMEDIATE),
            ("next", places, ValueKind.INTERMEDIATE),
        )
    }
    nodes = (
        Node("n0", NodeKind.KERNEL, "copy", ("x",), ("logits",)),
        Node("n1", NodeKind.KERNEL, "choose", ("logits",), ("next",)),
    )
    graph = Graph(values=values, nodes=nodes, inputs=("x",), outputs=("logits", "next"))
    found = choices(graph, {"x": logits, "logits": logits, "next": places}.__getitem__)
    return ModelStep(0, graph, {}, [logits, places], found)


def chosen(token: int) -> list[np.ndarray]:
    return [LOGITS, np.array([token], np.int32)]


def test_the_other_of_two_that_nearly_tie_is_no_fault_and_is_said_with_its_gap() -> None:
    decoder = step(LOGITS, np.array([1], np.int32))
    assert decoder.metric(chosen(1))["choices"] == []
    metric = decoder.metric(chosen(3))
    assert within(metric, TOLERANCE)
    assert metric["max_abs_error"] == pytest.approx(0.5e-5, rel=0.05)
    assert metric["choices"] == ["next chooses 3 where 1 was carved: they are 1e-05 apart in logits"]


@pytest.mark.parametrize("token", [0, 2, 4, 5, -2])
def test_another_token_is_a_fault_however_close_its_number_is(token: int) -> None:
    metric = step(LOGITS, np.array([1], np.int32)).metric(chosen(token))
    assert not within(metric, TOLERANCE)
    assert len(metric["choices"]) == 1


@pytest.mark.parametrize("places", [[1, 1], [3, 3]])
def test_of_two_that_nearly_tie_one_is_not_chosen_twice(places: list[int]) -> None:
    two = step(LOGITS, np.array([[1, 3]], np.int32))
    metric = two.metric([LOGITS, np.array([places], np.int32)])
    assert not within(metric, TOLERANCE)
    assert metric["choices"][0].endswith(": it is chosen twice")
    assert within(two.metric([LOGITS, np.array([[3, 1]], np.int32)]), TOLERANCE)


def test_a_fault_of_the_logits_shows_beside_a_token_of_any_number() -> None:
    """One cosine of both is that of the token's number."""
    wide = np.zeros((1, 40_000), np.float32)
    wide[0, 31_999] = 1e-3
    wrong = wide.copy()
    wrong[0, :3] = 1e-5
    outputs = [wrong, np.array([31_999], np.int32)]
    assert not within(step(wide, outputs[1]).metric(outputs), TOLERANCE)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("sign", [1, -1])
def test_places_of_a_ranking_are_known_by_what_they_are(axis: int, count: int, sign: int) -> None:
    data = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    places = np.take(np.argsort(sign * data, axis=axis), range(count), axis)
    assert step(data, places).choices[1].axis == axis
    assert not step(data, places + 1).choices


def test_of_what_was_not_carved_no_choice_is_known() -> None:
    places = np.array([1], np.int32)
    graph = step(LOGITS, places).graph
    assert choices(graph, {"next": places, "logits": LOGITS}.get)
    assert not choices(graph, {"logits": LOGITS}.get)
    assert not choices(graph, {"next": places}.get)
