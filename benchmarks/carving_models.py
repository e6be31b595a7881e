"""Models of the kinds that browsers run, with made-up weights: a classifier of images, a recogniser of text, a UNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class _Graph:
    """Nodes one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        scale = 1.0 / np.sqrt(max(1, np.prod(shape[1:])))
        array = (self._random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]

    def conv(self, x: str, channels: int, to: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        weight, bias = self.weight(to, channels // group, kernel, kernel), self.weight(to)
        pads = [kernel // 2] * 4
        return self.add(
            "Conv", x, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group
        )

    def swish(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def save(self, path: Path, shape: list[int], output: str) -> str:
        value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, path.stem, [value], [onnx.ValueInfoProto(name=output)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return str(path)


def classifier(path: Path, size: int = 224) -> str:
    """As EfficientNet: inverted bottlenecks with squeeze and excitation, an average over everything at the end by a
    kernel that is larger than what is left."""
    graph = _Graph()
    x, channels = graph.swish(graph.conv("x", 3, 16, stride=2)), 16
    for to, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1), (112, 1), (192, 2)):
        wide = graph.swish(graph.conv(x, channels, 4 * channels, 1))
        wide = graph.swish(graph.conv(wide, 4 * channels, 4 * channels, 3, stride, 4 * channels))
        squeezed = graph.swish(graph.conv(graph.add("GlobalAveragePool", wide), 4 * channels, 8, 1))
        wide = graph.add("Mul", wide, graph.add("Sigmoid", graph.conv(squeezed, 8, 4 * channels, 1)))
        y = graph.conv(wide, 4 * channels, to, 1)
        x, channels = graph.add("Add", x, y) if to == channels and stride == 1 else y, to
    left = size // 32
    pooled = graph.add("AveragePool", x, kernel_shape=[left] * 2, strides=[left] * 2)
    flat = graph.add("Flatten", pooled)
    return graph.save(
        path, [1, 3, size, size], graph.add("Gemm", flat, graph.weight(1000, 192), graph.weight(1000), transB=1)
    )


def recogniser(path: Path) -> str:
    """As CRNN: convolutions over a line of text, then a recurrence in both directions over its columns."""
    graph = _Graph()
    x, channels = "x", 1
    for to, pool in ((32, [2, 2]), (64, [2, 2]), (128, [2, 1]), (128, [2, 1])):
        x, channels = graph.add("Relu", graph.conv(x, channels, to)), to
        x = graph.add("MaxPool", x, kernel_shape=pool, strides=pool)
    x = graph.add("ReduceMean", x, axes=[2], keepdims=0)
    x = graph.add("Transpose", x, perm=[2, 0, 1])
    hidden = 64
    weights = graph.weight(2, 4 * hidden, channels), graph.weight(2, 4 * hidden, hidden), graph.weight(2, 8 * hidden)
    y = graph.add("LSTM", x, *weights, hidden_size=hidden, direction="bidirectional")
    y = graph.add("Transpose", y, perm=[0, 2, 1, 3])
    y = graph.add("Reshape", y, graph.constant(np.array([0, 0, -1], np.int64)))
    y = graph.add("MatMul", y, graph.weight(2 * hidden, 97))
    return graph.save(path, [1, 1, 32, 160], graph.add("Softmax", y, axis=-1))


def unet(path: Path) -> str:
    """As in diffusion: down and up again with normalised convolutions, what was before beside what comes back."""
    graph = _Graph()

    def block(x: str, channels: int, to: int) -> str:
        groups = graph.add("Reshape", x, graph.constant(np.array([0, 8, -1], np.int64)))
        ones = graph.constant(np.ones(8, np.float32)), graph.constant(np.zeros(8, np.float32))
        normal = graph.add("InstanceNormalization", groups, *ones)
        shaped = graph.add("Reshape", normal, graph.add("Shape", x))
        return graph.conv(graph.swish(shaped), channels, to)

    sizes = [32, 64, 64]
    x, channels, kept = graph.conv("x", 4, 32), 32, []
    for to in sizes:
        x, channels = block(x, channels, to), to
        kept.append((x, channels))
        x = graph.conv(x, channels, channels, stride=2)
    x = block(x, channels, channels)
    for skipped, width in reversed(kept):
        scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
        x = graph.add("Resize", x, "", scales, mode="nearest")
        x = block(graph.add("Concat", x, skipped, axis=1), channels + width, width)
        channels = width
    return graph.save(path, [1, 4, 64, 64], graph.conv(x, channels, 4))


def small(path: Path) -> str:
    """An operator of each kind that the others have, and those of benchmarks/onnx_models, on next to nothing: also what
    they have on one point of an image (squeeze and excitation), which is scheduled as a matrix and a vector."""
    graph = _Graph()
    x = graph.swish(graph.conv("x", 4, 8))
    x = graph.add("MaxPool", graph.conv(x, 8, 8, group=8), kernel_shape=[2, 2], strides=[2, 2])
    x = graph.add("Resize", x, "", graph.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    x = graph.add("Concat", x, graph.add("Relu", graph.conv(x, 8, 8, 1)), axis=1)
    squeezed = graph.add("Relu", graph.conv(graph.add("GlobalAveragePool", x), 16, 8, 1))
    x = graph.add("Mul", x, graph.add("Sigmoid", graph.conv(squeezed, 8, 16, 1)))
    x = graph.add("Slice", x, *(graph.constant(np.array([number], np.int64)) for number in (0, 8, 1)))
    x = graph.add("Reshape", x, graph.add("Slice", graph.add("Shape", x), *map(graph.constant, _FIRST_AXES)))
    x = graph.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = graph.add("InstanceNormalization", x, graph.weight(8), graph.weight(8))
    x = graph.add("Add", x, graph.add("ReduceMean", x, axes=[2, 3], keepdims=1))
    x = graph.add("Transpose", graph.add("Reshape", x, graph.constant(np.array([8, 1, 16], np.int64))), perm=[2, 1, 0])
    weights = graph.weight(2, 16, 8), graph.weight(2, 16, 4), graph.weight(2, 32)
    x = graph.add("LSTM", x, *weights, hidden_size=4, direction="bidirectional")
    x = graph.add("Reshape", x, graph.constant(np.array([16, 8], np.int64)))
    x = graph.add("Gemm", x, graph.weight(8, 8), graph.weight(8), transB=1)
    x = graph.add("Add", graph.add("MatMul", x, graph.weight(8, 8)), graph.weight(8))
    return graph.save(path, [1, 4, 8, 8], graph.add("Softmax", x, axis=-1))


_FIRST_AXES = np.array([0], np.int64), np.array([4], np.int64)


def made(folder: Path) -> list[str]:
    """Files of them in `folder`, and MiniLM."""
    makers = {"classifier": classifier, "recogniser": recogniser, "unet": unet}
    return ["minilm", *(make(folder / f"{name}.onnx") for name, make in makers.items())]
