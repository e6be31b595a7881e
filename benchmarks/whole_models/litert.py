"""An ONNX file as LiteRT takes models: its nodes as calls of PyTorch, which litert-torch converts.

    PYTHONPATH=build/litert python -m benchmarks.whole_models.litert model.onnx inputs.npz model.tflite

A process of its own: litert-torch wants another pydantic than tapml.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnx import numpy_helper
from torch import Tensor
from torch.nn import functional

from benchmarks.whole_models.folded import attribute_of, folded

Attributes = Mapping[str, Any]


def _ints(tensor: Tensor) -> list[int]:
    return [int(value) for value in tensor.tolist()]


def _gemm(given: list[Tensor], a: Attributes) -> Tensor:
    left, right = (x.T if a.get(name) else x for x, name in zip(given[:2], ("transA", "transB"), strict=True))
    return left @ right if len(given) == 2 else left @ right + given[2]


def _reshape(given: list[Tensor], a: Attributes) -> Tensor:
    x, shape = given[0], _ints(given[1])
    return x.reshape([size or x.shape[axis] for axis, size in enumerate(shape)])


def _unsqueeze(given: list[Tensor], a: Attributes) -> Tensor:
    x = given[0]
    for axis in sorted(_ints(given[1])):
        x = x.unsqueeze(axis)
    return x


def _slice(given: list[Tensor], a: Attributes) -> Tensor:
    x = given[0]
    for start, end, axis in zip(*map(_ints, given[1:4]), strict=True):
        x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
    return x


def _conv(given: list[Tensor], a: Attributes) -> Tensor:
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    assert (top, left) == (bottom, right), "padded alike on both sides"
    bias = given[2] if len(given) > 2 else None
    return functional.conv2d(
        given[0], given[1], bias, a["strides"], (top, left), a.get("dilations", 1), a.get("group", 1)
    )


_OPERATORS: Mapping[str, Callable[[list[Tensor], Attributes], Tensor]] = {
    "Add": lambda x, a: x[0] + x[1],
    "Sub": lambda x, a: x[0] - x[1],
    "Mul": lambda x, a: x[0] * x[1],
    "Div": lambda x, a: x[0] / x[1],
    "Sigmoid": lambda x, a: torch.sigmoid(x[0]),
    "Erf": lambda x, a: torch.erf(x[0]),
    "Gather": lambda x, a: functional.embedding(x[1], x[0]),
    "MatMul": lambda x, a: x[0] @ x[1],
    "Gemm": _gemm,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Flatten": lambda x, a: x[0].flatten(1),
    "Transpose": lambda x, a: x[0].permute(a["perm"]),
    "Slice": _slice,
    "Softmax": lambda x, a: torch.softmax(x[0], a.get("axis", -1)),
    "LayerNormalization": lambda x, a: functional.layer_norm(x[0], x[1].shape, x[1], x[2], a["epsilon"]),
    "InstanceNormalization": lambda x, a: functional.instance_norm(x[0], weight=x[1], bias=x[2], eps=a["epsilon"]),
    "ReduceMean": lambda x, a: x[0].mean(a["axes"], bool(a.get("keepdims", 1))),
    "ReduceL2": lambda x, a: (x[0] * x[0]).sum(a["axes"], bool(a.get("keepdims", 1))).sqrt(),
    "GlobalAveragePool": lambda x, a: x[0].mean((2, 3), True),
    "AveragePool": lambda x, a: functional.avg_pool2d(x[0], a["kernel_shape"], a["strides"]),
    "Conv": _conv,
}
"""By ONNX's name."""


class Nodes(torch.nn.Module):
    """The graph of a file; a call takes its inputs in their order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        graph = folded(path).graph
        self._weights = {one.name: _tensor(numpy_helper.to_array(one)) for one in graph.initializer}
        self._nodes = []
        for node in graph.node:
            attributes = {one.name: attribute_of(one) for one in node.attribute}
            if node.op_type == "Constant":
                self._weights[node.output[0]] = _tensor(attributes["value"])
            else:
                self._nodes.append((_OPERATORS[node.op_type], [*node.input], node.output[0], attributes))
        self._inputs = [one.name for one in graph.input]
        self._output = graph.output[0].name

    def forward(self, *given: Tensor) -> Tensor:
        values = {**self._weights, **dict(zip(self._inputs, given, strict=True))}
        for operator, inputs, output, attributes in self._nodes:
            values[output] = operator([values[name] for name in inputs], attributes)
        return values[self._output]


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.copy())


def main(onnx: Path, inputs: Path, output: Path) -> None:
    import litert_torch

    given = tuple(
        _tensor(array.astype(np.int32) if array.dtype == np.int64 else array) for array in np.load(inputs).values()
    )
    litert_torch.convert(Nodes(onnx).eval(), given).export(str(output))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
