"""ONNX operators of a few of Relax's: Celu, Clip, CumProd, CumSum, Einsum, IsInf, Mish, OneHot, Pow, Softplus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.importing.kernel_calls import as_dtype
from tapml.importing.relax_ir import Expr, tensor_dtype

Attributes = Mapping[str, Any]


def celu(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    (data,), emit = inputs, builder.emit
    dtype = tensor_dtype(data.ty)
    zero, one, alpha = (relax.const(number, dtype) for number in (0, 1, attributes["alpha"]))
    # Of what lies below zero only, for exp overflows above 88.
    below = emit(op.minimum(data, zero))
    grown = emit(op.subtract(emit(op.exp(emit(op.divide(below, alpha)))), one))
    return op.add(emit(op.maximum(data, zero)), emit(op.multiply(alpha, grown)))


def of_one(function: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    """Of one tensor, without attributes."""
    return lambda builder, inputs, attributes: function(builder, inputs[0])


def clip(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """By operands, either of which may be left out, or by attributes as of opsets before 11."""
    data, low, high = (*inputs, None, None)[:3]
    if "max" in attributes:
        low, high = (relax.const(attributes[name], tensor_dtype(data.ty)) for name in ("min", "max"))
    for bound, limit in ((low, op.maximum), (high, op.minimum)):
        if bound is not None:
            data = builder.emit(limit(data, bound))
    return data


def cumulative(scan: Callable[..., Expr]) -> Callable[..., Expr]:
    """CumSum or CumProd, by Relax's operator."""

    def convert(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
        data, axis = inputs
        axis = int(np.asarray(axis.value.numpy()).item())
        reverse = bool(attributes["reverse"])
        data = builder.emit(op.flip(data, axis)) if reverse else data
        total = scan(data, axis, exclusive=bool(attributes["exclusive"]))
        return op.flip(builder.emit(total), axis) if reverse else total

    return convert


def einsum(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    return op.einsum(relax.Tuple(list(inputs)), attributes["equation"].decode())


def is_inf(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """Of the signs that are asked for."""
    (data,), emit = inputs, builder.emit
    infinite, zero = emit(op.isinf(data)), relax.const(0, tensor_dtype(data.ty))
    for name, compare in (("detect_positive", op.less), ("detect_negative", op.greater)):
        if not attributes[name]:
            infinite = emit(op.logical_and(infinite, emit(compare(data, zero))))
    return infinite


def one_hot(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """`values`, off and on, may be computed."""
    indices, depth, values = inputs
    count = int(np.asarray(depth.value.numpy()).item())
    emit, rank = builder.emit, indices.ty.ndim
    axis = attributes["axis"] % (rank + 1)
    indices = emit(op.expand_dims(as_dtype(builder, indices, "int64"), axis))
    indices = emit(op.where(emit(op.less(indices, _int64(0))), emit(op.add(indices, _int64(count))), indices))
    places = emit(op.arange(0, count, 1, "int64"))
    places = emit(op.reshape(places, [-1 if i == axis else 1 for i in range(rank + 1)]))
    off, on = (emit(op.take(values, _int64(place), axis=0)) for place in (0, 1))
    return op.where(emit(op.equal(indices, places)), on, off)


def _int64(value: int) -> Expr:
    return relax.const(value, "int64")


def cast(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr | None:
    """Of floats to integers of 32 bits, which TVM's importer brings into their range by numbers beyond it: what lies
    outside is undefined in ONNX. None for the others."""
    from onnx import helper

    data, like = (*inputs, None)[:2]
    wanted = str(helper.tensor_dtype_to_np_dtype(attributes["to"])) if like is None else tensor_dtype(like.ty)
    if wanted not in ("int32", "uint32") or "float" not in (tensor_dtype(data.ty) or ""):
        return None
    finite = builder.emit(op.isfinite(data))
    return op.astype(builder.emit(op.where(finite, data, relax.const(0, tensor_dtype(data.ty)))), wanted)


def power(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr | None:
    """The exponent has a dtype of its own, the result the base's; None where they are the same."""
    base, exponent = inputs
    dtype, other = tensor_dtype(base.ty) or "", tensor_dtype(exponent.ty) or ""
    if dtype == other:
        return None
    if "int" in dtype and "float" in other:
        return op.astype(builder.emit(op.power(builder.emit(op.astype(base, other)), exponent)), dtype)
    return op.power(base, builder.emit(op.astype(exponent, dtype)))
