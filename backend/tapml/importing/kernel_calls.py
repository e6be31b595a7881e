"""Calls of kernels that the importer writes itself: on dtypes that WebGPU stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tvm import relax
from tvm.relax import op

from tapml.importing.dtypes import stored
from tapml.importing.relax_ir import Expr, tensor_dtype

_OPAQUE = 8
"""TVM's pattern of what is not fused."""


def call(
    builder: Expr,
    function: Callable[..., Any],
    tensors: Sequence[Expr],
    *rest: Any,
    name: str,
    alone: bool = False,
    attributes: Mapping[str, str] = MappingProxyType({}),
) -> Expr:
    """`function` of TE tensors, then `rest`, as a kernel called `name`: a tensor, or a tuple where it gives a list.

    Tensors, and so what it gives, have the dtypes that are stored (`as_dtype` gives them another's name again).
    `alone`: what reads the result does not compute it anew; `attributes` of its PrimFunc are for those only.
    """
    operands = [in_stored(builder, tensor) for tensor in tensors]
    hints = {"primfunc_name_hint": name, **({"primfunc_attrs": {"op_pattern": _OPAQUE, **attributes}} if alone else {})}
    return builder.emit(builder.call_te(lambda *tensors: function(*tensors, *rest), *operands, **hints))


def call_several(builder: Expr, function: Callable[..., Any], tensors: Sequence[Expr], *rest: Any, name: str) -> Any:
    """As `call`, of a function that gives a list: the tensors, one by one."""
    made = call(builder, function, tensors, *rest, name=name, alone=True)
    return [builder.emit(relax.TupleGetItem(made, place)) for place in range(len(made.ty.fields))]


def call_program(
    builder: Expr, function: Any, tensors: Sequence[Expr], results: Sequence[tuple[Sequence[int], str]]
) -> list[Expr]:
    """A PrimFunc on tensors of stored dtypes: the tensors that it gives, of `results`' shapes and dtypes."""
    types = [relax.TensorType(list(shape), dtype) for shape, dtype in results]
    operands = [in_stored(builder, tensor) for tensor in tensors]
    variable = builder.add_func(function, str(function.attrs["global_symbol"]))
    made = builder.emit(relax.call_tir(variable, operands, types if len(types) > 1 else types[0]))
    if len(types) == 1:
        return [made]
    return [builder.emit(relax.TupleGetItem(made, place)) for place in range(len(types))]


def in_stored(builder: Expr, tensor: Expr) -> Expr:
    """In the dtype that stands for its own."""
    return as_dtype(builder, tensor, stored(tensor_dtype(tensor.ty) or ""))


def as_dtype(builder: Expr, tensor: Expr, dtype: str | None) -> Expr:
    return tensor if tensor_dtype(tensor.ty) == dtype else builder.emit(op.astype(tensor, dtype))
