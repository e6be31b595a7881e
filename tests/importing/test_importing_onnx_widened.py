"""bfloat16, float8 and 4 bits in ONNX files: held in what WebGPU has, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tapml.errors import InputError
from tapml.importing import import_model


def saved(tmp_path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, int], weights: dict[str, np.ndarray]) -> Path:
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    given = [helper.make_tensor_value_info(name, kind, [2, 4]) for name, kind in inputs.items()]
    output = onnx.ValueInfoProto(name="y")
    output.type.tensor_type.elem_type = {"QuantizeLinear": TensorProto.INT4}.get(nodes[-1].op_type, TensorProto.FLOAT)
    graph = helper.make_graph(nodes, "test", given, [output], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_bfloat16_is_computed_in_float32(tmp_path: Path, matches: Callable[..., None]) -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3)).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.random.default_rng(1).normal(size=(2, 4)).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "inputs.npz", x=x.astype(np.float32))
    model = import_model(
        str(saved(tmp_path, nodes, {"x": TensorProto.BFLOAT16}, {"w": weight})), input_files=[tmp_path / "inputs.npz"]
    )
    assert "bfloat16 is held in float32, for WebGPU has none: nothing is rounded to it" in model.provenance["notes"]  # type: ignore[operator]
    matches(model)
    (expected,) = model.steps[0].expected or []
    np.testing.assert_allclose(expected, x.astype(np.float32) @ weight.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize(
    "dtype",
    [
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2,
        ml_dtypes.uint2,
    ],
)  # fmt: skip
def test_weights_of_few_bits_are_dequantized(
    dtype: np.dtype, tmp_path: Path, evaluate: Callable[..., list[np.ndarray]]
) -> None:
    numbers = np.arange(8).reshape(2, 4) % (2 if np.dtype(dtype).name in ("int2", "uint2") else 8)
    weight = numbers.astype(dtype)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["z"]), helper.make_node("Add", ["x", "z"], ["y"])]
    np.savez(tmp_path / "inputs.npz", x=np.ones((2, 4), np.float32))
    path = saved(tmp_path, nodes, {"x": TensorProto.FLOAT}, {"w": weight, "s": np.array(0.5, np.float32)})
    (result,) = evaluate(import_model(str(path), input_files=[tmp_path / "inputs.npz"]))
    np.testing.assert_array_equal(result, 1 + 0.5 * numbers)


def test_what_is_quantized_to_4_bits_saturates_at_their_ends(
    tmp_path: Path, evaluate: Callable[..., list[np.ndarray]]
) -> None:
    x = np.array([[-100, -9, -8, -7], [6, 7, 8, 100]], np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    weights = {"s": np.array(1.0, np.float32), "zero": np.array(0, ml_dtypes.int4)}
    path = saved(
        tmp_path, [helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["y"])], {"x": TensorProto.FLOAT}, weights
    )
    (result,) = evaluate(import_model(str(path), input_files=[tmp_path / "inputs.npz"]))
    np.testing.assert_array_equal(result, np.clip(x, -8, 7))


@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.INT4, TensorProto.FLOAT4E2M1]
)
def test_what_would_round_to_them_is_refused(kind: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["z"], to=kind),
        helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
    ]
    np.savez(tmp_path / "inputs.npz", x=np.ones((2, 4), np.float32))
    with pytest.raises(InputError, match=r"m.onnx: the operator Cast \(at z\) rounds to \w+, which WebGPU has not"):
        import_model(str(saved(tmp_path, nodes, {"x": TensorProto.FLOAT}, {})), input_files=[tmp_path / "inputs.npz"])
