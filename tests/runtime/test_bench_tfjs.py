"""make bench-whole-models: what TensorFlow.js is given of an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.whole_models.tfjs import write_graph
from onnx import TensorProto, helper, numpy_helper


def written(folder: Path, *, group: int, channels: int) -> dict[str, np.ndarray]:
    """The weights of a convolution of 4 channels to 8 and of a reshape, as tfjs reads them."""
    weight = np.arange(8 * channels * 6, dtype=np.float32).reshape(8, channels, 2, 3)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "weight"], ["y"], group=group, kernel_shape=[2, 3]),
            helper.make_node("Reshape", ["y", "shape"], ["z"]),
        ],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 6])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 128])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.array([0, -1]), "shape")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "x.onnx")
    write_graph(folder / "x.onnx", folder)
    found, content = json.loads((folder / "tfjs.json").read_text()), (folder / "tfjs.bin").read_bytes()
    assert [kind for kind, *_ in found["nodes"]] == ["Conv", "Reshape"]
    return {
        name: np.frombuffer(content, dtype, int(np.prod(shape)), at).reshape(shape)
        for name, (dtype, shape, at) in found["weights"].items()
    }


def test_weights_of_convolutions_lie_as_tfjs_has_them(tmp_path: Path) -> None:
    weight = np.arange(8 * 4 * 6, dtype=np.float32).reshape(8, 4, 2, 3)
    found = written(tmp_path, group=1, channels=4)
    assert {*found} == {"weight of 1", "shape"}
    assert found["weight of 1"].shape == (2, 3, 4, 8)
    assert found["weight of 1"][1, 2, 3, 7] == weight[7, 3, 1, 2]
    assert found["shape"].dtype == np.int32
    assert found["shape"].tolist() == [0, -1]


def test_those_of_a_depthwise_one_are_by_channel_and_multiple(tmp_path: Path) -> None:
    weight = np.arange(8 * 6, dtype=np.float32).reshape(8, 1, 2, 3)
    found = written(tmp_path, group=4, channels=1)
    assert found["weight of 4"].shape == (2, 3, 4, 2)
    assert found["weight of 4"][1, 0, 3, 1] == weight[7, 0, 1, 0]


def test_other_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no convolution of 2 groups of 2 channels"):
        written(tmp_path, group=2, channels=2)
