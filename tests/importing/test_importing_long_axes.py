"""Ranking and scattering along axes that are too long to compare all of their elements with each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model

RANDOM = np.random.default_rng(0)


Imported = Callable[..., ImportedModel]


@pytest.fixture
def imported(save_onnx: Callable[..., Path], tmp_path: Path) -> Imported:
    """A model of one operator, whose inputs are `x` and constants."""

    def model(operator: str, x: np.ndarray, fixed: dict[str, np.ndarray], outputs: str = "y", **how: int) -> Any:
        node = helper.make_node(operator, ["x", *fixed], outputs.split(), **how)
        ends = [
            (name, dtype, [None] * x.ndim) for name, dtype in zip(outputs.split(), ("float32", "int64"), strict=False)
        ]
        np.savez(tmp_path / "inputs.npz", x=x)
        path = save_onnx([node], [("x", "float32", x.shape)], ends, fixed)
        return import_model(str(path), input_files=[tmp_path / "inputs.npz"])

    return model


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_of_a_long_axis_in_order(largest: int, imported: Imported, matches: Callable[..., None]) -> None:
    # A detector's scores: many are equal, and those that are masked are -inf.
    x = RANDOM.integers(0, 40, (2, 20_003)).astype(np.float32)
    x[1, 7:19_990] = -np.inf
    matches(imported("TopK", x, {"k": np.array([30])}, "values places", largest=largest), atol=0)


def test_the_first_of_a_long_axis_that_is_not_the_last(imported: Imported, matches: Callable[..., None]) -> None:
    x = RANDOM.standard_normal((8400, 3)).astype(np.float32)
    matches(imported("TopK", x, {"k": np.array([5])}, "values places", axis=0), atol=0)


def test_more_of_a_long_axis_than_can_be_ranked_is_refused(imported: Imported) -> None:
    x = RANDOM.standard_normal((1, 9000)).astype(np.float32)
    with pytest.raises(InputError, match="topk over 9000 elements: tapml takes at most 8192"):
        imported("TopK", x, {"k": np.array([9000])}, "values places")


def test_few_updates_of_a_long_axis(imported: Imported, matches: Callable[..., None]) -> None:
    x, places = RANDOM.standard_normal((2, 70_000)).astype(np.float32), RANDOM.permutation(70_000)[:8].reshape(2, 4)
    updates = {"places": places, "updates": np.ones((2, 4), np.float32)}
    matches(imported("ScatterElements", x, updates, axis=1), atol=0)
