"""Tables of 4 and 8 bits with a scale for each block, dequantized at import."""

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
