"""Quantized operators, ONNX's and ONNX Runtime's: what they give is what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tapml.importing import import_model


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if "float" in dtype:
        return random.normal(size=shape).astype(dtype)
    ends = np.iinfo(dtype)
    return random.integers(max(ends.min, -300), min(ends.max, 300), shape, endpoint=True).astype(dtype)


def scales(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).uniform(0.01, 0.2, shape).astype(np.float32)


Q8, S8 = numbers("uint8", 2, 3, 7, 8), numbers("int8", 2, 3, 7, 8)
ZERO = np.array(120, np.uint8)
ONE = np.array(0.05, np.float32)

CASES: dict[str, tuple[str, str, str, dict[str, Any], list[Any]]] = {
    # ConvInteger: padding is the zero point.
    "pads": ("", "ConvInteger", "int32", {"pads": [1, 0, 2, 1]}, [Q8, numbers("uint8", 4, 3, 3, 2), ZERO, ZERO]),
    "same": (
        "", "ConvInteger", "int32", {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        [Q8, numbers("uint8", 4, 3, 2, 3), ZERO],
    ),
    "groups": ("", "ConvInteger", "int32", {"group": 3, "dilations": [2, 1]}, [Q8, numbers("int8", 6, 1, 3, 3), ZERO]),
    "signal": (
        "", "ConvInteger", "int32", {"pads": [2, 1]},
        [numbers("uint8", 1, 4, 9), numbers("int8", 2, 4, 3), ZERO],
    ),
    "per channel": (
        "", "QLinearConv", "uint8", {"pads": [1, 1, 1, 1]},
        [Q8, ONE, ZERO, numbers("int8", 4, 3, 3, 3), scales(4), np.zeros(4, np.int8), np.float32(0.4), ZERO,
         np.arange(-200, 200, 100, np.int32)],
    ),
    "signed": (
        "", "QLinearConv", "int8", {"group": 3, "strides": [2, 1]},
        [S8, ONE, np.int8(-3), numbers("int8", 3, 1, 3, 3), ONE, np.int8(0), np.float32(0.1), np.int8(5)],
    ),
    "rows": ("", "MatMulInteger", "int32", {}, [numbers("int8", 4, 9), numbers("int8", 9, 5), np.int8(3), np.int8(-1)]),
    "columns": (
        "", "QLinearMatMul", "uint8", {},
        [numbers("uint8", 4, 9), ONE, ZERO, numbers("int8", 9, 5), scales(5), np.zeros(5, np.int8),
         np.float32(0.3), ZERO],
    ),
    # One scale, one along an axis, one for each block of it; what does not fill the last block.
    "axis": (
        "", "QuantizeLinear", "int8", {"axis": -2},
        [numbers("float32", 3, 4, 5), scales(4), np.arange(4, dtype=np.int8)],
    ),
    "uint16": ("", "QuantizeLinear", "uint16", {}, [numbers("float32", 9) * 99, np.float32(0.01), np.uint16(500)]),
    "blocks": (
        "", "QuantizeLinear", "uint8", {"axis": 2, "block_size": 4},
        [numbers("float32", 2, 3, 10), scales(2, 3, 3), numbers("uint8", 2, 3, 3)],
    ),
    "blocks of the first axis": (
        "", "DequantizeLinear", "float32", {"axis": 0, "block_size": 2},
        [numbers("int8", 4, 3), scales(2, 3), numbers("int8", 2, 3)],
    ),
    "int32": ("", "DequantizeLinear", "float32", {}, [numbers("int32", 5), np.float32(0.3)]),
    "output": (
        "", "QuantizeLinear", "int16", {"output_dtype": TensorProto.INT16},
        [numbers("float32", 9) * 999, np.float32(0.1)],
    ),
    # com.microsoft
    "add": (
        "com.microsoft", "QLinearAdd", "uint8", {},
        [Q8, ONE, ZERO, numbers("uint8", 8), ONE, ZERO, np.float32(0.13), ZERO],
    ),
    "mul": (
        "com.microsoft", "QLinearMul", "int8", {},
        [S8, ONE, np.int8(1), S8, ONE, np.int8(0), np.float32(0.3), np.int8(2)],
    ),
    "sigmoid": ("com.microsoft", "QLinearSigmoid", "uint8", {}, [Q8, ONE, ZERO, np.float32(1 / 256), np.uint8(0)]),
    "leaky": ("com.microsoft", "QLinearLeakyRelu", "uint8", {"alpha": 0.3}, [Q8, ONE, ZERO, ONE, ZERO]),
    "pool": ("com.microsoft", "QLinearGlobalAveragePool", "uint8", {"channels_last": 0}, [Q8, ONE, ZERO, ONE, ZERO]),
    "softmax": (
        "com.microsoft", "QLinearSoftmax", "uint8", {"axis": -1, "opset": 13},
        [Q8, ONE, ZERO, np.float32(0.0047), np.uint8(3)],
    ),
    "concat": (
        "com.microsoft", "QLinearConcat", "uint8", {"axis": 1},
        [ONE, ZERO, Q8, ONE, ZERO, Q8, np.float32(0.1), ZERO],
    ),
    "gemm": (
        "com.microsoft", "QGemm", "uint8", {"transB": 1, "alpha": 1.0},
        [numbers("uint8", 4, 9), ONE, ZERO, numbers("int8", 5, 9), scales(5), np.zeros(5, np.int8),
         np.arange(5, dtype=np.int32), np.float32(0.3), ZERO],
    ),
    "table of 4 bits": (
        "com.microsoft",
        "GatherBlockQuantized",
        "float32",
        {"block_size": 16, "bits": 4},
        [numbers("uint8", 6, 16), np.array([4, 0, 5], np.int64), scales(6, 2)],
    ),
    "to float": (
        "com.microsoft", "MatMulIntegerToFloat", "float32", {},
        [numbers("uint8", 4, 9), numbers("int8", 9, 5), ONE, ONE, ZERO, np.int8(3), numbers("float32", 5)],
    ),
    "dynamic": (
        "com.microsoft", "DynamicQuantizeMatMul", "float32", {},
        [numbers("float32", 4, 9), numbers("int8", 9, 5), ONE, np.int8(3), numbers("float32", 5)],
    ),
    "average pool": (
        "com.microsoft", "QLinearAveragePool", "uint8",
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}, [Q8, ONE, ZERO, np.float32(0.04), ZERO],
    ),
    "average pool, padding counted": (
        "com.microsoft", "QLinearAveragePool", "uint8",
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]},
        [Q8, ONE, ZERO, np.float32(0.04), ZERO],
    ),
    "pool, channels last": (
        "com.microsoft", "QLinearGlobalAveragePool", "uint8", {"channels_last": 1}, [Q8, ONE, ZERO, ONE, ZERO],
    ),
    "conv, channels last": (
        "com.microsoft", "QLinearConv", "uint8", {"channels_last": 1, "pads": [1, 1, 1, 1]},
        [numbers("uint8", 2, 7, 8, 3), ONE, ZERO, numbers("int8", 4, 3, 3, 3), scales(4), np.zeros(4, np.int8),
         np.float32(0.4), ZERO],
    ),
    "products of 16 bits": (
        "com.microsoft", "MatMulInteger16", "int32", {}, [numbers("int16", 4, 9), numbers("int16", 9, 5)],
    ),
    "attention": (
        "com.microsoft", "QAttention", "float32", {"num_heads": 2, "unidirectional": 1},
        [numbers("uint8", 2, 5, 8), numbers("int8", 8, 24), numbers("float32", 24), np.float32(0.01), np.float32(0.01),
         np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32), np.uint8(128), np.int8(0)],
    ),
    "embedding": (
        "com.microsoft", "QEmbedLayerNormalization", "float32", {"epsilon": 1e-5},
        [numbers("int32", 2, 5) % 9, numbers("int32", 2, 5) % 2, *(numbers("uint8", rows, 8) for rows in (9, 6, 2)),
         numbers("uint8", 8), numbers("uint8", 8), np.ones((2, 5), np.int32), *[ONE] * 5, *[ZERO] * 5],
    ),
    "lstm": (
        "com.microsoft", "DynamicQuantizeLSTM", "float32", {"hidden_size": 4, "direction": "bidirectional"},
        [numbers("float32", 5, 1, 6), numbers("int8", 2, 6, 16), numbers("int8", 2, 4, 16), numbers("float32", 2, 32),
         None, None, None, None, np.full(2, 0.01, np.float32), np.zeros(2, np.int8), scales(2, 16) / 20,
         np.zeros((2, 16), np.int8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gives_what_onnx_runtime_gives(
    name: str, tmp_path: Path, save_onnx: Callable[..., Path], evaluate: Callable[..., list[np.ndarray]]
) -> None:
    domain, kind, dtype, attributes, given = CASES[name]
    arrays = {f"x{place}": np.asarray(array) for place, array in enumerate(given) if array is not None}
    # The others are weights.
    data = "x1" if kind.startswith("Gather") else next(key for key, array in arrays.items() if array.ndim > 0)
    names = [f"x{place}" if array is not None else "" for place, array in enumerate(given)]
    outputs = ["y", "counts"] if kind == "QEmbedLayerNormalization" else ["y"]
    node = helper.make_node(kind, names, outputs, domain=domain, **attributes)
    weights = {key: array for key, array in arrays.items() if key != data}
    model = save_onnx(
        [node], [(data, str(arrays[data].dtype), arrays[data].shape)], [("y", dtype, None)], weights,
        domains=[domain] if domain else [], opset=21,
    )  # fmt: skip
    inputs = {data: arrays[data]}
    np.savez(tmp_path / "inputs.npz", **inputs)
    imported = import_model(str(model), input_files=[tmp_path / "inputs.npz"])
    assert "call_dps_packed" not in imported.module.script()
    assert imported.oracle, imported.oracle_missing
    assert "onnxruntime" in imported.oracle
    (result,), expected = evaluate(imported), imported.steps[0].expected
    assert expected is not None
    assert result.shape == expected[0].shape
    if result.dtype.kind == "i":
        # What rounding decides, and that seldom.
        assert np.abs(result.astype(np.int64) - expected[0]).max() <= (1 if domain else 0)
        assert np.mean(result != expected[0]) < 0.025
    else:
        np.testing.assert_allclose(result, expected[0], rtol=1e-5, atol=1e-5)
