"""ONNX Runtime's operators on quantized tensors (com.microsoft), which its quantizer writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype
from tapml.importing.onnx_fused import embed_layer_norm
from tapml.importing.onnx_fused_attention import attention_of
from tapml.importing.onnx_operands import text
from tapml.importing.onnx_quantized import (
    along,
    centred,
    channels_first,
    channels_last,
    dequantize_linear,
    dequantized,
    dynamically,
    matmul_integer,
    one,
    qlinear_conv,
    quantize_linear,
    quantized,
    scaled,
)
from tapml.importing.onnx_recurrent import lstm
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

Attributes = Mapping[str, Any]

# ------------------------------------------------ dequantize, compute, quantize


def _between(compute: Callable[..., Expr], operands: int) -> Callable[..., Expr]:
    """An operator on numbers, of so many quantized operands (each with its scale and its zero point)."""

    def convert(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
        given = [*inputs, *[None] * (3 * operands + 2 - len(inputs))]
        numbers = [dequantized(builder, *given[3 * place : 3 * place + 3]) for place in range(operands)]
        found = builder.emit(compute(*numbers, attributes))
        scale, zero = given[3 * operands : 3 * operands + 2]
        return quantized(builder, found, scale, zero, tensor_dtype(inputs[0].ty) or "uint8")

    return convert


def _average(data: Expr, attributes: Attributes) -> Expr:
    return op.mean(data, list(range(2, data.ty.ndim)), keepdims=True)


def _average_pool(data: Expr, attributes: Attributes) -> Expr:
    rank, mode = data.ty.ndim - 2, text(attributes.get("auto_pad", b"NOTSET"))
    if mode not in ("NOTSET", "VALID"):
        raise InputError("a QLinearAveragePool with auto_pad SAME: write out its pads")
    if attributes.get("ceil_mode") and attributes.get("count_include_pad"):
        raise InputError("a QLinearAveragePool with ceil_mode that counts its padding: it is not agreed what counts")
    pool = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}.get(rank)
    if pool is None:
        raise InputError(f"a QLinearAveragePool along {rank} axes: WebGPU's kernels have 1 to 3")
    return pool(
        data,
        pool_size=list(attributes["kernel_shape"]),
        strides=list(attributes.get("strides") or [1] * rank),
        padding=list(attributes.get("pads") or [0] * 2 * rank),
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
        count_include_pad=bool(attributes.get("count_include_pad", 0)),
    )


def _channels(convert: Callable[..., Expr]) -> Callable[..., Expr]:
    """With channels along the last axis, where `channels_last` says so."""

    def converted(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
        if not attributes.get("channels_last"):
            return convert(builder, inputs, attributes)
        moved = channels_first(builder, inputs[0])
        return channels_last(builder, builder.emit(convert(builder, [moved, *inputs[1:]], attributes)))

    return converted


def _qlinear_softmax(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """As ONNX Runtime has it: one is a whole number of the result's steps, the largest that its scale has room for."""
    data, scale, zero, y_scale, y_zero = inputs
    if attributes.get("opset", 13) < 13:
        raise InputError("a QLinearSoftmax of an operator set before 13: export the model for a later one")
    if not isinstance(y_scale, tvm.ir.GenericConst):
        raise InputError("a QLinearSoftmax whose scale is computed: tapml needs a constant")
    steps = np.floor(np.float32(1) / y_scale.value.numpy().reshape(()))
    chances = op.nn.softmax(dequantized(builder, data, scale, zero), attributes.get("axis", -1))
    return quantized(builder, builder.emit(chances), relax.const(np.float32(1) / steps), y_zero)


def _qlinear_concat(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    scale, zero, *parts = inputs
    numbers = [dequantized(builder, *parts[place : place + 3]) for place in range(0, len(parts), 3)]
    return quantized(builder, builder.emit(op.concat(numbers, attributes["axis"])), scale, zero)


def _qlinear_where(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    condition, *given, scale, zero = inputs
    x, y = (dequantized(builder, *given[place : place + 3]) for place in (0, 3))
    return quantized(builder, builder.emit(op.where(condition, x, y)), scale, zero)


def _qgemm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """Without an output's scale: float32."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = (*inputs, None, None, None)[:9]
    emit = builder.emit
    axis = 0 if attributes.get("transB") else 1
    a = centred(builder, a, one(builder, a_zero), 0)
    b = centred(builder, b, b_zero, axis)
    a = emit(op.permute_dims(a)) if attributes.get("transA") else a
    b = emit(op.permute_dims(b)) if attributes.get("transB") else b
    total = emit(op.matmul(a, b, out_dtype="int32"))
    total = emit(op.add(total, c)) if c is not None else total
    a_scale = emit(op.multiply(one(builder, a_scale), relax.const(float(attributes.get("alpha", 1.0)), "float32")))
    b_scale = along(builder, total, b_scale, 1)
    if y_scale is not None:
        return scaled(builder, total, (a_scale, b_scale), y_scale, y_zero)
    return op.multiply(as_dtype(builder, total, "float32"), emit(op.multiply(a_scale, b_scale)))


def _matmul_integer_to_float(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (*inputs, None, None, None)[:7]
    emit = builder.emit
    total = emit(matmul_integer(builder, [a, b, one(builder, a_zero), b_zero], {}))
    scale = emit(op.multiply(one(builder, a_scale), along(builder, total, b_scale, -1)))
    found = emit(op.multiply(as_dtype(builder, total, "float32"), scale))
    return op.add(found, bias) if bias is not None else found


def _dynamic_quantize_matmul(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    a, b, b_scale, b_zero, bias = (*inputs, None, None)[:5]
    quantized, scale, zero = dynamically(builder, a)
    return _matmul_integer_to_float(builder, [quantized, b, scale, b_scale, zero, b_zero, bias], {})


def _matmul_integer_16(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    a, b = (as_dtype(builder, data, "int32") for data in inputs)
    return op.matmul(a, b, out_dtype="int32")


# ------------------------------------------------ models' layers


def _qattention(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    data, weight, bias, scale, weight_scale, mask, zero, weight_zero, past = (*inputs, *[None] * 4)[:9]
    product = [data, weight, scale, weight_scale, zero, weight_zero, bias]
    total = builder.emit(_matmul_integer_to_float(builder, product, {}))
    return attention_of(builder, total, mask, past, None, attributes)


def _qembed(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    words, segments, *tables = inputs[:7]
    mask, scales, zeros = inputs[7], inputs[8:13], inputs[13:18]
    given = [
        None if table is None else dequantized(builder, table, scale, zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    ]
    return embed_layer_norm(builder, [words, segments, *given, mask], attributes)


def _dynamic_lstm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """An LSTM whose input and whose state of each step are rounded to 8 bits before they are multiplied."""
    data, *weights = inputs[:3]
    rest, scales, zeros = inputs[3:8], inputs[8:12:2], inputs[9:12:2]

    def rounded(values: Expr) -> Expr:
        return dequantized(builder, *dynamically(builder, values))

    operands = []
    for weight, scale, zero in zip(weights, scales, zeros, strict=True):
        # [directions, size, gates]; one scale for each direction, or for each gate of it.
        found = dequantized(builder, weight, *(_by_direction(builder, each) for each in (scale, zero)))
        operands.append(builder.emit(op.permute_dims(found, [0, 2, 1])))
    defaults = {"direction": b"forward", "input_forget": 0}
    return lstm(builder, [rounded(data), *operands, *rest], {**defaults, **attributes}, rounded)


def _by_direction(builder: Expr, values: Expr) -> Expr:
    directions, *gates = axes_of(values)
    return builder.emit(op.reshape(values, [directions, 1, gates[0] if gates else 1]))


QLINEAR: Mapping[str, Callable[..., Any]] = {
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "MatMulInteger16": _matmul_integer_16,
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "QAttention": _qattention,
    "QEmbedLayerNormalization": _qembed,
    "QGemm": _qgemm,
    "QLinearAdd": _between(lambda a, b, _: op.add(a, b), 2),
    "QLinearAveragePool": _channels(_between(_average_pool, 1)),
    "QLinearConcat": _qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": _channels(_between(_average, 1)),
    "QLinearLeakyRelu": _between(lambda x, given: op.nn.leakyrelu(x, given.get("alpha", 0.01)), 1),
    "QLinearMul": _between(lambda a, b, _: op.multiply(a, b), 2),
    "QLinearSigmoid": _between(lambda x, _: op.sigmoid(x), 1),
    "QLinearSoftmax": _qlinear_softmax,
    "QLinearWhere": _qlinear_where,
    "QuantizeLinear": quantize_linear,
}
"""Operator -> its converter, as in `onnx_operators`."""
