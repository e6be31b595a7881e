"""Which compiler makes a carve's kernels is asked for, and told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapml.cli.main import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=-1)],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_kernels_are_of_the_compiler_asked_for(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And those of one are not taken for another's, though operators are the same: compiled kernels are kept."""
    texts: dict[str, set[str]] = {}
    for turn, (asked, made_by) in enumerate((("native", "native"), ("tvm", "tvm"))):
        suite = tmp_path / f"{turn}.suite"
        code = main(["carve", str(model), "--random-inputs", "--compiler", asked, "-o", str(suite)])
        out = capsys.readouterr()
        assert code == 0, out.err
        assert re.search(rf"^compiler +{made_by}$", out.out, re.MULTILINE)
        assert main(["show", str(suite), "--json", "-"]) == 0
        shown: Any = json.loads(capsys.readouterr().out)
        assert [kernel["compiler"] for kernel in shown["kernels"]] == [made_by] * 2
        texts[made_by] = {file.read_text() for file in (suite / "kernels").glob("*.wgsl")}
    assert not texts["tvm"] & texts["native"]


def test_what_was_asked_for_is_told_beside_who_made_kernels(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = str(tmp_path / "two.suite")
    assert main(["carve", str(model), "--random-inputs", "--compiler", "auto", "-o", suite]) == 0
    carved = capsys.readouterr().out
    assert main(["show", suite, "--json", "-"]) == 0
    shown: Any = json.loads(capsys.readouterr().out)
    made_by = [kernel["compiler"] for kernel in shown["kernels"]]
    assert re.search(rf"^compiler +auto: (all kernels by {made_by[0]}|of 2 kernels \d by )", carved, re.MULTILINE)
    assert main(["show", suite]) == 0
    assert "auto: " not in capsys.readouterr().out


def test_a_compiler_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["carve", "minilm", "--compiler", "clang", "-o", "x.suite"])
    assert ended.value.code == 2
    assert "'clang'" in capsys.readouterr().err
