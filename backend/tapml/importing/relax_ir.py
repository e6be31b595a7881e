"""What Relax expressions and types say."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tapml.errors import InputError

Expr: TypeAlias = Any
"""A Relax expression; TVM's Python types are not visible to mypy."""


def names(text: str) -> frozenset[str]:
    """Names of operators, such as `relax.add`, of a list of words."""
    return frozenset(f"relax.{name}" for name in text.split())


def operator_name(call: Expr) -> str:
    """`relax.add` for an operator, the symbol of a function otherwise."""
    if isinstance(call.op, tvm.ir.Op):
        return str(call.op.name)
    return str(getattr(call.op, "name_hint", call.op))


def attributes(call: Expr) -> dict[str, Any]:
    """An operator call's attributes by name; empty where it has none."""
    if call.attrs is None:
        return {}
    fields = type(call.attrs).__tvm_ffi_type_info__.fields
    return {field.name: getattr(call.attrs, field.name) for field in fields}


def with_attributes(call: Expr, **changed: Any) -> Expr:
    """The attributes of `call` with some of them changed."""
    key = type(call.attrs).__tvm_ffi_type_info__.type_key
    return tvm.ir.make_node(key, **{**attributes(call), **changed})


def tensor_dtype(ty: Expr) -> str | None:
    """A tensor type's dtype; None for other types and for tensors of unknown dtype."""
    if not isinstance(ty, relax.TensorType) or ty.dtype is None:
        return None
    return str(ty.dtype)


def tensor_types(ty: Expr) -> list[Expr]:
    """A type itself, or those in a tuple type."""
    return [found for field in ty.fields for found in tensor_types(field)] if isinstance(ty, relax.TupleType) else [ty]


def static_shape(ty: Expr) -> tuple[int, ...] | None:
    """A tensor type's dimensions where all are known numbers, else None."""
    if not isinstance(getattr(ty, "shape", None), relax.ShapeExpr):
        return None
    sizes = [getattr(dimension, "value", None) for dimension in ty.shape.values]
    return None if None in sizes else tuple(int(size) for size in sizes if size is not None)


def axes_of(tensor: Expr) -> list[Any]:
    """The sizes of an expression whose rank is known: integers, or TVM's expressions where they vary.

    Raises InputError where they depend on the values of the input.
    """
    if not isinstance(getattr(tensor.ty, "shape", None), relax.ShapeExpr):
        raise InputError("a shape depends on the values of the input: tapml needs shapes of sizes")
    return [getattr(axis, "value", axis) for axis in tensor.ty.shape.values]


def elements(constant: Expr) -> np.ndarray:
    """Of a constant, in its own memory."""
    found: np.ndarray = np.from_dlpack(constant.value)
    return found
