"""MatMulNBits (com.microsoft): a product with a weight of integers of four or eight bits, written out as MatMul with
the numbers that these stand for. The integers stay what products read (onnx_packed.py does the same for
DequantizeLinear)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapml.importing.model import Array
from tapml.importing.quantise import DTYPES, LEAST, Kind, Packed, words_of
from tapml.importing.weights import digest

OPERATOR, DOMAIN = "MatMulNBits", "com.microsoft"
_BITS = (4, 8)


def written_out(model: Any) -> dict[str, tuple[str, Packed]]:
    """Put MatMul in place of each MatMulNBits of the model's graph whose weight is a constant of 32 x 32 or more with
    scales of float32 or float16 and integer zero points, and that has its columns in their order. The packed weights,
    by the digest of what they stand for, with their names. Others stay."""
    from onnx import numpy_helper

    graph = model.graph
    known = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, tuple[str, Packed]] = {}
    made: dict[tuple[str, ...], str] = {}
    nodes = []
    for node in graph.node:
        packed = _packed(node, known) if (node.op_type, node.domain) == (OPERATOR, DOMAIN) else None
        if packed is None:
            nodes.append(node)
            continue
        data, weight, *others = node.input
        key = (weight, *others[:2])
        if key not in made:
            made[key] = _unused(f"{weight}_as_numbers", known)
            array = packed.array()
            found.setdefault(digest(array), (weight, packed))
            tensor = numpy_helper.from_array(np.ascontiguousarray(array.T), made[key])
            graph.initializer.append(tensor)
            known[made[key]] = tensor
        nodes += _product(node, data, made[key], others[3] if len(others) > 3 else "")
    if made:
        del graph.node[:]
        graph.node.extend(nodes)
    return found


def _product(node: Any, data: str, weight: str, bias: str) -> list[Any]:
    from onnx import helper

    (output,) = node.output
    if not bias:
        return [helper.make_node("MatMul", [data, weight], [output], node.name)]
    total = f"{output}_without_bias"
    return [
        helper.make_node("MatMul", [data, weight], [total], node.name),
        helper.make_node("Add", [total, bias], [output], f"{node.name}_bias" if node.name else ""),
    ]


def _unused(name: str, known: Mapping[str, Any]) -> str:
    while name in known:
        name += "_"
    return name


def _packed(node: Any, known: Mapping[str, Any]) -> Packed | None:
    """A node's weight `[N, K]`; None where it is no constant, or of a form that is not read here."""
    from onnx import numpy_helper

    names = [*node.input, *[""] * (6 - len(node.input))]
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    rows, inner, block = (attributes.get(name, 0) for name in ("N", "K", "block_size"))
    bits = attributes.get("bits", 4)
    if names[4] or bits not in _BITS or block < 1 or min(rows, inner) < LEAST:
        return None
    if any(name and name not in known for name in names[1:4]):
        return None
    codes, scales, zeros = (numpy_helper.to_array(known[name]) if name else None for name in names[1:4])
    groups = -(-inner // block)
    each = 8 // bits
    if codes is None or codes.dtype != np.uint8 or codes.size * each != rows * groups * block:
        return None
    if scales is None or str(scales.dtype) not in DTYPES or scales.size != rows * groups:
        return None
    if zeros is not None and (zeros.dtype != np.uint8 or zeros.size != rows * -(-groups // each)):
        return None
    numbers = _numbers(codes.reshape(rows, -1), bits)[:, :inner]
    lifts = None if zeros is None else _numbers(zeros.reshape(rows, -1), bits)[:, :groups]
    return _of(numbers, scales.reshape(rows, groups), lifts, bits, block)


def _numbers(held: Array, bits: int) -> Array:
    """The integers in the bytes of each row, the lowest bits first."""
    parts = [(held >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(len(held), -1)


def _of(numbers: Array, scales: Array, zeros: Array | None, bits: int, block: int) -> Packed:
    """Elements are of the dtype of the scales, which is that of the product."""
    one = zeros is None or len(np.unique(zeros)) == 1
    zero = 1 << bits - 1 if zeros is None else int(zeros.flat[0])
    kind = Kind(f"uint{bits}", bits, block, scales.dtype == np.float16, zero if one else None)
    each = None if one or zeros is None else np.ascontiguousarray(zeros, np.float32)
    rows, inner = numbers.shape
    words = words_of(numbers.astype(np.uint32), kind)
    dtype = str(scales.dtype)
    return Packed(kind, (rows, inner), words, np.ascontiguousarray(scales, np.float32), each, dtype)
