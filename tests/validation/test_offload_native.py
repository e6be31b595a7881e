"""An offload of kernels that TVM did not make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decoders import decoder
from helpers import small_model
from tapml.carving.carve import carve
from tapml.cli.main import main
from tapml.compilers.choose import CHOICES
from tapml.results.offload import OffloadStep, fate
from tapml.suite import Suite
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


@pytest.mark.slow
@pytest.mark.torch
def test_a_decoder_of_native_kernels_runs_its_calls_one_after_the_other(tmp_path: Path) -> None:
    """A prompt and two tokens: each call reads what those before it left in the cache."""
    config, suite = decoder("grouped queries", tmp_path / "model"), tmp_path / "decoder.suite"
    asked = ["--prompt-ids", "3,17,42,99,7", "--capacity", "32", "--chunk", "8", "--steps", "2"]
    assert main(["carve", "--hf", str(config), *asked, "--compiler", "native", "-o", str(suite)]) == 0
    assert no_library(Suite(suite)) != ""
    final = offloaded(suite)
    assert (final["verdict"], final["mode"], final["message"]) == ("pass", "compiled", "")
    assert final["model_metric"]["cosine"] > 0.999999

    # What is wrong in the second call of `decode` alone: place 6 of the cache.
    kernel = suite / "kernels" / "cache_append_decode.wgsl"
    found = final["model_metric"]["max_abs_error"]
    text = kernel.read_text()
    kernel.write_text(text.replace("cache[place] = added", "cache[place] = select(1.0, 9.0, first == 6) * added"))
    assert kernel.read_text() != text
    final = offloaded(suite)
    assert final["verdict"] == "fail"
    assert final["model_metric"]["step"] == 2
    assert final["model_metric"]["max_abs_error"] > 10 * found


def offloaded(suite: Path) -> dict[str, Any]:
    out = suite.with_name("found.json")
    main(["offload", str(suite), "--device", "node-dawn", "--json", str(out)])
    final: dict[str, Any] = json.loads(out.read_text())["final"]
    return final


def test_what_became_of_a_kernel_has_three_words() -> None:
    step: OffloadStep = {
        "kernel": "k", "nodes": ["n"], "operator_verdict": "pass", "model_metric": None, "kept": False,
        "offloaded_nodes": 0, "segments": 0, "seconds": 0.0, "message": "",
    }  # fmt: skip
    assert fate(step) == "put back"
    assert fate({**step, "kept": True}) == "moved"
    assert fate({**step, "operator_verdict": "unsupported"}) == "stayed"
