"""A model as a package ships it, from the registry to the verdicts of both browsers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.onnx_models.fetch import model_file
from benchmarks.onnx_models.models import MODELS

from conftest import read_json, tapml

DOWNLOADED = Path(__file__).parents[1] / "build" / "onnx_models"


@pytest.mark.slow
def test_a_model_that_a_package_ships_goes_all_the_way(tmp_path: Path) -> None:
    """Magika tells what kind of file it is given: an export of JAX, with slashes in its names."""
    (model,) = (found for found in MODELS if found.name == "magika")
    inputs, suite, out = tmp_path / "real.npz", tmp_path / "magika.suite", tmp_path / "out.json"
    np.savez(inputs, **dict(model.inputs()))
    carved = tapml("carve", model_file(model, DOWNLOADED), "--inputs", inputs, "-o", suite)
    assert carved.code == 0, carved.err
    validated = tapml("validate", suite, "--device", "chromium", "--device", "firefox", "--json", out)
    assert validated.code == 0, validated.out + validated.err
    assert read_json(out)["summary"]["pass"] == read_json(out)["summary"]["total"] > 0
    moved = tapml("offload", suite, "--device", "chromium", "--json", out)
    assert moved.code == 0, moved.out + moved.err
    assert read_json(out)["final"]["verdict"] == "pass"
