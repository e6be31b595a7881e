"""What an import computes once, however often the model has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tapml.importing import import_model, narrow, weights
from tapml.importing.indices import lower_indexing
from tapml.importing.model import Array

_STEPS, _SIZE = 6, 8


def _lstm(path: Path) -> Path:
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal((1, 4 * _SIZE, _SIZE)).astype(np.float32) for name in ("w", "r")}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [_STEPS, 1, _SIZE]), ("y", [_STEPS, 1, 1, _SIZE]))
    )
    node = helper.make_node("LSTM", ["x", *arrays], ["y"], hidden_size=_SIZE)
    graph = helper.make_graph([node], "m", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_steps_that_are_alike_share_a_kernel_and_weights_are_told_apart_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    digested: list[tuple[int, ...]] = []
    digest = weights.digest

    def counted(name: str, *others: Any) -> Any:
        made.append(name)
        return lower_indexing(name, *others)

    def told(array: Array) -> str:
        digested.append(array.shape)
        return digest(array)

    monkeypatch.setattr(narrow.portable, "lower_indexing", counted)
    monkeypatch.setattr(weights, "digest", told)
    imported = import_model(str(_lstm(tmp_path / "lstm.onnx")), random_inputs=True)
    takes = sum("take" in name.name_hint for name in imported.module.functions)
    assert takes == len(made) == 1
    assert imported.module.script().count("cls.take") == _STEPS
    assert digested.count((1, 4 * _SIZE, _SIZE)) == 2  # w and r, each once
    assert {"w", "r"} & {name.split(".")[0] for name, _ in imported.parameters}
