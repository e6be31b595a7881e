"""Converters that replace some of TVM's PyTorch importer's own.

Besides those of arithmetic, of indexing and of resizing: its matrix products and convolutions always give float32,
so that a float16 model no longer fits together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.importing import activations, cached_attention, most_likely, safe_softmax
from tapml.importing.model import Functions
from tapml.importing.sizes import Bounds
from tapml.importing.torch_arithmetic import Converter, arithmetic, as_tensor
from tapml.importing.torch_complex import FORMULAS
from tapml.importing.torch_indexing import indexing
from tapml.importing.torch_program import ProgramImporter
from tapml.importing.torch_resize import resizing


def converters(bounds: Bounds) -> dict[str, Converter]:
    """By the operator's name as the importer spells it; `bounds`: least and most of each symbol."""
    products: dict[str, Converter] = dict.fromkeys(("bmm.default", "matmul.default", "mm.default"), _matmul)
    return {
        **arithmetic(),
        **indexing(bounds),
        **resizing(),
        **products,
        **cached_attention.converters(),
        **most_likely.converters(),
        **activations.converters(),
        **safe_softmax.converters(),
        "addmm.default": _addmm,
        "baddbmm.default": _addmm,
        "cond": _both_branches,
        "convolution.default": _convolution,
        "empty.memory_format": _empty,
        "native_group_norm.default": _group_norm,
        "view.default": _reshape,
        "reshape.default": _reshape,
    }


def known(functions: Functions) -> Callable[[str], bool]:
    """Whether there is a converter for an operator, as the importer spells its name, or a function that computes it."""
    found = {*converters({}), *ProgramImporter({}, functions).theirs}
    return lambda name: name in found or name.partition(".")[0] in {*functions, *FORMULAS}


def _matmul(node: Any, importer: Any) -> Any:
    left, right = (importer.env[argument] for argument in node.args)
    return importer.block_builder.emit(op.matmul(left, right))


def _addmm(node: Any, importer: Any) -> Any:
    """beta * bias + alpha * (left @ right)."""
    emit = importer.block_builder.emit
    bias, left, right = (importer.env[argument] for argument in node.args)
    product = _scaled(importer, emit(op.matmul(left, right)), node.kwargs.get("alpha", 1))
    beta = node.kwargs.get("beta", 1)
    return product if beta == 0 else emit(op.add(product, _scaled(importer, bias, beta)))


def _convolution(node: Any, importer: Any) -> Any:
    """TVM's own gives float32, and adds a bias as it is: here as float32, for PyTorch rounds once. It has no transposed
    one of three axes."""
    bias, outside = node.args[2], importer.env
    if node.args[6] and outside[node.args[0]].ty.ndim == 5:
        return _transposed_volumes(node, importer)
    if bias is None or str(outside[bias].ty.dtype) == "float32":
        return importer.as_tvm(node)
    importer.env = {**outside, bias: None}
    try:
        made = importer.as_tvm(node)
    finally:
        importer.env = outside
    # Reshaped as it lies, so that the cast is part of the kernel.
    added = op.reshape(outside[bias], (1, -1, *(1 for _ in made.ty.shape.values[2:])))
    return importer.block_builder.emit(op.add(made, op.astype(added, str(made.ty.dtype))))


def _transposed_volumes(node: Any, importer: Any) -> Any:
    data, weight, bias, strides, padding, dilation, _, more, groups = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    numbers = {"strides": strides, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}
    made = emit(op.nn.conv3d_transpose(data, weight, **numbers, out_dtype="float32"))
    if bias is None:
        return made
    return emit(op.add(made, op.astype(op.reshape(bias, (1, -1, 1, 1, 1)), "float32")))


def _group_norm(node: Any, importer: Any) -> Any:
    """TVM's own knows none without a weight and a bias."""
    data, weight, bias, _, channels, _, groups, epsilon = importer.retrieve_args(node)
    dtype = str(data.ty.dtype)
    weight = relax.const(np.ones(channels, dtype)) if weight is None else weight
    bias = relax.const(np.zeros(channels, dtype)) if bias is None else bias
    axes = [*range(2, data.ty.ndim)]
    normed = op.nn.group_norm(data, weight, bias, groups, channel_axis=1, axes=axes, epsilon=epsilon)
    return importer.block_builder.emit(normed)


def _reshape(node: Any, importer: Any) -> Any:
    """TVM's own compares sizes, and cannot where they vary."""
    found = [importer.env[size] if hasattr(size, "meta") else size for size in node.args[1]]
    if all(isinstance(size, int) for size in found):
        return importer.as_tvm(node)
    # What is -1 is a number in PyTorch's own shape, or the one size that is left over.
    sizes = [
        known if isinstance(known, int) else size for known, size in zip(node.meta["val"].shape, found, strict=True)
    ]
    return importer.block_builder.emit(op.reshape(importer.env[node.args[0]], sizes))


def _empty(node: Any, importer: Any) -> Any:
    """Zeros, for nothing may depend on what it holds; TVM's own takes no sizes that vary."""
    sizes = [importer.env[size] if hasattr(size, "meta") else size for size in node.args[0]]
    return importer.block_builder.emit(op.zeros(sizes, str(node.meta["val"].dtype).removeprefix("torch.")))


def _both_branches(node: Any, importer: Any) -> Any:
    """torch.cond of a value: both are computed, and one is chosen element by element."""
    condition, *branches, operands = node.args
    emit, outside = importer.block_builder.emit, importer.env
    given = [outside[operand] for operand in operands]
    results = []
    for branch in branches:
        graph = outside[branch]
        taken = [found for found in graph.graph.nodes if found.op == "placeholder"]
        importer.env = dict(zip(taken, given, strict=True))
        try:
            results.append(importer._translate_fx_graph(graph, graph.graph.nodes, {}))
        finally:
            importer.env = outside
    chosen = as_tensor(importer, outside[condition], "bool")
    return emit(relax.Tuple([emit(op.where(chosen, *pair)) for pair in zip(*results, strict=True)]))


def _scaled(importer: Any, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return importer.block_builder.emit(op.multiply(value, as_tensor(importer, factor, str(value.ty.dtype))))
