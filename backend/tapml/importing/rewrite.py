"""Walk Relax expressions and build them anew, with other variables, symbols and types put in."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import tvm
from tvm import relax

from tapml.errors import InputError

Expr: TypeAlias = Any
"""A Relax expression; TVM's Python types are not visible to mypy."""


def operator_name(call: Expr) -> str:
    """`relax.add` for an operator, the symbol of a function otherwise."""
    if isinstance(call.op, tvm.ir.Op):
        return str(call.op.name)
    return str(getattr(call.op, "name_hint", call.op))


def reason(error: Exception) -> str:
    """The last line of an error's text, for a sentence; operators that TVM prints in full are
    shortened.
    """
    text = re.sub(r'ir\.Op\(.*?name="([^"]+)".*?support_level=\d+\)', r"\1", str(error), flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


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
    """A tensor type's (or shape type's) dimensions where all are known numbers, else None."""
    values = getattr(ty, "values", None)
    if values is None and getattr(ty, "shape", None) is not None:
        values = getattr(ty.shape, "values", None)
    if values is None:
        return None
    sizes = [getattr(dimension, "value", None) for dimension in values]
    return None if None in sizes else tuple(int(size) for size in sizes if size is not None)


def variables_in(expr: Expr) -> list[Expr]:
    """The Relax variables an expression reads."""
    if isinstance(expr, tvm.ir.Var):
        return [expr]
    if isinstance(expr, relax.Tuple):
        parts = list(expr.fields)
    elif isinstance(expr, relax.TupleGetItem):
        parts = [expr.tuple_value]
    elif isinstance(expr, tvm.ir.Call):
        parts = list(expr.args)
    else:
        return []
    return [variable for part in parts for variable in variables_in(part)]


def symbols_in(expr: Expr) -> list[Expr]:
    """The symbolic dimensions in a scalar expression."""
    if isinstance(expr, tvm.ir.Var):
        return [expr]
    found: list[Expr] = []
    for part in (getattr(expr, "a", None), getattr(expr, "b", None), getattr(expr, "value", None)):
        if part is not None and not isinstance(part, int | float):
            found += symbols_in(part)
    return found + [s for argument in getattr(expr, "args", []) for s in symbols_in(argument)]


class Rewriter:
    """Rebuilds expressions under an environment.

    `variables` maps each Relax variable met so far to the expression in its place; `symbols` maps
    symbolic dimensions to their numbers. Subclasses override `call` and `constant`.
    """

    def __init__(self) -> None:
        self.variables: dict[Expr, Expr] = {}
        self.symbols: dict[Expr, int] = {}

    def visit(self, expr: Expr) -> Expr:
        """`expr` with everything replaced; raises InputError for what is no plain data flow."""
        if tvm.ir.is_prim_expr(expr):
            return self.dimension(expr)
        if isinstance(expr, tvm.ir.Var):
            return self.variables[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            return self.constant(expr)
        if isinstance(expr, relax.ShapeExpr):
            return relax.ShapeExpr([self.dimension(value) for value in expr.values])
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.visit(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            source = self.visit(expr.tuple_value)
            if isinstance(source, relax.Tuple):
                return source.fields[expr.index]
            return relax.TupleGetItem(source, expr.index)
        if isinstance(expr, tvm.ir.Call):
            return self.call(expr)
        if isinstance(expr, relax.Function | relax.If):
            raise InputError(f"the model has a {type(expr).__name__} that tapml cannot carve")
        return expr

    def constant(self, expr: Expr) -> Expr:
        return expr

    def call(self, expr: Expr) -> Expr:
        arguments = [self.visit(argument) for argument in expr.args]
        return self.rebuilt(expr, arguments, expr.attrs)

    def rebuilt(self, expr: Expr, arguments: list[Expr], attrs: Expr) -> Expr:
        """A call of the same operator; its type is inferred again when it is emitted."""
        return tvm.ir.Call(expr.op, arguments, attrs, [self.type(ty) for ty in expr.ty_args or []])

    def dimension(self, expr: Expr) -> Expr:
        """A scalar expression with the known symbols put in."""
        if not self.symbols:
            return expr
        analyzer = tvm.sym.Analyzer()
        for symbol, value in self.symbols.items():
            analyzer.bind(symbol, tvm.tirx.const(value, "int64"))
        return analyzer.simplify(expr)

    def type(self, ty: Expr) -> Expr:
        if isinstance(ty, relax.TensorType) and getattr(ty.shape, "values", None) is not None:
            return relax.TensorType([self.dimension(value) for value in ty.shape.values], ty.dtype)
        if isinstance(ty, relax.TupleType):
            return relax.TupleType([self.type(field) for field in ty.fields])
        return ty
