"""DFT and STFT of ONNX as products with a table, which is computed at import in float64.

The angles are multiples of 2 pi / N by integers, which are taken modulo N: nothing is lost, however long the signal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype
from tapml.importing.relax_ir import Expr, tensor_dtype

_LARGEST_TABLE = 1 << 27
"""Elements: 2^29 bytes."""


def dft(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Along any axis but the last, which holds the real and the imaginary part, or the real one alone."""
    data, length, axis = (*inputs, None, None)[:3]
    inverse, onesided = bool(attributes["inverse"]), bool(attributes["onesided"])
    place = int(attributes["axis"]) if "axis" in attributes else -2 if axis is None else _number("DFT", "axis", axis)
    rank = data.ty.ndim
    place %= rank
    if place == rank - 1:
        raise InputError("DFT along the axis of real and imaginary parts: choose another axis")
    size, parts = (_size("DFT", data.ty.shape[at]) for at in (place, rank - 1))
    usual = 2 * (size - 1) if inverse and onesided else size
    count = usual if length is None else _number("DFT", "dft_length", length)
    if count < 1:
        raise InputError(f"DFT of the length {count}: give at least 1")
    return transformed(builder, data, place, table(size, count, parts, inverse, onesided))


def stft(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Of a signal [batch, length, 1 or 2]: [batch, frames, frequencies, 2]."""
    signal, step, window, length = (*inputs, None, None)[:4]
    emit, hop = builder.emit, _number("STFT", "frame_step", step)
    total, parts = signal.ty.shape[1], _size("STFT", signal.ty.shape[2])
    if length is not None:
        count = _number("STFT", "frame_length", length)
    else:
        count = _size("STFT", total if window is None else window.ty.shape[0])
    frames = tvm.sym.Analyzer().simplify(tvm.tirx.floordiv(total - count, hop) + 1)
    if hop < 1 or count < 1 or getattr(frames, "value", 1) < 1:
        raise InputError(f"STFT of frames of {count} samples, one each {hop}: the signal has no such frame")
    begins = emit(op.multiply(emit(op.arange(0, frames, 1, "int64")), relax.const(hop, "int64")))
    places = emit(op.add(emit(op.expand_dims(begins, 1)), relax.const(np.arange(count), "int64")))
    data = emit(op.take(signal, places, axis=1))
    if window is not None:
        data = emit(op.multiply(data, emit(op.reshape(window, [1, 1, count, 1]))))
    return transformed(builder, data, 2, table(count, count, parts, False, bool(attributes["onesided"])))


def transformed(builder: Expr, data: Expr, axis: int, weights: np.ndarray) -> Expr:
    """Products with `weights`, a `table`: [size, parts, count, parts of the result]."""
    emit, rank, dtype = builder.emit, data.ty.ndim, tensor_dtype(data.ty)
    size, parts, count, made = weights.shape
    data = as_dtype(builder, data, "float32")
    if size < int(data.ty.shape[axis]):
        data = emit(op.strided_slice(data, [axis], [0], [size]))
    others = [place for place in range(rank - 1) if place != axis]
    data = emit(op.permute_dims(data, [*others, axis, rank - 1])) if others != list(range(rank - 2)) else data
    shape = list(data.ty.shape)[:-2]
    rows = emit(op.reshape(data, [math.prod(shape), size * parts]))
    matrix = relax.const(weights.reshape(size * parts, count * made).astype(np.float32))
    found = emit(op.reshape(emit(op.matmul(rows, matrix)), [*shape, count, made]))
    order = [*range(axis), rank - 2, *range(axis, rank - 2), rank - 1]
    found = emit(op.permute_dims(found, order)) if order != list(range(rank)) else found
    return as_dtype(builder, found, dtype)


def table(size: int, count: int, parts: int, inverse: bool, onesided: bool) -> np.ndarray:
    """What each part of each of `size` elements adds to each part of each element of the result: [j, part, k, part].

    Elements beyond `count` add nothing and are left out; missing ones are zeros. An inverse of a onesided spectrum is
    real.
    """
    half = count // 2 + 1
    rows = min(size, half if inverse and onesided else count)
    columns = half if onesided and not inverse else count
    if rows * columns * parts * 2 > _LARGEST_TABLE:
        raise InputError(f"a DFT of the length {count} takes a table of {rows} x {columns}: give a shorter one")
    turns = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)) % count
    angles = np.arange(count) * (2.0 * np.pi / count)
    cosine, sine = np.cos(angles)[turns], np.sin(angles)[turns] * (1.0 if inverse else -1.0)
    if inverse:
        # The other half of a onesided spectrum is this one's conjugate.
        once = np.isin(np.arange(rows), (0, count / 2.0)) | (not onesided)
        weights = (np.where(once, 1.0, 2.0) / count)[:, None]
        cosine, sine = cosine * weights, sine * weights
    real = [cosine] if inverse and onesided else [cosine, sine]
    imaginary = [-sine] if inverse and onesided else [-sine, cosine]
    return np.stack([np.stack(part, axis=-1) for part in ([real, imaginary][:parts])], axis=1)


def _number(name: str, what: str, operand: Any) -> int:
    if not isinstance(operand, tvm.ir.GenericConst):
        raise InputError(f"{what} of {name} depends on the values of the input: tapml needs it fixed")
    return int(np.asarray(operand.value.numpy()).reshape(-1)[0])


def _size(name: str, axis: Any) -> int:
    found = getattr(axis, "value", axis)
    if not isinstance(found, int):
        raise InputError(f"{name} along an axis whose size varies: its table is made for one size")
    return found
