"""Variants that are chosen by time are all tested, whichever a device runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.carving.prepare import lowered_with_documents
from tapml.cli.main import main
from tapml.compilers.auto.compile import AutoCompiler
from tapml.compilers.auto.digest import digest
from tapml.compilers.auto.space import candidates
from tapml.compilers.auto.table import FORMAT, Tuned, text_key
from tapml.suite import Suite

CLASSES = (("swiftshader", "software"), ("acme/one", "gpu"))


def tables(kernel: str) -> list[Tuned]:
    """By which a GPU in software runs TVM's kernel, and others the native one."""
    operators, _ = lowered_with_documents(small_model())
    operator = next(one for one in operators.operators if one.name == kernel)
    tvm, native, *_ = candidates([operator], (1,))[kernel]
    found = []
    for classes, fast in zip(CLASSES, (tvm, native), strict=True):
        measured = [
            {"name": one.name, "text": text_key(one.texts), "microseconds": 1.0 if one is fast else 9.0}
            for one in (tvm, native)
        ]
        kernels = [{"operator": digest(operator), "name": kernel, "candidates": measured}]
        fields = {"format": FORMAT, "classes": list(classes), "device": "", "clock": "gpu", "kernels": kernels}
        found.append(Tuned.model_validate(fields))
    return found


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    model = small_model()
    names = [one.name for one in lowered_with_documents(model)[0].operators]
    product = next(name for name in names if "matmul" in name)
    path = tmp_path_factory.mktemp("variants") / "small.suite"
    return carve(model, path, name="small", compilers=(AutoCompiler(tables(product)),))


@pytest.fixture(scope="module")
def kernel(suite: Suite) -> str:
    return next(name for name in suite.kernels if "matmul" in name)


def validated(suite: Suite, kernel: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    code = main(["validate", str(suite.path), "--device", "node-dawn", "--kernel", kernel, "--json", "-"])
    out = capsys.readouterr()
    assert out.out, out.err
    return code, json.loads(out.out)["tests"]


@pytest.mark.parametrize("broken", [pytest.param("256", marks=pytest.mark.slow), "256+tvm"])
def test_a_mistake_in_either_variant_is_found(
    suite: Suite, kernel: str, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One device runs TVM's, others the native one: that is found on the device that does not run it."""
    variants = suite.bundle(kernel)["variants"]
    assert [one["name"] for one in variants] == ["256", "256+tvm"]
    variant = next(one for one in variants if one["name"] == broken)
    file = Path(suite.path) / "kernels" / variant["entry_points"][0]["file"]
    text = file.read_text()
    code, tests = validated(suite, kernel, capsys)
    assert code == 0
    assert {one["variant"] for one in tests} == {"256+tvm"}
    try:
        file.write_text(text.replace("fma(", "-fma("))
        assert file.read_text() != text
        code, tests = validated(suite, kernel, capsys)
        if broken == "256":  # which the device would not take
            located_and_reduced(suite, kernel, tests[0]["id"], capsys)
    finally:
        file.write_text(text)
    assert code == 1
    assert {one["verdict"] for one in tests} == {"fail"}
    assert {one["variant"] for one in tests} == {broken}
    assert validated(suite, kernel, capsys)[0] == 0


def located_and_reduced(suite: Suite, kernel: str, test: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["locate", str(suite.path), "--device", "node-dawn", "--kernel", kernel, "--json", "-"])
    (suspect,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (code, suspect["kernel"], suspect["verdict"]) == (1, kernel, "fail")
    assert not any("differ from run to run" in found["text"] for found in suspect["findings"])
    assert main(["reduce", str(suite.path), test, "--device", "node-dawn"]) == 0
    capsys.readouterr()
