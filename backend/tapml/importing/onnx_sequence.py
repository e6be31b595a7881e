"""ONNX operators along a sequence: reversed, scattered into a cache, convolved with what came before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

MOST_STEPS = 1024
"""Of a sequence that is written out step by step: each is some kernels, and tests of them, of its own."""


def steps_of(data: Expr, axis: int) -> int:
    """How many steps a sequence has. Raises InputError where that varies, or is more than `MOST_STEPS`."""
    count = axes_of(data)[axis]
    if not isinstance(count, int):
        raise InputError("it is written out step by step, for one length: give inputs of one length")
    if count > MOST_STEPS:
        raise InputError(
            f"it is written out step by step, and {count} steps are more than {MOST_STEPS}: give a shorter sequence"
        )
    return count


def step(builder: Expr, data: Expr, number: int) -> Expr:
    """The place `number` along the first axis: by a tensor, so that one kernel does for all steps."""
    taken = builder.emit(op.take(data, places([number]), axis=0, mode="fast"))
    return builder.emit(op.reshape(taken, axes_of(data)[1:]))


def places(numbers: Sequence[int]) -> Expr:
    """Positions as a tensor, which is an operand and no part of a kernel."""
    return relax.const(np.array(numbers, np.int32))


def reversed_within(builder: Expr, data: Expr, lengths: Expr, time: int, batch: int) -> Expr:
    """The first `lengths[b]` places along the axis `time` in reverse order, those behind them as they are."""
    emit, shape = builder.emit, axes_of(data)
    place, count = along(builder, data, time), _spread(builder, lengths, data, batch)
    mirrored = emit(op.subtract(emit(op.subtract(count, _one("int64"))), place))
    index = emit(op.where(emit(op.less(place, count)), mirrored, place))
    return emit(op.gather_elements(data, emit(op.broadcast_to(index, relax.ShapeExpr(shape))), axis=time))


def along(builder: Expr, data: Expr, axis: int) -> Expr:
    """0, 1, 2, ... (int64) along an axis of `data`, of one place along the others."""
    size = axes_of(data)[axis]
    shape = [size if number == axis else 1 for number in range(data.ty.ndim)]
    return builder.emit(op.reshape(builder.emit(op.arange(0, size, 1, "int64")), shape))


def _spread(builder: Expr, values: Expr, data: Expr, axis: int) -> Expr:
    """A vector (as int64) along an axis of `data`."""
    shape = [-1 if number == axis else 1 for number in range(data.ty.ndim)]
    return builder.emit(op.reshape(builder.emit(op.astype(values, "int64")), shape))


def _one(dtype: str) -> Expr:
    return relax.const(1, dtype)


def _reverse_sequence(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    data, lengths = inputs
    return reversed_within(builder, data, lengths, attributes["time_axis"], attributes["batch_axis"])


def _tensor_scatter(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Each place of the cache looks for the update that is written to it."""
    cache, update, first = (*inputs, None)[:3]
    emit, axis = builder.emit, attributes["axis"] % cache.ty.ndim
    size, count = axes_of(cache)[axis], axes_of(update)[axis]
    if not isinstance(size, int) or not isinstance(count, int):
        raise InputError("it needs one length of its cache and of its update: give inputs of one length")
    place = along(builder, cache, axis)
    if first is not None:
        place = emit(op.subtract(place, _spread(builder, first, cache, 0)))
    if attributes["mode"] == b"circular":
        place = emit(op.floor_mod(place, relax.const(size, "int64")))
    zero, last = relax.const(0, "int64"), relax.const(count - 1, "int64")
    written = emit(op.logical_and(emit(op.greater_equal(place, zero)), emit(op.less_equal(place, last))))
    inside = emit(op.minimum(emit(op.maximum(place, zero)), last))
    index = emit(op.broadcast_to(inside, relax.ShapeExpr(axes_of(cache))))
    return op.where(written, emit(op.gather_elements(update, index, axis=axis)), cache)


def _causal_conv(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[Expr]:
    """Of each channel by itself; the state is what the next call needs of this one's input."""
    data, weights, bias, past = (*inputs, None, None)[:4]
    emit, dtype = builder.emit, tensor_dtype(data.ty)
    batch, channels, length = axes_of(data)
    before = axes_of(weights)[2] - 1
    if before:
        if past is None:
            past = emit(op.zeros(relax.ShapeExpr([batch, channels, before]), dtype))
        data = emit(op.concat([past, data], axis=2))
    result = emit(op.nn.conv1d(data, weights, groups=channels))
    if bias is not None:
        result = emit(op.add(result, emit(op.reshape(bias, [1, channels, 1]))))
    if (kind := attributes["activation"].decode()) in ("silu", "swish"):
        result = emit(op.nn.silu(result))
    elif kind != "none":
        raise InputError(f"there is no activation {kind!r}: give none, silu or swish")
    return [result, op.strided_slice(data, [2], [length], [length + before], assume_inbound=True)]


SEQUENCE = {
    "CausalConvWithState": _causal_conv,
    "ReverseSequence": _reverse_sequence,
    "TensorScatter": _tensor_scatter,
}
"""Operator -> its converter, as in `onnx_operators`."""
