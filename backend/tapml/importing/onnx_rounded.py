"""Products of an ONNX model whose activations are rounded to 8 bits (activations.py), said in ONNX's own operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.files import unique
from tapml.importing.activations import LARGEST, LEAST
from tapml.importing.model import Array
from tapml.importing.onnx_tensors import subgraphs

_PRODUCTS = {"": ("MatMul", "Gemm"), "ai.onnx": ("MatMul", "Gemm"), "com.microsoft": ("FusedMatMul", "FusedGemm")}
"""By domain: operators whose first operand's rows a weight multiplies, which is the second."""

_LEAST_OPSET = 8
"""Of which Max takes operands of two shapes."""

_AXES_ARE_INPUTS = 18
"""Opset from which on ReduceMax is given its axes as an operand."""


@dataclass(frozen=True)
class Rounded:
    """What nodes of a model round, by name: what is rounded -> of what. `between`: values on the way, which nothing of
    the module stands for."""

    data: Mapping[str, str]
    between: Collection[str]


NOTHING_ROUNDED = Rounded({}, ())


def round_products(model: Any, rounds: Callable[[Array], bool], path: Path) -> Rounded:
    """Round what products are given that read a weight of which `rounds` says so, once for all that read it in one
    graph. Raises InputError for a model of an opset that cannot say it."""
    rounding = _Rounding(model, rounds)
    rounding.graph(model.graph, {})
    if rounding.data and rounding.opset < _LEAST_OPSET:
        raise InputError(
            f"{path}: --activations needs opset {_LEAST_OPSET} or later, and this is of opset {rounding.opset}: "
            "convert it with onnx.version_converter"
        )
    return Rounded(rounding.data, rounding.between)


class _Rounding:
    def __init__(self, model: Any, rounds: Callable[[Array], bool]) -> None:
        self.opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
        self.data: dict[str, str] = {}
        self.between: set[str] = set()
        self._rounds = rounds
        self._taken = {*_names(model.graph)}

    def graph(self, graph: Any, outer: Mapping[str, int]) -> None:
        """`outer`: weights of graphs around it that round, with their types."""
        weights = {**outer, **dict(self._weights(graph))}
        known: dict[str, str] = {}
        places: list[tuple[int, list[Any]]] = []
        for place, node in enumerate(graph.node):
            if node.op_type in ("Identity", "Transpose") and node.input[0] in weights:
                weights[node.output[0]] = weights[node.input[0]]
            for inner in subgraphs(node):
                self.graph(inner, weights)
            if not _multiplies(node) or (kind := weights.get(node.input[1])) is None:
                continue
            data = node.input[0]
            if data not in known:
                nodes = self._nodes(data, kind)
                places.append((place, nodes))
                known[data] = nodes[-1].output[0]
                self.data[known[data]] = data
                self.between |= {made.output[0] for made in nodes[:-1]}
            node.input[0] = known[data]
        for place, nodes in reversed(places):
            for made in reversed(nodes):
                graph.node.insert(place, made)

    def _weights(self, graph: Any) -> Iterator[tuple[str, int]]:
        for tensor in graph.initializer:
            yield from self._weight(tensor.name, tensor)
        for node in graph.node:
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        yield from self._weight(node.output[0], attribute.t)

    def _weight(self, name: str, tensor: Any) -> Iterator[tuple[str, int]]:
        from onnx import TensorProto, numpy_helper

        matrix = tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16) and len(tensor.dims) == 2
        if matrix and self._rounds(numpy_helper.to_array(tensor)):
            yield name, tensor.data_type

    def _nodes(self, data: str, kind: int) -> list[Any]:
        """`floor(x * (127 / greatest) + 0.5) * (greatest / 127)` in float32, `greatest` of a row; the last gives it."""
        from onnx import TensorProto, helper, numpy_helper

        nodes: list[Any] = []

        def add(operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
            output = unique(f"{data}.{name or operator}", self._taken.__contains__)
            self._taken.add(output)
            nodes.append(helper.make_node(operator, [*inputs], [output], output, **attributes))
            return output

        def constant(value: Any) -> str:
            return add("Constant", value=numpy_helper.from_array(np.asarray(value)))

        wide = data if kind == TensorProto.FLOAT else add("Cast", data, to=TensorProto.FLOAT)
        size = add("Abs", wide)
        if self.opset >= _AXES_ARE_INPUTS:
            most = add("ReduceMax", size, constant(np.array([-1], np.int64)), keepdims=1)
        else:
            most = add("ReduceMax", size, axes=[-1], keepdims=1)
        greatest, largest = add("Max", most, constant(np.float32(LEAST))), constant(np.float32(LARGEST))
        steps = add("Mul", wide, add("Div", largest, greatest))
        integers = add("Floor", add("Add", steps, constant(np.float32(0.5))))
        scale = add("Div", greatest, largest)
        if kind == TensorProto.FLOAT:
            add("Mul", integers, scale, name="rounded")
        else:
            add("Cast", add("Mul", integers, scale), name="rounded", to=kind)
        return nodes


def _multiplies(node: Any) -> bool:
    """Whether it sums along the last axis of its first operand, and that of nothing but this operand: Gemm's alpha is
    multiplied by first."""
    if node.op_type not in _PRODUCTS.get(node.domain, ()):
        return False
    given = {attribute.name: attribute for attribute in node.attribute}
    turned = any(given[name].i for name in ("transA", "transBatchA") if name in given)
    return not turned and not (node.op_type == "Gemm" and "alpha" in given and given["alpha"].f != 1)


def _names(graph: Any) -> Iterator[str]:
    """Of all values and nodes."""
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (node.name, *node.output)
        for inner in subgraphs(node):
            yield from _names(inner)
