"""Element-wise operators and reductions of PyTorch, with its rules for operands of several dtypes.

TVM's importer makes a number of the dtype of the tensor beside it (`x / 2.5` of integers divides by 2), leaves `alpha`
out, and does floating-point functions of integers, and sums of bools, in the operand's own dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from tapml.importing.logarithms import log1p, softplus
from tapml.importing.relax_ir import Expr, tensor_dtype

Converter = Callable[[Any, Any], Any]
"""From an FX node and the importer to a Relax variable."""

_JOINED: Mapping[str, Callable[..., Any]] = {
    "add": op.add,
    "sub": op.subtract,
    "mul": op.multiply,
    "div": op.divide,
    "floor_divide": op.floor_divide,
    "remainder": op.floor_mod,
    "fmod": op.mod,
    "pow": op.power,
    "maximum": op.maximum,
    "minimum": op.minimum,
    "eq": op.equal,
    "ne": op.not_equal,
    "lt": op.less,
    "le": op.less_equal,
    "gt": op.greater,
    "ge": op.greater_equal,
    "bitwise_and": op.bitwise_and,
    "bitwise_or": op.bitwise_or,
    "bitwise_xor": op.bitwise_xor,
    "bitwise_left_shift": op.left_shift,
    "bitwise_right_shift": op.right_shift,
    "__lshift__": op.left_shift,
    "__rshift__": op.right_shift,
    "atan2": op.atan2,
}
_OF_NAN = (op.equal, op.not_equal, op.less_equal, op.greater_equal)
"""Which tell NaN by comparing it with itself."""

_FORMS = ("Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "default")

_FUNCTIONS = (
    "acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log2 reciprocal rsqrt sigmoid silu sin "
    "sinh sqrt tan tanh sum mean prod cumsum cumprod"
)
_CAST_FIRST = (*(f"{name}.default" for name in _FUNCTIONS.split()), "sum.dim_IntList", "mean.dim")
"""Floating-point functions, which PyTorch takes of integers and bools as well, and what is reduced in the result's
dtype from the first step on."""


def arithmetic() -> dict[str, Converter]:
    """By the operator's name as the importer spells it."""
    found: dict[str, Converter] = {
        f"{name}.{form}": partial(_joined, function) for name, function in _JOINED.items() for form in _FORMS
    }
    found |= dict.fromkeys(_CAST_FIRST, _cast_first)
    found |= dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), _subtracted_from)
    found |= dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), _divided)
    found |= {"amax.default": partial(_reduced, op.max), "amin.default": partial(_reduced, op.min)}
    found |= {"any.default": _any, "any.dim": _any, "any.dims": _any, "prod.dim_int": partial(_reduced, op.prod)}
    found |= {"max.dim": partial(_found, op.max, op.argmax), "min.dim": partial(_found, op.min, op.argmin)}
    found |= dict.fromkeys(("clamp.default", "clamp.Tensor"), partial(_clamped, op.maximum, op.minimum))
    found |= {"clamp_min.default": partial(_clamped, op.maximum), "clamp_max.default": partial(_clamped, op.minimum)}
    found |= {"log1p.default": _log1p, "softplus.default": _softplus}
    return found | {"where.self": _chosen, "cat.default": _concatenated}


def as_tensor(importer: Any, value: Any, dtype: str) -> Expr:
    """A tensor, a number or a size as a tensor of `dtype`."""
    emit = importer.block_builder.emit
    if not isinstance(value, tvm.ir.Expr):
        return relax.const(value, dtype)
    if tvm.ir.is_prim_expr(value):
        value = emit(op.reshape(emit(op.shape_to_tensor(relax.ShapeExpr([value]))), []))
    return value if tensor_dtype(value.ty) == dtype else emit(op.astype(value, dtype))


def _common(operands: Any) -> str:
    """The dtype of what PyTorch makes of two operands together."""
    import torch

    def plain(operand: Any) -> Any:
        value = getattr(operand, "meta", {}).get("val", operand)
        numbers = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
        return numbers.get(type(value), value)

    return str(torch.result_type(*map(plain, operands))).removeprefix("torch.")


def _joined(function: Callable[..., Any], node: Any, importer: Any) -> Any:
    left, right = node.args[:2]
    if not any(hasattr(getattr(found, "meta", {}).get("val"), "shape") for found in (left, right)):
        return importer.as_tvm(node)  # of sizes
    dtype, emit = _common((left, right)), importer.block_builder.emit
    if function is op.divide and "float" not in dtype:
        dtype = "float32"
    a, b = (as_tensor(importer, found, dtype) for found in importer.retrieve_args(node)[:2])
    if left is right and "float" in dtype and function in _OF_NAN:
        unlike = emit(op.isnan(a))  # TVM takes it that a number is like itself
        return unlike if function is op.not_equal else emit(op.logical_not(unlike))
    return emit(function(a, _scaled(importer, b, node.kwargs.get("alpha", 1), dtype)))


def _subtracted_from(node: Any, importer: Any) -> Any:
    dtype, given = _common(node.args[:2]), importer.retrieve_args(node)
    a, b = (as_tensor(importer, found, dtype) for found in given[:2])
    alpha = given[2] if len(given) > 2 else node.kwargs.get("alpha", 1)
    return importer.block_builder.emit(op.subtract(b, _scaled(importer, a, alpha, dtype)))


def _scaled(importer: Any, value: Expr, factor: Any, dtype: str) -> Expr:
    if factor == 1:
        return value
    return importer.block_builder.emit(op.multiply(value, as_tensor(importer, factor, dtype)))


def _divided(node: Any, importer: Any) -> Any:
    """Division rounded down ("floor"), towards zero ("trunc") or not at all."""
    emit, mode = importer.block_builder.emit, node.kwargs.get("rounding_mode")
    dtype = _common(node.args[:2])
    if mode is None and "float" not in dtype:
        dtype = "float32"
    left, right = (as_tensor(importer, found, dtype) for found in importer.retrieve_args(node)[:2])
    if mode == "floor":
        return emit(op.floor_divide(left, right))
    # On integers Relax's divide rounds towards zero.
    quotient = emit(op.divide(left, right))
    return emit(op.trunc(quotient)) if mode == "trunc" and "float" in dtype else quotient


def _chosen(node: Any, importer: Any) -> Any:
    """Of two tensors that may be of different dtypes."""
    dtype = _common(node.args[1:3])
    condition, *given = importer.retrieve_args(node)
    values = (as_tensor(importer, found, dtype) for found in given)
    return importer.block_builder.emit(op.where(as_tensor(importer, condition, "bool"), *values))


def _concatenated(node: Any, importer: Any) -> Any:
    """Of tensors that may be of different dtypes; PyTorch leaves out those of no elements and one axis."""
    (given, *_), axis = importer.retrieve_args(node), node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    wanted = node.meta["val"]
    dtype = str(wanted.dtype).removeprefix("torch.")
    fits = [found for found in given if found.ty.ndim == len(wanted.shape)]
    parts = [as_tensor(importer, found, dtype) for found in fits]
    return parts[0] if len(parts) == 1 else importer.block_builder.emit(op.concat(parts, axis))


def _clamped(*limits: Any) -> Any:
    """By numbers or tensors, any of which may be left out; on integers an infinite one means nothing."""
    *functions, node, importer = limits
    data, *ends = importer.retrieve_args(node)
    ends += [node.kwargs.get(name) for name in ("min", "max")[len(ends) : len(functions)]]
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    data = as_tensor(importer, data, dtype)
    for function, end in zip(functions, ends, strict=False):
        if end is not None and not (isinstance(end, float) and math.isinf(end) and "float" not in dtype):
            data = importer.block_builder.emit(function(data, as_tensor(importer, end, dtype)))
    return data


def _reduced(function: Callable[..., Any], node: Any, importer: Any) -> Any:
    """Along some axes, or all; in the result's dtype from the first step on."""
    data, dims, keep = _reduction(node, importer)
    data = as_tensor(importer, data, str(node.meta["val"].dtype).removeprefix("torch."))
    return importer.block_builder.emit(function(data, dims, keepdims=keep))


def _reduction(node: Any, importer: Any) -> tuple[Expr, Any, bool]:
    """The operand, the axes (None for all), and whether they are kept."""
    given: list[Any] = [*importer.retrieve_args(node)]
    given += [None, False][len(given) - 1 :]
    data, dims, keep = given
    return data, dims if isinstance(dims, int) or dims else None, bool(keep)


def _any(node: Any, importer: Any) -> Any:
    data, dims, keep = _reduction(node, importer)
    emit = importer.block_builder.emit
    truths = emit(op.astype(as_tensor(importer, data, "bool"), "int32"))
    return emit(op.astype(emit(op.max(truths, dims, keepdims=keep)), "bool"))


def _found(function: Callable[..., Any], place: Callable[..., Any], node: Any, importer: Any) -> Any:
    """The extreme along an axis, and its place: that of the first of equals."""
    data, axis, keep = (*importer.retrieve_args(node), False)[:3]
    emit, scalar = importer.block_builder.emit, data.ty.ndim == 0
    if scalar:
        data, axis, keep = emit(op.reshape(data, [1])), 0, False
    places = emit(place(data, axis, keepdims=keep))
    places = places if tensor_dtype(places.ty) == "int64" else emit(op.astype(places, "int64"))
    return emit(relax.Tuple([emit(function(data, axis, keepdims=keep)), places]))


def _cast_first(node: Any, importer: Any) -> Any:
    """What TVM's converter gives for its operand in the result's dtype."""
    operand = node.args[0]
    before = importer.env[operand]
    importer.env[operand] = as_tensor(importer, before, str(node.meta["val"].dtype).removeprefix("torch."))
    try:
        return importer.as_tvm(node)
    finally:
        importer.env[operand] = before


def _log1p(node: Any, importer: Any) -> Any:
    return log1p(importer.block_builder, _operand(node, importer))


def _softplus(node: Any, importer: Any) -> Any:
    """As PyTorch has it: what lies above a threshold stays what it is."""
    builder, data, given = importer.block_builder, _operand(node, importer), node.args[1:]
    beta, threshold = (given[n] if n < len(given) else usual for n, usual in enumerate((1.0, 20.0)))
    dtype, emit = str(tensor_dtype(data.ty)), builder.emit
    scaled = _scaled(importer, data, beta, dtype)
    found = softplus(builder, scaled)
    found = found if beta == 1 else emit(op.divide(found, relax.const(beta, dtype)))
    return emit(op.where(emit(op.greater(scaled, relax.const(threshold, dtype))), data, found))


def _operand(node: Any, importer: Any) -> Expr:
    """The only tensor, in the result's dtype."""
    return as_tensor(importer, importer.env[node.args[0]], str(node.meta["val"].dtype).removeprefix("torch."))
