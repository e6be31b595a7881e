"""ONNX's LayerNormalization, RMSNormalization and LpNormalization in terms of Relax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax
from tvm.relax import op

from tapml.importing.kernel_calls import as_dtype
from tapml.importing.relax_ir import Expr, tensor_dtype

Attributes = Mapping[str, Any]


def layer_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr] | None:
    """With mean and inverse standard deviation, which TVM's importer leaves out; it has a kernel of its own for the
    normalization alone.
    """
    if attributes["outputs"] == 1:
        return None
    data, scale, bias = (*inputs, None)[:3]
    axes = _from(data, attributes["axis"])
    emit = builder.emit
    values = as_dtype(builder, data, "float32")
    mean = emit(op.mean(values, axes, keepdims=True))
    centred = emit(op.subtract(values, mean))
    spread = emit(op.mean(emit(op.multiply(centred, centred)), axes, keepdims=True))
    inverse = emit(op.rsqrt(emit(op.add(spread, relax.const(attributes["epsilon"], "float32")))))
    result = emit(op.multiply(as_dtype(builder, emit(op.multiply(centred, inverse)), tensor_dtype(data.ty)), scale))
    return [result if bias is None else op.add(result, bias), mean, inverse]


def rms_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """ONNX's, and ONNX Runtime's SimplifiedLayerNormalization, which gives the inverse root as well."""
    data, scale = inputs
    axes = _from(data, attributes.get("axis", -1))
    return rms_normalized(builder, data, scale, axes, attributes.get("epsilon", 1e-5))


def rms_normalized(builder: Expr, data: Expr, scale: Expr, axes: list[int], epsilon: float) -> list[Expr]:
    """Over `axes`, computed in float32; and one by the root of the mean square."""
    emit = builder.emit
    values = as_dtype(builder, data, "float32")
    square = emit(op.mean(emit(op.multiply(values, values)), axes, keepdims=True))
    root = emit(op.sqrt(emit(op.add(square, relax.const(epsilon, "float32")))))
    normalized = as_dtype(builder, emit(op.divide(values, root)), tensor_dtype(data.ty))
    return [op.multiply(normalized, scale), op.divide(relax.const(1, "float32"), root)]


def lp_normalization(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """0 where the norm is 0."""
    (data,), axis, emit = inputs, attributes["axis"], builder.emit
    if attributes["p"] == 1:
        norm = emit(op.sum(emit(op.abs(data)), axis, keepdims=True))
    else:
        norm = emit(op.sqrt(emit(op.sum(emit(op.multiply(data, data)), axis, keepdims=True))))
    zero = relax.const(0, tensor_dtype(data.ty))
    return op.where(emit(op.equal(norm, zero)), zero, emit(op.divide(data, norm)))


def _from(data: Expr, axis: int) -> list[int]:
    """The axes from one to the last."""
    rank = data.ty.ndim
    return list(range(axis % rank, rank))
