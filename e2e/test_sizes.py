"""MiniLM at three lengths is one suite with one set of kernels."""

from __future__ import annotations

from pathlib import Path

from conftest import read_json, tapml
from tapml.suite import Suite

TEXTS = ("Good morning", "A quick brown fox jumps over the lazy dog near the river bank.", "How are you today?")


def test_minilm_at_three_lengths(tmp_path: Path) -> None:
    three, out = tmp_path / "three.suite", tmp_path / "result.json"
    texts = [argument for text in TEXTS for argument in ("--text", text)]
    ran = tapml("carve", "minilm", "--one-by-one", *texts, "-o", three)
    assert ran.code == 0, ran.err
    suite = Suite(three)
    lengths = [step["sizes"]["tokens"] for step in suite.manifest["steps"]]
    assert lengths == [4, 16, 7]
    assert suite.manifest["oracle"]["agrees"]
    nodes = len(suite.model_graph.kernel_nodes)
    assert len(suite.kernels) < nodes / 3
    assert len(suite.tests) == len(TEXTS) * nodes
    # One of each way that a length gets into a kernel: its grid, its loops, its reductions, what it computes.
    chosen = ["transpose1", "softmax", "matmul2", "fused_multiply3_sum2", "arange", "take"]
    kernels = [argument for name in chosen for argument in ("--kernel", name)]
    ran = tapml("validate", three, "--device", "node-dawn", *kernels, "--json", out)
    assert ran.code == 0, ran.err
    tests = read_json(out)["tests"]
    assert {(test["kernel"], test["verdict"]) for test in tests} == {(name, "pass") for name in chosen}
    assert len(tests) == len(TEXTS) * sum(node.kernel in chosen for node in suite.model_graph.kernel_nodes)
