"""Operator-wise validation of MiniLM in both browsers, whole and broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import Edit, off_by_one, read_json, tapml

DEVICES = ("--device", "chromium", "--device", "firefox")


def test_every_carved_test_passes_in_both_browsers(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    ran = tapml("validate", suite, *DEVICES, "--json", out)
    assert ran.code == 0, ran.out + ran.err
    document = read_json(out)
    assert document["format"] == "tapml.validation/1"
    shown = tmp_path / "show.json"
    assert tapml("show", suite, "--json", shown).code == 0
    expected = {test["id"] for test in read_json(shown)["tests"]}
    assert len(expected) > 90
    for device in document["devices"]:
        tests = [test for test in document["tests"] if test["device"] == device["id"]]
        assert {test["id"] for test in tests} == expected
        assert {test["verdict"] for test in tests} == {"pass"}
        assert all(test["total"] > 0 for test in tests)
        assert device["limits"]["maxComputeInvocationsPerWorkgroup"] >= 256
    names = [device["name"] for device in document["devices"]]
    assert any("Chrom" in name for name in names)
    assert any("Firefox" in name for name in names)


def test_a_broken_kernel_fails_and_nothing_else(suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path) -> None:
    edit("layer_norm", off_by_one)
    out = tmp_path / "result.json"
    ran = tapml("validate", suite, "--device", "deno", "--json", out)
    assert ran.code == 1
    document = read_json(out)
    failed = {test["kernel"] for test in document["tests"] if test["verdict"] != "pass"}
    passed = {test["kernel"] for test in document["tests"] if test["verdict"] == "pass"}
    assert failed == {"layer_norm"}
    assert "layer_norm" not in passed, "all its nodes fail"
    assert len(passed) > 20
    assert document["edited_kernels"] == document["summary"]["failing_kernels"] == ["layer_norm"]
    assert "layer_norm" in ran.out
    assert "edited" in ran.out


def test_three_kinds_of_broken_kernels_in_both_browsers(
    suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    """One is wrong, one does not compile, one returns at once: outputs start as NaN. The others pass."""
    edit("layer_norm", off_by_one)
    edit("softmax", lambda text: text.replace("workgroupBarrier();", "workgroupBarrier(nonsense);", 1))
    edit("divide", lambda text: text.replace(") {\n", ") {\n  if (podArgs.packGridDimX > 0u) { return; }\n", 1))
    line = next(
        number
        for number, text in enumerate((suite / "kernels" / "softmax.wgsl").read_text().splitlines(), 1)
        if "nonsense" in text
    )
    out = tmp_path / "result.json"
    kernels = ("layer_norm", "softmax", "divide", "cast", "take")
    ran = tapml("validate", suite, *DEVICES, *(word for name in kernels for word in ("--kernel", name)), "--json", out)
    assert ran.code == 1
    document = read_json(out)
    seen = set()
    for test in document["tests"]:
        kernel, verdict = test["kernel"], test["verdict"]
        seen.add((kernel, verdict, test["device"]))
        if kernel == "layer_norm":
            assert test["mismatched"] > 0
            assert test["first"]["index"]
            assert test["first"]["got"] != test["first"]["expected"]
        elif kernel == "softmax":
            assert f"softmax.wgsl:{line}:" in test["message"]
            assert "workgroupBarrier(nonsense)" in test["message"]
            assert test["diagnostics"][0]["line"] == line
        elif kernel == "divide":
            assert test["nan"] == test["mismatched"] == test["total"]
    verdicts = {"layer_norm": "fail", "softmax": "error", "divide": "fail", "cast": "pass", "take": "pass"}
    devices = [device["id"] for device in document["devices"]]
    assert len(devices) == 2
    assert seen == {(kernel, verdict, device) for kernel, verdict in verdicts.items() for device in devices}
