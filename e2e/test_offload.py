"""Offloading: MiniLM whole, a small model in Chromium, with a kernel that must stay on the CPU, with odd sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conftest import read_json, rewrite, tapml
from helpers import small_model
from tapml.carving.carve import carve


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return carve(small_model(), tmp_path / "small.suite", name="small").path


def moved(document: dict[str, Any]) -> None:
    """All nodes moved, one after the other, and the model is right at each step and at the end."""
    assert document["format"] == "tapml.offload/1"
    assert document["summary"]["offloaded_nodes"] == document["summary"]["nodes"]
    assert all(step["kept"] and step["operator_verdict"] == "pass" for step in document["steps"])
    assert all(step["model_metric"]["cosine"] > 0.99999 for step in document["steps"])
    assert document["steps"][-1]["segments"] == 1, "with everything on the device nothing travels in between"
    assert document["final"]["verdict"] == "pass"
    assert document["final"]["model_metric"]["cosine"] > 0.99999


@pytest.mark.slow
def test_the_whole_of_minilm_moves_into_firefox(suite: Path, tmp_path: Path) -> None:
    """Chromium's software GPU takes twice as long: the small model moves there."""
    out = tmp_path / "offload.json"
    ran = tapml("offload", suite, "--device", "firefox", "--json", out, timeout=600)
    assert ran.code == 0, ran.out + ran.err
    moved(read_json(out))


def test_a_small_model_moves_into_chromium(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "offload.json"
    ran = tapml("offload", small, "--device", "chromium", "--json", out)
    assert ran.code == 0, ran.out + ran.err
    moved(read_json(out))


def test_a_broken_kernel_stays_on_the_cpu(small: Path, tmp_path: Path) -> None:
    rewrite(small, "softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
    out = tmp_path / "offload.json"
    ran = tapml("offload", small, "--device", "chromium", "--json", out)
    assert ran.code == 1
    document = read_json(out)
    assert document["summary"]["kept_on_reference"] == ["softmax"]
    assert len(document["steps"]) > 1
    for step in document["steps"]:
        assert step["kept"] == (step["kernel"] != "softmax")
    last = [step for step in document["steps"] if step["kept"]][-1]
    assert last["model_metric"]["cosine"] > 0.99999, "the hybrid graph gives the right result"
    assert document["final"]["verdict"] == "fail", "deployed as it is, the model is wrong"
    assert document["final"]["kept_on_reference"] == ["softmax"]
    assert "softmax" in ran.out


def test_an_empty_tensor_and_one_with_a_count_move(tmp_path: Path) -> None:
    """To Deno, which ends where nothing is copied."""
    node = helper.make_node
    nodes = [
        node("Concat", ["x", "empty"], ["joined"], axis=1),
        node("ReduceMax", ["empty", "last"], ["most"], keepdims=0),
        node("Relu", ["empty"], ["still"]),
        node("NonZero", ["joined"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["joined", "rows"], ["found"]),
    ]
    takes = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [2, 3]), ("empty", [2, 0]))]
    gives = [helper.make_tensor_value_info(name, 1, None) for name in ("most", "still", "found")]
    graph = helper.make_graph(nodes, "empty", takes, gives, [numpy_helper.from_array(np.array([1]), "last")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "e.onnx")
    np.savez(tmp_path / "e.npz", x=np.float32([[1, 0, 2], [0, 0, 3]]), empty=np.zeros((2, 0), np.float32))
    suite, out = tmp_path / "e.suite", tmp_path / "offload.json"
    ran = tapml("carve", tmp_path / "e.onnx", "--inputs", tmp_path / "e.npz", "-o", suite)
    assert ran.code == 0, ran.out + ran.err
    ran = tapml("offload", suite, "--device", "deno", "--json", out)
    assert ran.code == 0, ran.out + ran.err
    moved(read_json(out))
