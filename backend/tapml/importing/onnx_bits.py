"""ONNX operators on the bits of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype, call
from tapml.importing.relax_ir import Expr, tensor_dtype


def shifted(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """By all of its bits or more, or by less than none: nothing is left, but of a sign that moves to the right."""
    data, by = inputs
    dtype = tensor_dtype(data.ty) or ""
    last = relax.const(np.iinfo(dtype).bits - 1, dtype)
    emit = builder.emit
    beyond = emit(op.greater(by, last))
    if not dtype.startswith("u"):
        beyond = emit(op.logical_or(beyond, emit(op.less(by, relax.const(0, dtype)))))
    safe = emit(op.where(beyond, last, by))
    left = attributes["direction"] == b"LEFT"
    found = emit((op.left_shift if left else op.right_shift)(data, safe))
    return op.where(beyond, relax.const(0, dtype), found) if left or dtype.startswith("u") else found


def bit_cast(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """The bits of one dtype as another of as many. Raises InputError for 64 of them, which WebGPU has not."""
    from onnx import helper

    (data,) = inputs
    source, target = tensor_dtype(data.ty) or "", str(helper.tensor_dtype_to_np_dtype(attributes["to"]))
    if source == target:
        return data
    bits, wanted = (_bits(dtype) for dtype in (source, target))
    if bits != wanted:
        raise InputError(f"a BitCast from {source} to {target}, which has not as many bits")
    if bits == 64:
        raise InputError(
            f"a BitCast from {source} to {target}: WebGPU has no numbers of 64 bits, and in 32 their bits are others"
        )
    if "float" not in source + target:
        return op.astype(data, target)
    if bits == 16:
        made = call(builder, _to_half if "float" in target else _of_half, [data], name="bit_cast")
        return as_dtype(builder, made, target)
    return call(builder, _reinterpreted, [data], target, name="bit_cast")


def _bits(dtype: str) -> int:
    try:
        return int(np.dtype(dtype).itemsize * 8)
    except TypeError as error:
        raise InputError(
            f"a BitCast of {dtype}: tapml has 8, 16 and 32 bits of integers, float16 and float32"
        ) from error


def _reinterpreted(data: Any, target: str) -> Any:
    return te.compute(data.shape, lambda *at: tirx.reinterpret(target, data(*at)), name="bit_cast")


def _of_half(data: Any) -> Any:
    """float16's bits in int32, by those of the float32 that it is exactly."""

    def element(*at: Any) -> Any:
        bits = tirx.reinterpret("int32", data(*at).astype("float32"))
        exponent, rest = (bits >> 23) & 255, bits & 0x7FFFFF
        normal = ((exponent - 112) << 10) | (rest >> 13)
        # Below 2^-14 a float16 is a multiple of 2^-24.
        small = (rest | 0x800000) >> tirx.Min(tirx.Max(126 - exponent, 0), 31)
        special = 0x7C00 | (rest >> 13)
        size = tirx.Select(exponent > 112, tirx.Select(exponent == 255, special, normal), small)
        return ((bits >> 16) & 0x8000) | tirx.Select(exponent == 0, 0, size)

    return te.compute(data.shape, element, name="bit_cast")


def _to_half(data: Any) -> Any:
    def element(*at: Any) -> Any:
        bits = data(*at)
        exponent, rest = (bits >> 10) & 31, bits & 0x3FF
        wide = (tirx.Select(exponent == 31, 255, exponent + 112) << 23) | (rest << 13)
        size = tirx.Select(
            exponent == 0, rest.astype("float32") * tirx.const(2.0**-24, "float32"), tirx.reinterpret("float32", wide)
        )
        return tirx.Select((bits & 0x8000) != 0, size * tirx.const(-1.0, "float32"), size).astype("float16")

    return te.compute(data.shape, element, name="bit_cast")
