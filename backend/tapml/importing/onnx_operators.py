"""ONNX operators in terms of Relax, where TVM's importer lacks them or makes of them what is not what ONNX says.

Each function takes a builder, the operands (None where one is left out) and the attributes, with ONNX's defaults filled
in, and "outputs", the number of those that the node has. It gives the first output, or a list of all; None where TVM's
importer is to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.importing.onnx_attention import ATTENTION
from tapml.importing.onnx_bits import bit_cast, shifted
from tapml.importing.onnx_convolutions import col2im, deformable_convolution, transposed_convolution
from tapml.importing.onnx_moves import determinant, eye_like, pad, split
from tapml.importing.onnx_pooling import max_pool, max_unpool
from tapml.importing.onnx_quantized import (
    conv_integer,
    dequantize_linear,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
    quantize_linear,
)
from tapml.importing.onnx_recurrent import RECURRENT
from tapml.importing.onnx_resize import resize
from tapml.importing.onnx_roi_align import roi_align
from tapml.importing.onnx_sequence import SEQUENCE
from tapml.importing.onnx_signal import dft, stft
from tapml.importing.relax_ir import Expr, tensor_dtype

Attributes = Mapping[str, Any]
Converter = Callable[[Expr, Sequence[Any], Attributes], Any]


def _layer_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """With mean and inverse standard deviation, which TVM's importer leaves out."""
    data, scale, bias = (*inputs, None)[:3]
    axes = _from(data, attributes["axis"])
    emit = builder.emit
    values = _in(builder, data, "float32")
    mean = emit(op.mean(values, axes, keepdims=True))
    centred = emit(op.subtract(values, mean))
    spread = emit(op.mean(emit(op.multiply(centred, centred)), axes, keepdims=True))
    inverse = emit(op.rsqrt(emit(op.add(spread, relax.const(attributes["epsilon"], "float32")))))
    result = emit(op.multiply(_in(builder, emit(op.multiply(centred, inverse)), tensor_dtype(data.ty)), scale))
    return [result if bias is None else op.add(result, bias), mean, inverse]


def _rms_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    data, scale = inputs
    emit = builder.emit
    values = _in(builder, data, "float32")
    square = emit(op.mean(emit(op.multiply(values, values)), _from(data, attributes["axis"]), keepdims=True))
    root = emit(op.sqrt(emit(op.add(square, relax.const(attributes["epsilon"], "float32")))))
    return op.multiply(_in(builder, emit(op.divide(values, root)), tensor_dtype(data.ty)), scale)


def _clip(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """By operands, either of which may be left out, or by attributes as of opsets before 11."""
    data, low, high = (*inputs, None, None)[:3]
    if "max" in attributes:
        low, high = (relax.const(attributes[name], tensor_dtype(data.ty)) for name in ("min", "max"))
    for bound, limit in ((low, op.maximum), (high, op.minimum)):
        if bound is not None:
            data = builder.emit(limit(data, bound))
    return data


def _one_hot(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """`values`, off and on, may be computed."""
    indices, depth, values = inputs
    count = int(np.asarray(depth.value.numpy()).item())
    emit, rank = builder.emit, indices.ty.ndim
    axis = attributes["axis"] % (rank + 1)
    indices = emit(op.expand_dims(_in(builder, indices, "int64"), axis))
    indices = emit(op.where(emit(op.less(indices, _int64(0))), emit(op.add(indices, _int64(count))), indices))
    places = emit(op.arange(0, count, 1, "int64"))
    places = emit(op.reshape(places, [-1 if i == axis else 1 for i in range(rank + 1)]))
    off, on = (emit(op.take(values, _int64(place), axis=0)) for place in (0, 1))
    return op.where(emit(op.equal(indices, places)), on, off)


def _cumulative(scan: Callable[..., Expr]) -> Converter:
    """CumSum or CumProd, by Relax's operator."""

    def convert(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
        data, axis = inputs
        axis = int(np.asarray(axis.value.numpy()).item())
        reverse = bool(attributes["reverse"])
        data = builder.emit(op.flip(data, axis)) if reverse else data
        total = scan(data, axis, exclusive=bool(attributes["exclusive"]))
        return op.flip(builder.emit(total), axis) if reverse else total

    return convert


def _celu(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    (data,), emit = inputs, builder.emit
    dtype = tensor_dtype(data.ty)
    zero, one, alpha = (relax.const(number, dtype) for number in (0, 1, attributes["alpha"]))
    # Of what lies below zero only, for exp overflows above 88.
    below = emit(op.minimum(data, zero))
    grown = emit(op.subtract(emit(op.exp(emit(op.divide(below, alpha)))), one))
    return op.add(emit(op.maximum(data, zero)), emit(op.multiply(alpha, grown)))


def _lp_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """0 where the norm is 0."""
    (data,), axis, emit = inputs, attributes["axis"], builder.emit
    if attributes["p"] == 1:
        norm = emit(op.sum(emit(op.abs(data)), axis, keepdims=True))
    else:
        norm = emit(op.sqrt(emit(op.sum(emit(op.multiply(data, data)), axis, keepdims=True))))
    zero = relax.const(0, tensor_dtype(data.ty))
    return op.where(emit(op.equal(norm, zero)), zero, emit(op.divide(data, norm)))


def _resize(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """Upsample as well, and the Resize of opset 10: data and scales, and no attribute but the mode."""
    if len(inputs) < 3:
        scales = relax.const(np.array(attributes["scales"], np.float32)) if len(inputs) < 2 else inputs[1]
        attributes = {**attributes, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        inputs = [inputs[0], None, scales]
    return resize(builder, inputs, {**_RESIZE, **attributes})


_RESIZE = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "keep_aspect_ratio_policy": "stretch",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
}


def _space_to_depth(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    (data,), block = inputs, attributes["blocksize"]
    batch, channels, height, width = data.ty.shape
    high, wide = height // block, width // block
    split = builder.emit(op.reshape(data, [batch, channels, high, block, wide, block]))
    order = [0, 1, 3, 5, 2, 4] if attributes.get("mode", b"DCR") == b"CRD" else [0, 3, 5, 1, 2, 4]
    moved = builder.emit(op.permute_dims(split, order))
    return op.reshape(moved, [batch, channels * block * block, high, wide])


def _from(data: Expr, axis: int) -> list[int]:
    """The axes from one to the last."""
    rank = data.ty.ndim
    return list(range(axis % rank, rank))


def _in(builder: Expr, data: Expr, dtype: str | None) -> Expr:
    return data if tensor_dtype(data.ty) == dtype else builder.emit(op.astype(data, dtype))


def _int64(value: int) -> Expr:
    return relax.const(value, "int64")


OPERATORS: Mapping[str, Converter] = {
    **ATTENTION,
    **RECURRENT,
    **SEQUENCE,
    "BitCast": bit_cast,
    "BitShift": shifted,
    "Celu": _celu,
    "Clip": _clip,
    "Col2Im": col2im,
    "ConvInteger": conv_integer,
    "ConvTranspose": transposed_convolution,
    "CumProd": _cumulative(op.cumprod),
    "CumSum": _cumulative(op.cumsum),
    "DFT": dft,
    "DeformConv": deformable_convolution,
    "DequantizeLinear": dequantize_linear,
    "Det": determinant,
    "EyeLike": eye_like,
    "LayerNormalization": _layer_normalization,
    "LpNormalization": _lp_normalization,
    "MatMulInteger": matmul_integer,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "OneHot": _one_hot,
    "Pad": pad,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
    "RMSNormalization": _rms_normalization,
    "Resize": _resize,
    "RoiAlign": roi_align,
    "STFT": stft,
    "SpaceToDepth": _space_to_depth,
    "Split": split,
    "Upsample": _resize,
}
