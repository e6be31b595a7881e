"""Rebuild a model so that no tensor of a dtype WebGPU lacks crosses a kernel's boundary.

64-bit numbers become their 32-bit kin. A bool tensor becomes an int32 of zeros and ones: an
operator that makes one is followed by a cast to int32, one that wants one is preceded by a cast
back to bool. Fusion then merges each cast into the kernel beside it, so bool lives in registers
only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing import portable
from tapml.importing.dtypes import SMALL, stored
from tapml.importing.fold import Folded
from tapml.importing.indices import INDEXING
from tapml.importing.masks import chosen, limited, overflowing_sums
from tapml.importing.model import Array, Computed
from tapml.importing.relax_ir import (
    Expr,
    attributes,
    names,
    operator_name,
    tensor_dtype,
    tensor_types,
    with_attributes,
)
from tapml.importing.weights import Weights
from tapml.lowering.legalize import Alike
from tapml.lowering.quiet import reason

_WITHIN = names(
    # They move elements about.
    "broadcast_to concat expand_dims flatten flip gather_elements gather_nd index_put index_tensor "
    "meshgrid permute_dims repeat reshape scatter_elements scatter_nd slice_scatter split squeeze "
    "stack strided_slice take tile tril triu zeros_like ones_like full_like full sort topk "
    # They give one of them.
    "maximum minimum max min argmax argmin nn.max_pool1d nn.max_pool2d nn.max_pool3d where clip quantize "
    "equal not_equal less less_equal greater greater_equal"
)
"""Operators whose result has no number that is beyond the range of its operands' dtype."""

_INDIFFERENT = (_WITHIN - names("sort topk nn.max_pool1d nn.max_pool2d nn.max_pool3d where clip quantize")) | names(
    # On zeros and ones they give the same for int32 as for bool.
    "bitwise_and bitwise_or bitwise_xor logical_xor multiply prod"
)
"""Operators that take the int32 form of a bool tensor as it is."""

_SAME_ON_BOOL = {"relax.bitwise_not": op.logical_not, "relax.add": op.logical_or}
"""What an operator means when its operands are bool, where WGSL has no such operator on bool."""

_DIVISIONS = names("divide mod floor_mod floor_divide")

_LIMITED = (
    "masks that are added to each other before softmax are limited to half of the lowest number: their sum would "
    "overflow, for which WGSL promises nothing; softmax makes the same of both"
)

_DTYPE_ATTRIBUTES = ("dtype", "out_dtype")


@dataclass(frozen=True)
class Narrowed:
    """A module whose main takes the inputs, then `parameters`."""

    module: tvm.IRModule
    parameters: list[tuple[str, Array]]
    output_dtypes: list[str]
    notes: list[str]
    computed: Mapping[Expr, Sequence[Computed]]
    """The parameters that folding computed, by the variables that it computed them for."""


def narrow(
    program: Folded,
    tensors: Iterable[tuple[str, Array]],
    unread: Collection[int] = (),
    held: Mapping[str, Array] = MappingProxyType({}),
) -> Narrowed:
    """Rebuild `program` with its constants lifted to parameters, named after `tensors`; `unread` and `held` as in
    Weights.

    Raises InputError where a value does not fit its narrower dtype, or an operator insists on one
    WebGPU lacks.
    """
    return _Narrower(program, Weights(tensors, unread, held)).run()


class _Narrower:
    def __init__(self, program: Folded, weights: Weights) -> None:
        self._program = program
        self._weights = weights
        self._builder = relax.BlockBuilder()
        self._variables: dict[Expr, Expr] = {}
        """What each variable met so far is in the narrow world."""
        self._sums = overflowing_sums(program, weights.is_unread)
        self._limited = False
        self._alike: defaultdict[str, Alike] = defaultdict(Alike)

    def run(self) -> Narrowed:
        program, weights = self._program, self._weights
        weights.note_uses(value for _, value in program.bindings)
        inputs = [relax.Var(p.name, self._input_type(p)) for p in program.parameters]
        self._variables.update(zip(program.parameters, inputs, strict=True))
        with self._builder.function("main"):
            with self._builder.dataflow():
                for var, value in program.bindings:
                    self._variables[var] = self._bound(var, value)
                result = self._builder.emit_output(self._visit(program.result))
            self._builder.emit_func_output(result, params=[*inputs, *weights.variables])
        module = self._builder.finalize()
        dtypes = _dtypes(module["main"].ret_ty)
        notes = [*weights.notes, *([_LIMITED] if self._limited else [])]
        return Narrowed(module, weights.parameters, dtypes, notes, weights.computed(program.known))

    def _visit(self, expr: Expr) -> Expr:
        """`expr` with everything replaced; raises InputError for what is no plain data flow."""
        if tvm.ir.is_prim_expr(expr):
            return self._dimension(expr)
        if isinstance(expr, tvm.ir.Var):
            # What folding computed is visited where it is used: what is not becomes no parameter.
            known = self._program.known
            return self._visit(known[expr]) if expr in known else self._variables[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, relax.ShapeExpr):
            return relax.ShapeExpr([self._dimension(value) for value in expr.values])
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._visit(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            source = self._visit(expr.tuple_value)
            if isinstance(source, relax.Tuple):
                return source.fields[expr.index]
            return relax.TupleGetItem(source, expr.index)
        if isinstance(expr, tvm.ir.Call):
            return self._call(expr)
        if isinstance(expr, relax.Function):
            raise InputError("the model has a Function that tapml cannot carve")
        return expr

    def _dimension(self, expr: Expr) -> Expr:
        """A scalar expression with the known symbols put in."""
        if not self._program.symbols:
            return expr
        analyzer = tvm.sym.Analyzer()
        for symbol, value in self._program.symbols.items():
            analyzer.bind(symbol, tvm.tirx.const(value, "int64"))
        return analyzer.simplify(expr)

    def _rebuilt(self, expr: Expr, arguments: list[Expr], attrs: Expr) -> Expr:
        """A call of the same operator; its type is inferred again when it is emitted."""
        return tvm.ir.Call(expr.op, arguments, attrs, [self._type(ty) for ty in expr.ty_args or []])

    def _type(self, ty: Expr) -> Expr:
        if isinstance(ty, relax.TensorType) and getattr(ty.shape, "values", None) is not None:
            return relax.TensorType([self._dimension(value) for value in ty.shape.values], ty.dtype)
        return relax.TupleType([self._type(field) for field in ty.fields]) if isinstance(ty, relax.TupleType) else ty

    def _constant(self, expr: Expr) -> Expr:
        if len(expr.value.shape) > 0:
            return self._weights.parameter(expr)
        value = self._weights.scalar(expr)
        if not np.isfinite(value):
            # WGSL cannot spell infinity or NaN; a buffer can hold them.
            return self._weights.parameter(expr)
        return relax.const(value, str(value.dtype))

    def _call(self, expr: Expr) -> Expr:
        expr = self._resolved(expr)
        name, attrs = operator_name(expr), attributes(expr)
        if name == "relax.astype":
            return self._cast(expr, str(attrs["dtype"]))
        if name == "relax.call_dps_packed":
            return self._elsewhere(expr)
        if name.startswith("relax.call_") or not isinstance(expr.op, tvm.ir.Op):
            return self._foreign(expr)
        permuted = self._weights.permuted(expr)
        if permuted is not None:
            return permuted
        if name == "relax.where":
            arguments = [self._visit(argument) for argument in expr.args]
            return self._builder.call_te(chosen, *arguments, primfunc_name_hint="where")
        if name in _INDIFFERENT:
            arguments = [self._visit(argument) for argument in expr.args]
        else:
            arguments = [self._as_bool(argument) for argument in expr.args]
            if name in _SAME_ON_BOOL and _is_bool(expr.ty):
                return _SAME_ON_BOOL[name](*arguments)
        if name in _DIVISIONS and _is_zero(arguments[1]):
            # TVM would divide by it when it compiles.
            arguments[1] = self._weights.parameter(expr.args[1])
        kernel = self._kernel(name, arguments, attrs, expr)
        if kernel is not None:
            return kernel
        changed = {
            key: stored(str(attrs[key])) for key in _DTYPE_ATTRIBUTES if attrs.get(key) and str(attrs[key]) != "void"
        }
        return self._rebuilt(expr, arguments, with_attributes(expr, **changed) if changed else expr.attrs)

    def _kernel(self, name: str, arguments: list[Expr], attrs: dict[str, Any], expr: Expr) -> Expr | None:
        """As `portable.lower`. Each step of a recurrence reads its part of the input."""
        if name not in INDEXING:
            return portable.lower(name, self._builder, arguments, attrs)

        def made(builder: Expr, call: Expr) -> Expr | None:
            return portable.lower(name, builder, [*call.args], attrs)

        return self._alike[name].legalized(made, self._builder, tvm.ir.Call(expr.op, arguments, expr.attrs))

    def _bound(self, var: Expr, value: Expr) -> Expr:
        """Emit a binding; its value in the narrow world: never bool, never 64 bits wide."""
        result = self._sum(value) if var in self._sums else self._visit(value)
        if isinstance(result, relax.TupleGetItem):
            return self._builder.emit(result, var.name)
        if not isinstance(result, tvm.ir.Call):
            # A conversion among integers that are stored alike.
            cast = isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.astype"
            return self._wrapped(result, value) if cast else result
        try:
            result = self._builder.normalize(result)
            # The one name is for what is stored.
            name = "mask" if _is_bool(result.ty) else var.name
            result = self._wrapped(self._builder.emit(result, name), value)
        except Exception as error:  # each operator's type inference has its own
            raise InputError(f"{operator_name(value)} cannot be given 32-bit operands: {reason(error)}") from error
        if _is_bool(result.ty):
            result = self._builder.emit(op.astype(result, "int32"), var.name)
        if any(not isinstance(found.shape, relax.ShapeExpr) for found in tensor_types(result.ty)):
            raise InputError(
                f"the size of what {operator_name(value).removeprefix('relax.')} (at {var.name}) gives depends on the "
                "values of the input: tapml needs sizes that follow from those of the inputs"
            )
        for dtype in _dtypes(result.ty):
            if stored(dtype) != dtype:
                raise InputError(
                    f"the operator {operator_name(value)} (at {var.name}) gives {dtype}, which WebGPU cannot store"
                )
        return result

    def _sum(self, value: Expr) -> Expr:
        """Of two masks for softmax, which does not overflow."""
        self._limited, dtype = True, stored(tensor_dtype(value.ty) or "")
        return op.add(*(self._builder.emit(limited(self._visit(operand), dtype)) for operand in value.args))

    def _wrapped(self, result: Expr, value: Expr) -> Expr:
        """What `value` gives in 8 or 16 bits, of the same in 32."""
        dtype, name = tensor_dtype(value.ty), operator_name(value)
        if dtype not in SMALL or name in _WITHIN or name == "relax.call_dps_packed":
            return result
        source = (tensor_dtype(value.args[0].ty) or "") if name == "relax.astype" else ""
        # What a float beyond the range becomes is nobody's promise.
        if source.startswith(("float", "bfloat")) or (source and np.can_cast(source, dtype)):
            return result
        range_ = np.iinfo(dtype)
        low, mask = relax.const(range_.min, "int32"), relax.const(range_.max - range_.min, "int32")
        return self._builder.emit(op.add(op.bitwise_and(op.subtract(result, low), mask), low))

    def _resolved(self, expr: Expr) -> Expr:
        """`expr` itself, or the static form of an operator whose indices are computed tensors."""
        if operator_name(expr) != "relax.dynamic_strided_slice":
            return expr
        parts = [self._program.known.get(a, a) if isinstance(a, tvm.ir.Var) else a for a in expr.args[1:]]
        if not all(isinstance(part, tvm.ir.GenericConst) for part in parts):
            raise InputError("the model slices by positions it computes from its input: tapml needs fixed shapes")
        begin, end, strides = ([int(i) for i in part.value.numpy()] for part in parts)
        return op.strided_slice(expr.args[0], list(range(len(begin))), begin, end, strides)

    def _as_bool(self, expr: Expr) -> Expr:
        """An argument as the operator wants it: bool again where the source has bool."""
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._as_bool(field) for field in expr.fields])
        value = self._visit(expr)
        if not _is_bool(getattr(expr, "ty", None)):
            return value
        if isinstance(value, tvm.ir.GenericConst):
            return relax.const(value.value.numpy().astype(bool), "bool")
        # One cast for each use: a shared one would be a kernel of its own that stores bool.
        return self._builder.emit(op.astype(value, "bool"), "mask")

    def _cast(self, expr: Expr, target: str) -> Expr:
        source, value = tensor_dtype(expr.args[0].ty), self._visit(expr.args[0])
        current = stored(source or "")
        if target == "bool":
            return value if source == "bool" else op.not_equal(value, relax.const(0, current))
        return value if stored(target) == current else op.astype(value, stored(target))

    def _foreign(self, expr: Expr) -> Expr:
        """A call of a kernel the importer wrote itself: its dtypes are fixed."""
        target = expr.args[0] if isinstance(expr.args[0], tvm.ir.GlobalVar) else expr.op
        name = str(getattr(target, "name_hint", None) or operator_name(expr))
        types = [d for a in expr.args for d in _dtypes(getattr(a, "ty", None))]
        types += [d for ty in expr.ty_args or [] for d in _dtypes(ty)]
        for dtype in types:
            if stored(dtype) != dtype:
                raise InputError(f"TVM's importer made a kernel {name!r} on {dtype}, which WebGPU cannot store")
        if not isinstance(target, tvm.ir.GlobalVar):
            raise InputError(f"the operator {name} has no kernel in TVM that a browser could run")
        kernel = self._builder.add_func(self._program.module[target], target.name_hint)
        return self._rebuilt(expr, [kernel, *map(self._visit, expr.args[1:])], expr.attrs)

    def _elsewhere(self, expr: Expr) -> Expr:
        """A call of another implementation, which is given what it wants where it is run."""
        function, operands = expr.args
        types = [relax.TensorType(ty.shape, stored(tensor_dtype(ty) or "")) for ty in tensor_types(expr.ty)]
        return op.call_dps_packed(function, self._visit(operands), types)

    @staticmethod
    def _input_type(parameter: Expr) -> Expr:
        shape, dtype = parameter.ty.shape, tensor_dtype(parameter.ty)
        if shape is None or dtype is None:
            raise InputError(f"input {parameter.name}: tapml needs a rank and a dtype, it has {parameter.ty}")
        return relax.TensorType(shape, stored(dtype))


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, tvm.ir.GenericConst) and len(expr.value.shape) == 0 and not expr.value.numpy()


def _is_bool(ty: Expr) -> bool:
    return tensor_dtype(ty) == "bool"


def _dtypes(ty: Expr) -> list[str]:
    """The dtypes of a tensor type, or of all tensors in a tuple type."""
    return [dtype for found in tensor_types(ty) if (dtype := tensor_dtype(found))]
