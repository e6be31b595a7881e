"""Small models with what mutants need: constants in formulas, attributes, masks, normalizations, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

BLOCKS = ("diffusion", "efficientnet", "inception", "mobilenetv3", "shifted windows", "unet", "wavenet", "yolo")
"""Of the benchmark of torch programs."""


class _Graph:
    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self._random = np.random.default_rng(0)
        self._inputs = inputs
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self._weights)}"))
        return f"c{len(self._weights) - 1}"

    def weight(self, *shape: int) -> str:
        scale = 1.0 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant(self._random.standard_normal(shape) * scale)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], f"n{len(self._nodes)}", **attributes))
        return name

    def save(self, folder: Path, *outputs: str) -> tuple[Path, Path]:
        values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in self._inputs.items()]
        given = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self._nodes, "model", values, given, self._weights)
        opset = helper.make_opsetid("", 20)
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), folder / "model.onnx")
        arrays = {name: self._random.standard_normal(shape) for name, shape in self._inputs.items()}
        np.savez(folder / "inputs.npz", **{name: array.astype(np.float32) for name, array in arrays.items()})
        return folder / "model.onnx", folder / "inputs.npz"


def _transformer(folder: Path) -> tuple[Path, Path]:
    """GELU written out, masked attention with square heads, layer norms as an operator and written out."""
    graph = _Graph(x=(16, 64))
    add, constant = graph.add, graph.constant
    x = add("LayerNormalization", "x", graph.weight(64), graph.weight(64), epsilon=1e-5)
    query, key, value = (
        add("Transpose", add("Reshape", add("MatMul", x, graph.weight(64, 64)), constant([16, 4, 16], np.int64)),
            perm=[1, 0, 2]) for _ in range(3)
    )  # fmt: skip
    scores = add("Mul", add("MatMul", query, add("Transpose", key, perm=[0, 2, 1])), constant(0.25))
    masked = add("Add", scores, constant(np.triu(np.full((16, 16), -1e9), 1)))
    context = add("Transpose", add("MatMul", add("Softmax", masked, axis=-1), value), perm=[1, 0, 2])
    joined = add("Reshape", context, constant([16, 64], np.int64))
    attended = add("Add", add("MatMul", joined, graph.weight(64, 64)), x)
    mean = add("Mul", add("ReduceSum", attended, constant([-1], np.int64)), constant(1 / 64))
    centred = add("Sub", attended, mean)
    variance = add("ReduceMean", add("Mul", centred, centred), constant([-1], np.int64))
    normal = add("Div", centred, add("Sqrt", add("Add", variance, constant(1e-5))))
    wide = add("Gemm", normal, graph.weight(64, 128), graph.weight(128), alpha=1.0, beta=1.0)
    inner = add("Mul", add("Add", add("Mul", add("Mul", wide, add("Mul", wide, wide)), constant(0.044715)), wide),
                constant(math.sqrt(2 / math.pi)))  # fmt: skip
    gelu = add("Mul", add("Mul", wide, constant(0.5)), add("Add", add("Tanh", inner), constant(1.0)))
    deep = add("Add", add("MatMul", gelu, graph.weight(128, 64)), normal)
    last = add("LayerNormalization", deep, graph.weight(64), graph.weight(64), epsilon=1e-5)
    return graph.save(folder, add("Gelu", last, approximate="tanh"))


def _convolutional(folder: Path) -> tuple[Path, Path]:
    """Norms of three kinds between activations with attributes."""
    graph = _Graph(x=(1, 4, 13, 13))
    add = graph.add
    x = add("Conv", "x", graph.weight(8, 4, 3, 3), graph.weight(8), pads=[1, 1, 1, 1], strides=[1, 1])
    variance = graph.constant(np.abs(np.random.default_rng(1).standard_normal(8)) + 0.5)
    x = add("BatchNormalization", x, graph.weight(8), graph.weight(8), graph.weight(8), variance, epsilon=1e-3)
    x = add("LeakyRelu", x, alpha=0.1)
    x = add("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], count_include_pad=0)
    x = add("InstanceNormalization", x, graph.weight(8), graph.weight(8), epsilon=1e-3)
    x = add("Elu", x, alpha=0.7)
    x = add("LRN", x, size=3, alpha=0.01, beta=0.75, bias=1.0)
    x = add("Conv", x, graph.weight(8, 1, 3, 3), group=8, dilations=[2, 2], pads=[2, 2, 2, 2])
    x = add("HardSigmoid", x, alpha=0.2, beta=0.5)
    x = add("Selu", add("Sub", x, graph.constant(0.61)), alpha=1.6732632, gamma=1.0507009)
    x = add("Celu", x, alpha=1.3)
    x = add("ThresholdedRelu", x, alpha=0.05)
    pooled = add("Flatten", add("GlobalAveragePool", x))
    return graph.save(folder, add("Gemm", pooled, graph.weight(10, 8), graph.weight(10), transB=1, alpha=1.5, beta=0.5))


def _arithmetic(folder: Path) -> tuple[Path, Path]:
    """Rounding, remainders, sums along axes, divisors."""
    graph = _Graph(x=(12, 12), y=(12, 12))
    add, constant = graph.add, graph.constant
    steps = add("Floor", add("Mul", "x", constant(3.7)))
    evened = add("Round", add("Mul", "y", constant(2.3)))
    total = add("CumSum", add("Add", steps, "y"), constant(1, np.int64), exclusive=1, reverse=0)
    moved = add("Add", add("Transpose", total, perm=[1, 0]), evened)
    shares = add("LogSoftmax", moved, axis=1)
    clipped = add("Clip", shares, constant(-20.0), constant(-0.01))
    mean = add("ReduceMean", clipped, constant([0], np.int64), keepdims=1)
    norm = add("LpNormalization", add("Div", add("Sub", clipped, mean), constant(11.0)), axis=-1, p=2)
    wrapped = add("Mod", "y", add("Add", add("Abs", "x"), constant(0.5)), fmod=1)
    power = add("Pow", add("Abs", wrapped), constant(0.75))
    softplus = add("Log", add("Add", add("Exp", add("Mul", norm, constant(1.0884))), constant(1.0)))
    lower = add("Trilu", softplus, constant(0, np.int64), upper=0)
    erf = add("Erf", add("Div", lower, constant(math.sqrt(2))))
    return graph.save(folder, add("Add", erf, power), add("ReduceLogSumExp", norm, constant([1], np.int64)))


def _quantized(folder: Path) -> tuple[Path, Path]:
    """To integers and back, by each side's scales."""
    graph = _Graph(x=(16, 32))
    add, constant = graph.add, graph.constant
    zero, scale = constant(128, np.uint8), constant(0.0247)
    x = add("DequantizeLinear", add("QuantizeLinear", "x", scale, zero), scale, zero)
    weights = constant(np.random.default_rng(2).integers(-127, 127, (32, 24)), np.int8)
    scales = constant(np.linspace(0.004, 0.009, 24))
    weight = add("DequantizeLinear", weights, scales, constant(np.zeros(24), np.int8), axis=1)
    y = add("MatMul", x, weight)
    second = constant(0.0513)
    y = add("DequantizeLinear", add("QuantizeLinear", y, second, zero), second, zero)
    return graph.save(folder, add("Softmax", add("Mul", y, constant(0.1768)), axis=-1))


ONNX: Mapping[str, Callable[[Path], tuple[Path, Path]]] = {
    "transformer": _transformer,
    "convolutional": _convolutional,
    "arithmetic": _arithmetic,
    "quantized": _quantized,
}
