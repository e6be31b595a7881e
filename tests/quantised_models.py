"""Models whose weights are quantised: ONNX files, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, INNER, OUT = 50, 45, 67, 33
"""None of them is a multiple of a group, or of a word's numbers."""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(0.2)


def saved(
    path: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray],
    dtype: int = TensorProto.FLOAT,
) -> Path:
    """`inputs`: dtype (of TensorProto) and shape of each; `dtype`: of the outputs."""
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, *found) for name, found in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def language_model(path: Path) -> Path:
    """Tokens `ids` int32 [1, tokens] to `logits`: a tied table, weights that lie both ways, a bias, GELU, a residual,
    and what stays: a vector, a small matrix, a weight of which an element is read, too."""
    table = normal(WORDS, WIDTH)
    weights = {
        "table": table,
        "up": normal(WIDTH, INNER, seed=1),
        "down.bias": normal(WIDTH, seed=2),
        "down": normal(WIDTH, INNER, seed=3),
        "small": normal(WIDTH, 8, seed=4),
        "small.up": normal(8, WIDTH, seed=5),
        "read": normal(WIDTH, WIDTH, seed=6),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "ids"], ["x"]),
        node("MatMul", ["x", "up"], ["wide"]),
        node("Gelu", ["wide"], ["gelu"]),
        node("Transpose", ["down"], ["down.T"]),
        node("MatMul", ["gelu", "down.T"], ["narrow"]),
        node("Add", ["narrow", "down.bias"], ["biased"]),
        node("Add", ["biased", "x"], ["y"]),
        node("MatMul", ["y", "small"], ["low"]),
        node("MatMul", ["low", "small.up"], ["adapted"]),
        node("MatMul", ["adapted", "read"], ["mixed"]),
        node("ReduceMax", ["read"], ["most"], keepdims=0),
        node("Mul", ["mixed", "most"], ["scaled"]),
        node("Transpose", ["table"], ["table.T"]),
        node("MatMul", ["scaled", "table.T"], ["logits"]),
    ]
    return saved(path, nodes, {"ids": (TensorProto.INT32, (1, "tokens"))}, ["logits"], weights)


def tokens(path: Path, *lengths: int) -> list[Path]:
    """Files of inputs of so many tokens."""
    files = []
    for length in lengths:
        files.append(path / f"ids{length}.npz")
        np.savez(files[-1], ids=np.random.default_rng(length).integers(0, WORDS, (1, length)).astype(np.int32))
    return files
