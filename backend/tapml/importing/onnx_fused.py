"""ONNX Runtime's float operators (com.microsoft), which its optimizer fuses of ONNX's own: written out again.

Attention is in `onnx_fused_attention`, what computes with quantized tensors in `onnx_qlinear`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype
from tapml.importing.onnx_activations import activations
from tapml.importing.onnx_normalizations import rms_normalized
from tapml.importing.onnx_operands import text
from tapml.importing.onnx_quantized import convolved
from tapml.importing.onnx_tables import gather_block_quantized, weights_of_codes
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

Attributes = Mapping[str, Any]
Converter = Callable[[Expr, Sequence[Any], Attributes], Any]

# ------------------------------------------------ elementwise


def _with_bias(function: Callable[[Expr], Expr]) -> Converter:
    """A function of the first operand, to which the second is added where there is one."""

    def convert(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
        data, bias = (*inputs, None)[:2]
        return function(data if bias is None else builder.emit(op.add(data, bias)))

    return convert


def _quick_gelu(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    (data,) = inputs
    alpha = relax.const(attributes.get("alpha", 1.702), tensor_dtype(data.ty))
    return op.multiply(data, builder.emit(op.sigmoid(builder.emit(op.multiply(data, alpha)))))


def _activated(builder: Expr, data: Expr, name: str, numbers: Sequence[float]) -> Expr:
    """By an activation function and its numbers, in the order in which ONNX Runtime has them."""
    if not name:
        return data
    if name == "Clip":
        return op.clip(data, numbers[0], numbers[1])
    given = {"activation_alpha": list(numbers[:1]), "activation_beta": list(numbers[1:2])}
    (function,) = activations({"activations": [name.encode()], **given}, ["Relu"])
    return function(builder, data)


# ------------------------------------------------ products


def _fused_conv(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """A convolution, to which a bias and a tensor are added before the activation function."""
    data, weight, bias, added = (*inputs, None, None)[:4]
    total = builder.emit(convolved(builder, data, weight, attributes, tensor_dtype(data.ty) or ""))
    if bias is not None:
        total = builder.emit(op.add(total, _by_channel(builder, bias, total)))
    if added is not None:
        total = builder.emit(op.add(total, added))
    return _activated(
        builder, total, text(attributes.get("activation", b"")), attributes.get("activation_params") or ()
    )


def _by_channel(builder: Expr, values: Expr, data: Expr) -> Expr:
    return builder.emit(op.reshape(values, [1, -1, *[1] * (data.ty.ndim - 2)]))


def _fused_gemm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    a, b, c = (*inputs, None)[:3]
    total = builder.emit(_fused_matmul(builder, [a, b], attributes))
    if c is not None:
        total = builder.emit(op.add(total, _times(builder, c, attributes.get("beta", 1.0))))
    numbers = [attributes.get(f"activation_{name}", 0.0) for name in ("alpha", "beta")]
    return _activated(builder, total, text(attributes.get("activation", b"")), numbers)


def _fused_matmul(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """Each operand may be transposed first: its last two axes, or its first one to stand before the last."""
    a, b = (
        _turned(builder, data, bool(attributes.get(f"trans{name}")), bool(attributes.get(f"transBatch{name}")))
        for name, data in zip("AB", inputs, strict=True)
    )
    return _times(builder, builder.emit(op.matmul(a, b)), attributes.get("alpha", 1.0))


def _turned(builder: Expr, data: Expr, last: bool, batch: bool) -> Expr:
    order = list(range(data.ty.ndim))
    if len(order) < 2:
        return data
    if batch:
        order = [*order[1:-1], 0, order[-1]]
    if last:
        order = [*order[:-2], order[-1], order[-2]]
    return data if order == sorted(order) else builder.emit(op.permute_dims(data, order))


def _times(builder: Expr, data: Expr, factor: float) -> Expr:
    return data if factor == 1 else builder.emit(op.multiply(data, relax.const(factor, tensor_dtype(data.ty))))


def _matmul_codes(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """By weights of 4 bits that say which of sixteen numbers they are: bitsandbytes'."""
    data, weight, largest = inputs
    return op.matmul(data, weights_of_codes(weight, largest, attributes))


# ------------------------------------------------ normalization


def _skip_layer_norm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Any]:
    """Of a sum, which is the last output; ONNX Runtime computes neither the second nor the third."""
    data, skip, gamma, beta, bias = (*inputs, None, None)[:5]
    total = _summed(builder, data, skip, bias)
    return [_layer_norm(builder, total, gamma, beta, attributes), None, None, total]


def _skip_rms_norm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Any]:
    data, skip, gamma, bias = (*inputs, None)[:4]
    total = _summed(builder, data, skip, bias)
    return [rms_normalized(builder, total, gamma, [-1], attributes.get("epsilon", 1e-12))[0], None, None, total]


def _summed(builder: Expr, *terms: Any) -> Expr:
    total, *rest = (term for term in terms if term is not None)
    for term in rest:
        total = builder.emit(op.add(total, term))
    return total


def _layer_norm(builder: Expr, data: Expr, gamma: Expr, beta: Any, attributes: Attributes) -> Expr:
    beta = builder.emit(op.zeros_like(gamma)) if beta is None else beta
    return builder.emit(op.nn.layer_norm(data, gamma, beta, [-1], attributes.get("epsilon", 1e-12)))


def embed_layer_norm(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """Words, their places and their segments by tables, normalized; how many words there are by a mask; and the sum."""
    words, segments, of_words, of_places, of_segments, gamma, beta, mask, places = (*inputs, None, None)[:9]
    emit = builder.emit
    batch, length = axes_of(words)
    if places is None:
        places = emit(op.arange(0, length, 1, "int64"))
    total = emit(op.add(emit(op.take(of_words, words, axis=0)), emit(op.take(of_places, places, axis=0))))
    if segments is not None:
        total = emit(op.add(total, emit(op.take(of_segments, segments, axis=0))))
    if mask is None:
        count = emit(op.zeros(relax.ShapeExpr([batch]), "int32"))
    else:
        one = emit(op.equal(mask, relax.const(1, tensor_dtype(mask.ty))))
        count = emit(op.sum(emit(op.astype(one, "int32")), axis=1))
    return [_layer_norm(builder, total, gamma, beta, attributes), count, total]


# ------------------------------------------------ others


def _nhwc_max_pool(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """Of 8-bit integers, channels last."""
    (data,) = inputs
    if data.ty.ndim != 4:
        raise InputError("an NhwcMaxPool along other axes than two: export the model with channels first")
    if text(attributes.get("auto_pad", b"NOTSET")) not in ("NOTSET", "VALID"):
        raise InputError("an NhwcMaxPool with auto_pad SAME: export the model with channels first")
    emit, dtype = builder.emit, tensor_dtype(data.ty)
    top, left, bottom, right = attributes.get("pads") or [0] * 4
    moved = emit(op.permute_dims(as_dtype(builder, data, "int32"), [0, 3, 1, 2]))
    pooled = op.nn.max_pool2d(
        moved,
        list(attributes["kernel_shape"]),
        list(attributes.get("strides") or [1, 1]),
        [top, left, bottom, right],
        list(attributes.get("dilations") or [1, 1]),
        bool(attributes.get("ceil_mode", 0)),
    )
    return op.astype(emit(op.permute_dims(emit(pooled), [0, 2, 3, 1])), dtype)


def _expand_dims(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    data, axis = inputs
    if not isinstance(axis, tvm.ir.GenericConst):
        raise InputError("an ExpandDims whose axis is computed: tapml needs a constant")
    return op.expand_dims(data, int(np.asarray(axis.value.numpy()).item()))


FUSED: Mapping[str, Converter] = {
    "BiasGelu": _with_bias(op.nn.gelu),
    "EmbedLayerNormalization": embed_layer_norm,
    "ExpandDims": _expand_dims,
    "FastGelu": _with_bias(op.nn.gelu_tanh),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "GatherBlockQuantized": gather_block_quantized,
    "Gelu": _with_bias(op.nn.gelu),
    "MatMulBnb4": _matmul_codes,
    "NhwcMaxPool": _nhwc_max_pool,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "TransposeMatMul": _fused_matmul,
}
"""Operator -> its converter, as in `onnx_operators`."""
