"""Tables and weights of 4 and 8 bits with a scale for each block, dequantized at import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr


def gather_block_quantized(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Rows of a quantized table."""
    table, indices, scales, zeros = (*inputs, None)[:4]
    name, axis = "GatherBlockQuantized", int(attributes.get("gather_axis", 0))
    numbers, scale = _array(name, table), _array(name, scales)
    along, bits = int(attributes.get("quantize_axis", 1)) % numbers.ndim, int(attributes.get("bits", 4))
    packed = numbers.dtype == np.uint8 and bits == 4 and numbers.shape[along] * 2 > scale.shape[along]
    if along != numbers.ndim - 1 and packed:
        raise InputError("a GatherBlockQuantized along an axis that is not the last: quantize the last axis")
    signed, half = numbers.dtype == np.int8, 1 << (bits - 1)
    numbers = _unpacked(numbers, bits) if numbers.dtype == np.uint8 and bits < 8 else numbers
    block = int(attributes.get("block_size", 128))
    held = None if zeros is None else _array(name, zeros)
    if held is None:
        held = np.full(scale.shape, 0 if signed else half)
    elif held.dtype == np.uint8 and bits < 8:
        held = _unpacked(held, bits)[..., : scale.shape[-1]]
    size = numbers.shape[along]
    spread, wide = (np.repeat(x.astype(np.float32), block, along).take(range(size), along) for x in (scale, held))
    values = ((numbers.astype(np.float32) - wide) * spread).astype(str(scale.dtype))
    return op.take(relax.const(values), indices, axis=axis)


_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)


def weights_of_codes(weight: Expr, largest: Expr, attributes: Mapping[str, Any]) -> Expr:
    """Of MatMulBnb4, [K, N]: two codes in a byte, the first in its upper half, and the largest of each block."""
    name, block = "MatMulBnb4", int(attributes["block_size"])
    rows, size = int(attributes["N"]), int(attributes["K"])
    table = np.array(_NF4 if attributes["quant_type"] else [*_FP4, *(-value for value in _FP4)], np.float32)
    held, scale = _array(name, weight).reshape(-1), _array(name, largest).reshape(-1)
    codes = np.stack([held >> 4, held & 15], axis=-1).reshape(-1)[: rows * size]
    values = table[codes] * np.repeat(scale.astype(np.float32), block)[: rows * size]
    shape = (rows, size) if attributes.get("transB", 1) else (size, rows)
    values = values.reshape(shape).astype(scale.dtype)
    return relax.const(np.ascontiguousarray(values.T) if attributes.get("transB", 1) else values)


def _unpacked(held: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first, along the last axis."""
    if bits not in (2, 4, 8):
        raise InputError(f"weights of {bits} bits: tapml reads those of 2, 4 and 8")
    parts = [(held >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*held.shape[:-1], -1)


def _array(name: str, operand: Any) -> np.ndarray:
    if not isinstance(operand, tvm.ir.GenericConst):
        raise InputError(f"a {name} whose weights are computed: tapml dequantizes them at import")
    found: np.ndarray = operand.value.numpy()
    return found
