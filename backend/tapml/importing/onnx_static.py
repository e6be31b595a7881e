"""Fix an ONNX model to the shapes of its inputs: everything that depends on shapes alone becomes a
constant.

Exports with dynamic axes compute shapes inside the graph (Shape, Gather, Concat, Reshape...).
TVM's importer needs such shapes to be constants when it meets their consumers. Here they are found
by following what depends on the inputs' values, and computed by running the model once, without
TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapml.importing.model import Array, Progress
from tapml.importing.onnx_run import drop_unused, read_by, values

_FLOATS = {1, 10, 11, 16}
"""TensorProto's float, float16, double, bfloat16."""

_SHAPED_BY = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Operators whose output's shape depends on the values of the operands named here."""

_SHAPED_BY_ALL = {
    "Compress",
    "NonMaxSuppression",
    "NonZero",
    "Unique",
    "If",
    "Loop",
    "Scan",
    "StringNormalizer",
}
"""Operators whose output's shape depends on the values of any operand."""

_RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


def fix_shapes(model: Any, folder: Path, inputs: Mapping[str, Array], progress: Progress) -> None:
    """Change `model` in place: values that depend on input shapes only become initializers of the
        same name.

    Weights (floats that are no scalars) count as data: what is computed from them stays computed.
    Raises InputError where the model cannot be run.
    """
    from onnx import numpy_helper

    frontier = _frontier(model.graph)
    if frontier:
        progress(f"computing {len(frontier)} values that depend on shapes only")
        arrays = values(model, folder, frontier, inputs)
        chosen = set(frontier)
        nodes = [node for node in model.graph.node if not chosen.intersection(node.output)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        for name, array in zip(frontier, arrays, strict=True):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    drop_unused(model.graph)


def _frontier(graph: Any) -> list[str]:
    """The computed values that depend on shapes only and are read by something that depends on
    more.
    """
    weights = {t.name for t in graph.initializer if t.data_type in _FLOATS and len(t.dims) > 0}
    # Names whose values, and whose shapes, depend on data.
    by_value = {value.name for value in graph.input} - {t.name for t in graph.initializer} | weights
    by_shape: set[str] = set()
    produced: set[str] = set()
    for node in graph.node:
        shape = _shape_depends(node, by_value, by_shape)
        if shape:
            by_shape.update(node.output)
        if shape or _value_depends(node, by_value) or not _whole(node):
            by_value.update(node.output)
        else:
            produced.update(node.output)
    read = {output.name for output in graph.output}
    for node in graph.node:
        if by_value.intersection(node.output):
            read |= read_by(node)
    # A node of several outputs goes or stays as one.
    frontier: list[str] = []
    for node in graph.node:
        if produced.intersection(node.output) and read.intersection(node.output):
            frontier += [name for name in node.output if name]
    return frontier


def _shape_depends(node: Any, by_value: set[str], by_shape: set[str]) -> bool:
    names = read_by(node)
    if names & by_shape:
        return True
    if node.op_type in _SHAPED_BY_ALL:
        return bool(names & by_value)
    positions = _SHAPED_BY.get(node.op_type, ())
    return any(node.input[i] in by_value for i in positions if i < len(node.input) and node.input[i])


def _value_depends(node: Any, by_value: set[str]) -> bool:
    if node.op_type in ("Shape", "Size"):
        return False
    return node.op_type in _RANDOM or bool(read_by(node) & by_value)


def _whole(node: Any) -> bool:
    """Whether the node's results can be stored: a Constant that is a weight stays where it is."""
    if node.op_type != "Constant":
        return True
    tensor = next((a.t for a in node.attribute if a.name == "value"), None)
    return tensor is None or tensor.data_type not in _FLOATS or len(tensor.dims) == 0
