"""Operators that ONNX Runtime's optimizer and its exporters write: what they give is what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapml.importing import import_model

Array = np.ndarray


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def integers(most: int, *shape: int, dtype: str = "int64", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, most, shape).astype(dtype)


def turns(length: int, half: int) -> list[Array]:
    """Cosines and sines of places."""
    angles = np.arange(length)[:, None] / 10.0 ** (np.arange(half) / half)
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


X, IMAGE = floats(2, 5, 12), floats(2, 3, 7, 8)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
PAST = floats(2, 2, 3, 4, 4, seed=3)
"""Keys and values of 4 places before, of 3 heads of 4."""
WEIGHTS = [floats(12, 36, seed=1) / 3, floats(36, seed=2)]
CACHE = [floats(2, 1, 8, 16, seed=3), floats(2, 1, 8, 16, seed=4)]
QKV = [floats(2, 1, 48), floats(2, 1, 16, seed=1), floats(2, 1, 16, seed=2)]
"""Three heads of queries, one of keys and values."""
LAST = [np.array([4, 7], np.int32), np.array(8, np.int32)]
"""The last place of each sequence, and how many there are at most."""
ONE = [tensor[:1] for tensor in (floats(2, 2, 48), floats(2, 2, 16, seed=1), floats(2, 2, 16, seed=2), *CACHE)]
SIZES = {"num_heads": 3, "kv_num_heads": 1}

Given = Sequence[Array | None]
CASES: dict[str, tuple[str, dict[str, Any], int, Given]] = {
    "gelu": ("Gelu", {}, 1, [X]),
    "gelu of a sum": ("BiasGelu", {}, 1, [X, floats(12)]),
    "gelu by tanh": ("FastGelu", {}, 1, [X, floats(12)]),
    "gelu by sigmoid": ("QuickGelu", {"alpha": 1.5}, 1, [X]),
    "conv": (
        "FusedConv", {"activation": "LeakyRelu", "activation_params": [0.3], "pads": [1, 0, 2, 1], "strides": [2, 1]},
        1, [IMAGE, floats(4, 3, 3, 2), floats(4)],
    ),
    "conv and sum": (
        "FusedConv", {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "auto_pad": "SAME_UPPER"},
        1, [IMAGE, floats(4, 3, 3, 2) / 3, floats(4), floats(2, 4, 7, 8)],
    ),
    "depthwise": (
        "FusedConv", {"activation": "Clip", "activation_params": [-1.0, 1.5], "group": 3},
        1, [IMAGE, floats(3, 1, 3, 3)],
    ),
    "gemm": (
        "FusedGemm", {"activation": "Relu", "transB": 1, "alpha": 0.5, "beta": 2.0}, 1,
        [X[0], floats(7, 12), floats(7)],
    ),
    "matmul": ("FusedMatMul", {"transB": 1, "alpha": 0.25}, 1, [X, floats(2, 7, 12)]),
    "matmul of batches": (
        "FusedMatMul", {"transBatchA": 1, "transA": 1, "transBatchB": 1}, 1,
        [floats(4, 2, 3, 5), floats(4, 2, 3, 6)],
    ),
    "transposed": ("TransposeMatMul", {"transA": 1}, 1, [X, X]),
    "codes": (
        "MatMulBnb4", {"K": 32, "N": 6, "block_size": 16, "quant_type": 1}, 1,
        [floats(3, 32), integers(256, 96, dtype="uint8"), floats(12)],
    ),
    "codes of floats": (
        "MatMulBnb4", {"K": 32, "N": 6, "block_size": 16, "quant_type": 0}, 1,
        [floats(3, 32), integers(256, 96, dtype="uint8"), floats(12)],
    ),
    "sum, normalized": (
        "SkipLayerNormalization", {"epsilon": 1e-5}, 4,
        [X, floats(2, 5, 12, seed=1), floats(12), floats(12), floats(12)],
    ),
    "sum of one row, normalized": ("SkipLayerNormalization", {}, 1, [X, floats(1, 5, 12, seed=1), floats(12)]),
    "sum, by its root": (
        "SkipSimplifiedLayerNormalization", {"epsilon": 1e-5}, 4, [X, floats(2, 5, 12, seed=1), floats(12)],
    ),
    "embedding": (
        "EmbedLayerNormalization", {"epsilon": 1e-5}, 3,
        [integers(9, 2, 5, dtype="int32"), integers(2, 2, 5, dtype="int32"), floats(9, 12), floats(6, 12),
         floats(2, 12), floats(12), floats(12), MASK],
    ),
    "embedding without segments": (
        "EmbedLayerNormalization", {}, 2,
        [integers(9, 2, 5, dtype="int32"), None, floats(9, 12), floats(6, 12), None, floats(12), floats(12), None,
         integers(6, 2, 5, dtype="int32", seed=1)],
    ),
    "pool, channels last": (
        "NhwcMaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, 1,
        [integers(256, 2, 7, 8, 3, dtype="uint8")],
    ),
    # Attention
    "attention": ("Attention", {"num_heads": 3}, 1, [X, *WEIGHTS]),
    "masked": ("Attention", {"num_heads": 3, "scale": 0.3}, 1, [X, *WEIGHTS, MASK]),
    "ends": ("Attention", {"num_heads": 3}, 1, [X, *WEIGHTS, np.array([3, 5], np.int32)]),
    "ends and begins": ("Attention", {"num_heads": 3}, 1, [X, *WEIGHTS, np.array([4, 5, 1, 0], np.int32)]),
    "mask of each": (
        "Attention", {"num_heads": 3, "mask_filter_value": -50.0}, 1,
        [X, *WEIGHTS, integers(2, 2, 5, 5, dtype="int32")],
    ),
    "causal, past": (
        "Attention", {"num_heads": 3, "unidirectional": 1}, 2,
        [X, *WEIGHTS, None, PAST],
    ),
    "biased": ("Attention", {"num_heads": 3}, 1, [X, *WEIGHTS, MASK, None, floats(1, 3, 5, 5, seed=5)]),
    "wide values": (
        "Attention", {"num_heads": 3, "qkv_hidden_sizes": [12, 12, 6]}, 1, [X, floats(12, 30), floats(30)],
    ),
    "heads": (
        "MultiHeadAttention", {"num_heads": 3}, 1,
        [X, floats(2, 4, 12, seed=1), floats(2, 4, 6, seed=2), floats(30), MASK[:, 1:]],
    ),
    "heads, past": (
        "MultiHeadAttention", {"num_heads": 3, "unidirectional": 1}, 3,
        [X, X[::-1].copy(), floats(2, 5, 12, seed=2), None, None, floats(1, 3, 5, 9), PAST[0], PAST[1]],
    ),
    "heads of others": (
        "MultiHeadAttention", {"num_heads": 3}, 1, [X, floats(2, 3, 4, 4, seed=1), floats(2, 3, 4, 4, seed=2)],
    ),
    "turned": (
        "RotaryEmbedding", {}, 1, [X, integers(9, 2, 5), *turns(9, 2)],
    ),
    "turned by heads": (
        "RotaryEmbedding", {"interleaved": 1}, 1, [floats(2, 3, 5, 4), np.array([3], np.int64), *turns(9, 2)],
    ),
    "turned in part": (
        "RotaryEmbedding", {"num_heads": 2, "rotary_embedding_dim": 4}, 1,
        [X, integers(9, 2, 5), *turns(9, 2)],
    ),
    "groups": (
        "GroupQueryAttention", {**SIZES, "local_window_size": 3, "do_rotary": 1}, 3,
        [floats(2, 5, 48), floats(2, 5, 16, seed=1), floats(2, 5, 16, seed=2), None, None, np.array([4, 4], np.int32),
         np.array(5, np.int32), *turns(9, 8)],
    ),
    "groups, a cache": ("GroupQueryAttention", {**SIZES, "do_rotary": 1}, 3, [*QKV, *CACHE, *LAST, *turns(9, 8)]),
    "groups, a cache that grows": (
        "GroupQueryAttention", {**SIZES, "do_rotary": 1, "rotary_interleaved": 1, "local_window_size": 3}, 3,
        [*ONE, np.array([9], np.int32), np.array(10, np.int32), *turns(12, 8)],
    ),
    "groups, packed": (
        "GroupQueryAttention", {**SIZES, "softcap": 2.0, "scale": 0.7}, 3,
        [floats(2, 1, 80), None, None, *CACHE, *LAST],
    ),
    "groups, a sink": (
        "GroupQueryAttention", {**SIZES, "softcap": 2.0}, 3,
        [*QKV, *CACHE, *LAST, None, None, None, floats(2, 3, 1, 8), floats(3)],
    ),
    "groups, smooth": ("GroupQueryAttention", {**SIZES, "smooth_softmax": 1}, 3, [*QKV, *CACHE, *LAST]),
    # In ONNX's own domain.
    "by its root": ("SimplifiedLayerNormalization", {"epsilon": 1e-6, "axis": -1}, 1, [X, floats(12)]),
}  # fmt: skip

COMPUTED = {
    "ends", "ends and begins", "masked", "mask of each", "embedding", "embedding without segments", "groups",
    "groups, a cache", "groups, a cache that grows", "groups, packed", "groups, a sink", "turned", "turned by heads",
}  # fmt: skip
"""Cases whose operands of integers are inputs, too: but for total_sequence_length, which is a shape."""


@pytest.mark.parametrize("name", CASES)
def test_gives_what_onnx_runtime_gives(
    name: str, tmp_path: Path, save_onnx: Callable[..., Path], evaluate: Callable[..., list[Array]]
) -> None:
    kind, attributes, outputs, given = CASES[name]
    arrays = {f"x{place}": array for place, array in enumerate(given) if array is not None}
    domain = "" if kind.startswith("Simplified") else "com.microsoft"
    # The others are weights.
    whole = {key for key, array in arrays.items() if array.dtype.kind in "iu" and array.ndim}
    inputs = {"x0", *(whole if name in COMPUTED else ())}
    if kind in ("Attention", "MultiHeadAttention", "GroupQueryAttention", "FusedMatMul"):
        inputs = {key for key, array in arrays.items() if array.ndim}
    made = [f"y{place}" if outputs < 4 or place in (0, 3) else "" for place in range(outputs)]
    names = [f"x{place}" if array is not None else "" for place, array in enumerate(given)]
    node = helper.make_node(kind, names, made, domain=domain, **attributes)
    model = save_onnx(
        [node],
        [(key, str(arrays[key].dtype), arrays[key].shape) for key in sorted(inputs)],
        [(output, _dtype(kind, output), None) for output in made if output],
        {key: array for key, array in arrays.items() if key not in inputs},
        domains=[domain] if domain else [], opset=21,
    )  # fmt: skip
    np.savez(tmp_path / "inputs.npz", **{key: arrays[key] for key in inputs})
    imported = import_model(str(model), input_files=[tmp_path / "inputs.npz"])
    assert "call_dps_packed" not in imported.module.script()
    assert imported.oracle, imported.oracle_missing
    assert "onnxruntime" in imported.oracle
    expected = imported.steps[0].expected
    assert expected is not None
    for result, wanted in zip(evaluate(imported), expected, strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)


def _dtype(kind: str, output: str) -> str:
    if kind.startswith("Nhwc"):
        return "uint8"
    return "int32" if kind.startswith("Embed") and output == "y1" else "float32"
