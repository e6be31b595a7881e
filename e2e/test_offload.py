"""Offloading MiniLM: whole, and with a kernel that must stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Edit, off_by_one, read_json, tapml


@pytest.mark.slow
@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_the_whole_model_moves_into_the_browser(suite: Path, tmp_path: Path, browser: str) -> None:
    out = tmp_path / "offload.json"
    ran = tapml("offload", suite, "--device", browser, "--json", out, timeout=600)
    assert ran.code == 0, ran.out + ran.err
    document = read_json(out)
    assert document["format"] == "tapml.offload/1"
    assert document["summary"]["offloaded_nodes"] == document["summary"]["nodes"]
    assert all(step["kept"] and step["operator_verdict"] == "pass" for step in document["steps"])
    assert all(step["model_metric"]["cosine"] > 0.99999 for step in document["steps"])
    assert document["steps"][-1]["segments"] == 1, "with everything on the device nothing travels in between"
    assert document["final"]["verdict"] == "pass"
    assert document["final"]["model_metric"]["cosine"] > 0.99999


@pytest.mark.slow
def test_a_broken_kernel_stays_on_the_cpu(suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path) -> None:
    edit("layer_norm", off_by_one)
    out = tmp_path / "offload.json"
    ran = tapml("offload", suite, "--device", "firefox", "--json", out, timeout=600)
    assert ran.code == 1
    document = read_json(out)
    assert document["summary"]["kept_on_reference"] == ["layer_norm"]
    for step in document["steps"]:
        assert step["kept"] == (step["kernel"] != "layer_norm")
    assert document["steps"][-1]["model_metric"]["cosine"] > 0.99999, "the hybrid graph gives the right embedding"
    assert document["final"]["verdict"] == "fail", "deployed as it is, the model is wrong"
    assert document["final"]["kept_on_reference"] == ["layer_norm"]
    assert "layer_norm" in ran.out
