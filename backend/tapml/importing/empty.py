"""Tensors without elements: what they are made of, and what is made of them, is known at import.

No buffer of WebGPU is empty, so that no kernel may take or give such a tensor. Their values are constants of the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr, names, operator_name, static_shape, tensor_dtype
from tapml.program.graph import numpy_dtype

_ZERO = names("sum matmul")
_NOT_A_NUMBER = names("mean variance std")
_EXTREMA = {"relax.max": -1, "relax.min": 1}
"""Of no elements they are the end of the dtype's range on this side."""

_KEPT = names("scatter_elements scatter_nd index_put")
"""They give their first operand, where nothing else is to be put into it."""


def is_empty(ty: Expr) -> bool:
    """Whether a type is that of a tensor without elements, whatever its other sizes are."""
    shape = getattr(ty, "shape", None)
    return isinstance(shape, relax.ShapeExpr) and any(getattr(size, "value", None) == 0 for size in shape.values)


def without_empty(var: Expr, value: Expr) -> Expr | None:
    """What `var` is where it has no elements, or is computed of tensors that have none: a constant, or an expression of
    the other operands. None where it is neither.

    Raises InputError for an operator of which it is not known what it makes of nothing.
    """
    if is_empty(var.ty):
        return relax.const(np.zeros(static_shape(var.ty) or (0,), _numpy(var.ty)))
    if not isinstance(value, tvm.ir.Call) or not any(map(_mentions_empty, value.args)):
        return None
    name, shape = operator_name(value), static_shape(var.ty)
    if name in ("relax.shape_of", "relax.call_dps_packed"):
        return None
    if name == "relax.concat":
        others = [field for field in value.args[0].fields if not is_empty(field.ty)]
        return others[0] if len(others) == 1 else op.concat(others, axis=value.attrs.axis)
    if name in _KEPT and not is_empty(value.args[0].ty):
        return value.args[0]
    found = _of_nothing(name, _numpy(var.ty)) if shape is not None else None
    if found is None:
        raise InputError(
            f"{name.removeprefix('relax.')} (at {var.name}) takes a tensor without elements and gives one that has "
            "some: tapml does not know of what; give inputs that are not empty"
        )
    return relax.const(np.full(shape or (), found, _numpy(var.ty)))


def _mentions_empty(argument: Expr) -> bool:
    if isinstance(argument, relax.Tuple):
        return any(is_empty(field.ty) for field in argument.fields)
    return is_empty(getattr(argument, "ty", None))


def _of_nothing(name: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction begins with."""
    if name in _ZERO:
        return 0
    if name == "relax.prod":
        return 1
    if name in _NOT_A_NUMBER and dtype.kind == "f":
        return np.nan
    if name not in _EXTREMA:
        return None
    side = _EXTREMA[name]
    if dtype.kind == "b":
        return side > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if side > 0 else np.iinfo(dtype).min
    return side * np.inf


def _numpy(ty: Expr) -> np.dtype[Any]:
    return numpy_dtype(tensor_dtype(ty) or "float32")
