"""An ONNX file as TensorFlow.js takes it here: its nodes as JSON, its weights in one file, convolutions' as tfjs has
them (height, width, inputs, outputs). `pages/tfjs.js` calls an operator of tfjs for each node.

There is no converter from ONNX to tfjs without TensorFlow. ONNX Runtime folds constants before.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

_WORDS = {np.dtype(np.float32): "float32", np.dtype(np.int32): "int32"}


def write_graph(path: Path, folder: Path) -> None:
    """Write tfjs.json and tfjs.bin. Raises ValueError for a convolution that tfjs has not."""
    graph = _folded(path).graph
    weights = {one.name: _narrowed(numpy_helper.to_array(one)) for one in graph.initializer}
    nodes = []
    for node in graph.node:
        attributes = {one.name: _attribute(one) for one in node.attribute}
        inputs = [*node.input]
        if node.op_type == "Constant":
            weights[node.output[0]] = _narrowed(attributes["value"])
            continue
        if node.op_type == "Conv":
            # One weight may be that of several nodes.
            inputs[1] = f"{node.input[1]} of {attributes.get('group', 1)}"
            weights[inputs[1]] = _turned(weights[node.input[1]], attributes.get("group", 1))
        nodes.append([node.op_type, inputs, [*node.output], attributes])
    read = {name for _, inputs, _, _ in nodes for name in inputs}
    weights = {name: array for name, array in weights.items() if name in read}
    found, content = {}, bytearray()
    for name, array in weights.items():
        found[name] = [_WORDS[array.dtype], array.shape, len(content)]
        content += np.ascontiguousarray(array).tobytes()
    (folder / "tfjs.bin").write_bytes(content)
    (folder / "tfjs.json").write_text(json.dumps({"nodes": nodes, "weights": found}))


def _folded(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/folded.onnx"
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def _turned(weight: np.ndarray, group: int) -> np.ndarray:
    """Of a convolution."""
    if group == 1:
        return weight.transpose(2, 3, 1, 0)
    outputs, inputs, high, wide = weight.shape
    if inputs != 1:
        raise ValueError(f"tfjs has no convolution of {group} groups of {inputs} channels")
    return weight.transpose(2, 3, 0, 1).reshape(high, wide, group, outputs // group)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Sizes and places fit into int32; the ends of slices that are as large as can be are cut."""
    return np.clip(array, -(2**31), 2**31 - 1).astype(np.int32) if array.dtype == np.int64 else array


def _attribute(one: Any) -> Any:
    value = onnx.helper.get_attribute_value(one)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value.decode() if isinstance(value, bytes) else value
