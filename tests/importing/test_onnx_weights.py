"""An ONNX file without its large weights."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tapml.errors import InputError
from tapml.importing.inputs import RawStep
from tapml.importing.onnx_detail import intermediates
from tapml.importing.onnx_file import read
from tapml.importing.onnx_run import OnnxReference, OnnxRuntime
from tapml.importing.onnx_weights import InFile, read_apart

_RANDOM = np.random.default_rng(0)
_WEIGHTS = {
    "large": _RANDOM.standard_normal((128, 256)).astype(np.float32),
    "later": _RANDOM.standard_normal((256, 300)).astype(np.float32),
    "small": _RANDOM.standard_normal(300).astype(np.float32),
    "half": _RANDOM.standard_normal((300, 200)).astype(np.float16),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["a"]),
        helper.make_node("MatMul", ["a", "later"], ["b"]),
        helper.make_node("Add", ["b", "small"], ["c"]),
        helper.make_node("Cast", ["half"], ["wide"], to=onnx.TensorProto.FLOAT),
        helper.make_node("MatMul", ["c", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", 1, [2, 128])],
        [helper.make_tensor_value_info("y", 1, [2, 200])],
        [numpy_helper.from_array(array, name) for name, array in _WEIGHTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "weights.onnx")
    return tmp_path / "weights.onnx"


def test_large_weights_stay_in_the_file(path: Path) -> None:
    found, in_file = read_apart(path)
    assert {*in_file.places} == {"large", "later"}
    assert len(found.SerializeToString()) < path.stat().st_size - sum(_WEIGHTS[name].nbytes for name in in_file.places)
    for tensor in found.graph.initializer:
        if tensor.name in in_file.places:
            assert not tensor.raw_data
            assert np.array_equal(in_file.array(tensor.name).reshape(tuple(tensor.dims)), _WEIGHTS[tensor.name])
            tensor.raw_data = in_file.array(tensor.name).tobytes()
    assert found.SerializeToString(deterministic=True) == read(path).SerializeToString(deterministic=True)


@pytest.mark.parametrize("start", [OnnxRuntime, OnnxReference])
def test_the_oracle_gives_the_same_values(path: Path, start: type[Any]) -> None:
    steps = [RawStep("one", {"x": _RANDOM.standard_normal((2, 128)).astype(np.float32)}, False)]
    apart = [*intermediates(path, lambda: read_apart(path), steps, start)]
    whole = [*intermediates(path, lambda: (read(path), InFile(path)), steps, start)]
    assert len(apart) == 5
    for (_, said, array), (_, other, expected) in zip(apart, whole, strict=True):
        assert said == other
        assert np.array_equal(array, expected)


def test_constants_are_weights(path: Path) -> None:
    model = onnx.load(path)
    *_, later = (tensor for tensor in model.graph.initializer if tensor.name == "later")
    model.graph.initializer.remove(later)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["later"], value=later))
    later.name = "of the attribute"
    onnx.save(model, path)
    found, in_file = read_apart(path)
    assert {*in_file.places} == {"large", "later"}
    assert np.array_equal(in_file.array("later").reshape(256, 300), _WEIGHTS["later"])
    assert "Constant" not in {node.op_type for node in found.graph.node}
    step = RawStep("one", {"x": _RANDOM.standard_normal((2, 128)).astype(np.float32)}, False)
    apart = [*intermediates(path, lambda: read_apart(path), [step], OnnxRuntime)]
    whole = [*intermediates(path, lambda: (read(path), InFile(path)), [step], OnnxRuntime)]
    assert len(apart) == 5
    assert all(np.array_equal(one[2], other[2]) for one, other in zip(apart, whole, strict=True))


def test_functions_are_read_as_a_whole(path: Path) -> None:
    model = onnx.load(path)
    model.functions.append(
        helper.make_function("own", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [], [])
    )
    model.functions[0].opset_import.append(helper.make_opsetid("", 17))
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, path)
    found, in_file = read_apart(path)
    assert not in_file.places
    assert [len(tensor.raw_data) for tensor in found.graph.initializer] == [a.nbytes for a in _WEIGHTS.values()]


def test_a_file_that_is_gone_is_said(path: Path) -> None:
    found, in_file = read_apart(path)
    steps = [RawStep("one", {"x": np.zeros((2, 128), np.float32)}, False)]
    path.unlink()
    with pytest.raises(InputError, match=r"weights\.onnx cannot be read any more"):
        [*intermediates(path, lambda: (found, in_file), steps, OnnxRuntime)]
