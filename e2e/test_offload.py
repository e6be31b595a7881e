"""Offloading: MiniLM whole, a small model in Chromium, with a kernel that must stay on the CPU, with odd sizes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conftest import read_json, rewrite, tapml
from tapml.carving.carve import carve
from tapml.devices.messages import KernelMessages
from tapml.importing import import_model
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload


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
    ran = tapml("offload", suite, "--device", "firefox", "--json", out)
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


def test_a_model_that_the_device_does_not_support_is_not_run_whole(tmp_path: Path) -> None:
    types = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "half", types[:1], types[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "half.onnx")
    suite = carve(import_model(str(tmp_path / "half.onnx"), random_inputs=True), tmp_path / "half.suite", name="half")
    document = offloaded(suite.path)  # to one without shader-f16
    assert document["final"]["verdict"] == "unsupported"
    assert document["final"]["message"] == "not run: relu: needs the feature shader-f16, which this device lacks"
    assert "shader-f16" in document["steps"][0]["message"]


def never_ending(kernel: str, text: str) -> str:
    start = text.index("{", text.index(f"fn {kernel}")) + 1
    name = text.split("var<storage, read_write>")[1].split(":")[0].strip()
    return f"{text[:start]} loop {{ {name}[0] += 1.0; if ({name}[0] == 12345.5) {{ break; }} }} {text[start:]}"


def offloaded(suite: Path) -> dict[str, Any]:
    """To node-dawn, whose kernels have eight seconds: a busy machine takes three for one that is right."""
    with Server() as server:
        context = JobContext(Suite(suite), [server.state.device("node-dawn")], server.state.blobs, hang_seconds=8)
        return dict(Offload(context).run())


@pytest.mark.slow
def test_a_kernel_that_never_ends_stays_on_the_cpu_and_the_whole_model_is_not_run(small: Path) -> None:
    rewrite(small, "softmax", lambda text: never_ending("softmax", text))
    document = offloaded(small)
    assert document["summary"]["kept_on_reference"] == ["softmax"]
    (step,) = (step for step in document["steps"] if step["kernel"] == "softmax")
    assert "kernel softmax did not end within 8 s" in step["message"]
    assert document["final"]["verdict"] == "error"
    assert document["final"]["message"] == "not run: on the device softmax cannot be run; the steps say why"


def test_a_kernel_that_never_ends_in_the_whole_model_is_named(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by itself, as the suite has it."""
    honest = KernelMessages.replacements
    (file,) = (small / "kernels").glob("softmax*.wgsl")

    def replacements(self: KernelMessages) -> dict[str, str]:
        replaced = honest(self)
        (name,) = (entry_point for entry_point in replaced if entry_point.startswith("softmax"))
        return {**replaced, name: self._blobs.hold(never_ending("softmax", file.read_text()).encode())}

    monkeypatch.setattr(KernelMessages, "replacements", replacements)
    document = offloaded(small)
    assert document["summary"]["kept_on_reference"] == []
    assert document["final"]["verdict"] == "error"
    assert re.search(r"kernel softmax\w* did not end within 8 s", document["final"]["message"])


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
