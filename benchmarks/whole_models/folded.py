"""An ONNX file of fixed sizes, without what is the same at every call."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper


def folded(path: Path) -> Any:
    """The model as ONNX Runtime has it behind its basic optimisations: of the standard's own operators."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/folded.onnx"
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def attribute_of(one: Any) -> Any:
    """A number, a text, a list of numbers, or an array."""
    value = onnx.helper.get_attribute_value(one)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value.decode() if isinstance(value, bytes) else value
