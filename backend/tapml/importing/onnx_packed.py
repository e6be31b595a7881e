"""Weights that an ONNX file holds as integers (DequantizeLinear of a constant): packed as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapml.importing.model import Array
from tapml.importing.onnx_file import nodes
from tapml.importing.onnx_tensors import tensors
from tapml.importing.quantise import Kind, Packed, words_of
from tapml.importing.weights import digest

_SIGNED, _UNSIGNED = ("int8", "int4"), ("uint8", "uint4")


def packed_in(graph: Any) -> dict[str, tuple[str, Packed]]:
    """By the digest of what it stands for, float32 `[rows, inner]`, the name and the packed weight of each constant
    matrix that is dequantised by constants. Where a product sums along the other axis, or where scales are not one for
    each row or a part of it, there is none."""
    from onnx import numpy_helper

    dequantised = [node for node in nodes(graph) if node.op_type == "DequantizeLinear"]
    if not dequantised:
        return {}
    known = {tensor.name: tensor for tensor in tensors(graph) if tensor.name}
    found: dict[str, tuple[str, Packed]] = {}
    for node in dequantised:
        given = [known.get(name) if name else None for name in node.input]
        if any(tensor is None and name for tensor, name in zip(given, node.input, strict=True)) or len(given) < 2:
            continue
        data, scale, *others = [None if tensor is None else numpy_helper.to_array(tensor) for tensor in given]
        attributes = {attribute.name: attribute.i for attribute in node.attribute}
        if data is None or scale is None or not _fits(data, scale, others[0] if others else None, attributes):
            continue
        for packed in _packed(data, scale, others[0] if others else None, attributes):
            found.setdefault(digest(packed.array()), (node.input[0], packed))
    return found


def _fits(data: Array, scale: Array, zero: Array | None, attributes: Mapping[str, int]) -> bool:
    """Is it a matrix of small integers, with as many scales and zero points as ONNX says? Others are whoever converts
    the operator to refuse."""
    if data.dtype.name not in _SIGNED + _UNSIGNED or data.ndim != 2 or not data.size or scale.dtype != np.float32:
        return False
    axis, block = attributes.get("axis", 1) % 2, attributes.get("block_size", 0)
    each = [data.shape[axis]]
    if block > 0:
        each = [-(-size // block) if place == axis else size for place, size in enumerate(data.shape)]
    if block < 0 or not (scale.shape == (*each,) or (scale.size == 1 and not block)):
        return False
    return zero is None or (zero.shape == scale.shape and zero.dtype == data.dtype)


def _packed(data: Array, scale: Array, zero: Array | None, attributes: Mapping[str, int]) -> Iterator[Packed]:
    """In each way in which rows have scales of their own."""
    axis, block = attributes.get("axis", 1) % 2, attributes.get("block_size", 0)
    if block:
        ways = [axis == 0]  # whether rows are columns of the tensor
        groups = [scale.T if axis == 0 else scale]
        zeros = [None if zero is None else zero.T if axis == 0 else zero]
    elif scale.size == 1:
        ways = [False, True]
        groups = [np.broadcast_to(scale.reshape(1, 1), (data.shape[turned], 1)) for turned in ways]
        zeros = [None if zero is None else np.broadcast_to(zero.reshape(1, 1), found.shape) for found in groups]
    else:
        ways, groups = [axis == 1], [scale.reshape(-1, 1)]
        zeros = [None if zero is None else zero.reshape(-1, 1)]
    for turned, of_groups, of_zeros in zip(ways, groups, zeros, strict=True):
        yield _of_rows(data.T if turned else data, of_groups, of_zeros, block or None)


def _of_rows(data: Array, scales: Array, zeros: Array | None, group: int | None) -> Packed:
    unsigned = data.dtype.name in _UNSIGNED
    data = data.astype(np.int32)
    # 4-bit integers may have been widened since.
    low = 0 if unsigned else -8
    bits = 4 if low <= data.min() and data.max() < low + 16 else 8
    # Words hold integers from 0 on.
    lift = 0 if unsigned else 1 << bits - 1
    lifted = np.full(scales.shape, lift) if zeros is None else zeros.astype(np.int32) + lift
    one = len(np.unique(lifted)) == 1
    kind = Kind(f"{'u' if unsigned else ''}int{bits}", bits, group, False, int(lifted.flat[0]) if one else None)
    codes = (data + lift).astype(np.uint32)
    rows, inner = codes.shape
    each = None if one else np.ascontiguousarray(lifted, np.float32)
    return Packed(kind, (rows, inner), words_of(codes, kind), np.ascontiguousarray(scales, np.float32), each)
