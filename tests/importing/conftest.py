"""What the importers' tests share: running an import on this CPU, and making small ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tapml.importing import ImportedModel
from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference

ALLOWED = {"float32", "float16", "int32", "uint32"}


@pytest.fixture(autouse=True)
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM would link some modules with a C++ compiler; users need not have one."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def evaluate() -> Callable[[ImportedModel], list[np.ndarray]]:
    """Lower, check every tensor between kernels, run the first step on LLVM."""

    def run(model: ImportedModel) -> list[np.ndarray]:
        lowered = lower(model.module, len(model.input_names))
        for value in lowered.model.main.values.values():
            assert value.type.dtype in ALLOWED, f"{value.name} is {value.type.dtype}"
        found = lowered.as_it_is
        platform = Reference(found)
        arguments = [model.steps[0].inputs[name] for name in model.input_names]
        arguments += [*(array for _, array in model.parameters), *lowered.constants.values()]
        values = platform.run(found.graph, platform.values(dict(zip(found.arguments, arguments, strict=True))))
        return [values[value].numpy() for value in found.graph.outputs]

    return run


@pytest.fixture
def matches(evaluate: Callable[[ImportedModel], list[np.ndarray]]) -> Callable[..., None]:
    """Assert that an import gives on TVM what its oracle gives."""

    def check(model: ImportedModel, atol: float = 2e-6) -> None:
        expected = model.steps[0].expected
        assert expected is not None, model.oracle_missing
        results = evaluate(model)
        assert len(results) == len(expected) == len(model.outputs)
        for name, result, wanted in zip(model.outputs, results, expected, strict=True):
            assert result.dtype == wanted.dtype, name
            np.testing.assert_allclose(result, wanted, rtol=0, atol=atol, err_msg=name)

    return check


@pytest.fixture
def save_onnx(tmp_path: Path) -> Callable[..., Path]:
    """Write a model of the given nodes; inputs and outputs are (name, dtype, shape)."""

    def save(
        nodes: Sequence[Any],
        inputs: Sequence[tuple[str, str, Sequence[int | str]]],
        outputs: Sequence[tuple[str, str, Sequence[int | str]]],
        weights: Mapping[str, np.ndarray],
        name: str = "model.onnx",
        domains: Sequence[str] = (),
        opset: int = 17,
    ) -> Path:
        def declared(values: Sequence[tuple[str, str, Sequence[int | str]]]) -> list[Any]:
            return [
                helper.make_tensor_value_info(value, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for value, dtype, shape in values
            ]

        tensors = [numpy_helper.from_array(array, key) for key, array in weights.items()]
        graph = helper.make_graph(nodes, "test", declared(inputs), declared(outputs), tensors)
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        path = tmp_path / name
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path

    return save
