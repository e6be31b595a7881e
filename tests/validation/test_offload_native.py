"""An offload of kernels that TVM did not make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.cli.main import main
from tapml.compilers.choose import CHOICES
from tapml.results.offload import OffloadStep, fate
from tapml.validation.whole_model import no_library


def test_the_whole_model_of_native_kernels_runs_as_it_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = carve(small_model(), tmp_path / "small.suite", name="small", compilers=CHOICES["native"])
    native = [name for name in suite.kernels if suite.bundle(name)["compiler"]["name"] == "native"]
    assert native
    assert no_library(suite).startswith(
        f"TVM's virtual machine runs the kernels that TVM made alone, and native made {native[0]}"
    )
    assert main(["offload", str(suite.path), "--device", "node-dawn", "--json", str(tmp_path / "found.json")]) == 0
    final = json.loads((tmp_path / "found.json").read_text())["final"]
    assert (final["verdict"], final["mode"], final["message"]) == ("pass", "compiled", "")
    assert final["model_metric"]["cosine"] > 0.999999
    assert "✓ pass whole model, as `tapml build` makes it: cosine" in capsys.readouterr().out


def test_what_became_of_a_kernel_has_three_words() -> None:
    step: OffloadStep = {
        "kernel": "k", "nodes": ["n"], "operator_verdict": "pass", "model_metric": None, "kept": False,
        "offloaded_nodes": 0, "segments": 0, "seconds": 0.0, "message": "",
    }  # fmt: skip
    assert fate(step) == "put back"
    assert fate({**step, "kept": True}) == "moved"
    assert fate({**step, "operator_verdict": "unsupported"}) == "stayed"
