"""Which weights of a module can be quantised: those that nothing does anything with but to multiply by them, summed
along one axis, or to gather rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm_ffi import structural_equal

from tapml.importing.indices import take
from tapml.importing.quantise import DTYPES, LEAST
from tapml.importing.relax_ir import Expr, attributes, operator_name, static_shape, tensor_dtype

_MATMUL, _PERMUTE, _TAKE, _CALL_TIR = "relax.matmul", "relax.permute_dims", "relax.take", "relax.call_tir"

BOTH_AXES = "products sum along both of its axes"


@dataclass(frozen=True)
class Uses:
    """What becomes of the weights of a module's `main`, by their variables."""

    products: Mapping[Expr, bool]
    """Those that are multiplied by, or gathered from, and nothing else: do they lie `[inner, rows]`?"""
    gathered: Sequence[Expr]
    """Those of them that rows are gathered of."""
    transposed: Mapping[Expr, Expr]
    """Variable of a transposed weight -> the weight."""
    left: Mapping[Expr, str]
    """Other matrices that products read, which are not: why."""


def uses_of(module: tvm.IRModule, weights: Sequence[Expr]) -> Uses:
    """Of these parameters of `main`."""
    main = module["main"]
    users = _users(main)
    products: dict[Expr, bool] = {}
    gathered: list[Expr] = []
    transposed: dict[Expr, Expr] = {}
    left: dict[Expr, str] = {}
    for weight in weights:
        found = [_use(module, users, weight, use) for use in users.get(weight, [])]
        if len(static_shape(weight.ty) or ()) != 2 or not {"columns", "rows", "gathered"} & {*found}:
            continue
        if why := _refused(weight, found):
            left[weight] = why
            continue
        products[weight] = "columns" in found
        gathered += [weight] if "gathered" in found else []
        transposed |= {
            use.variable: weight for use in users[weight] if use.operator == _PERMUTE and use.variable is not None
        }
    return Uses(products, gathered, transposed, left)


def _refused(weight: Expr, found: Sequence[str | None]) -> str:
    if None in found:
        return "something else than a product reads it, too"
    if "columns" in found and len({*found}) > 1:
        return BOTH_AXES
    if tensor_dtype(weight.ty) not in DTYPES:
        return f"it is {tensor_dtype(weight.ty)}"
    if min(static_shape(weight.ty) or ()) < LEAST:
        return "it is small"
    return ""


@dataclass(frozen=True)
class _User:
    """Who reads a variable: the call, as which of its operands, and what is bound to it."""

    variable: Expr | None
    call: Expr
    place: int

    @property
    def operator(self) -> str:
        return operator_name(self.call) if isinstance(self.call, tvm.ir.Call) else ""


def _users(function: Expr) -> dict[Expr, list[_User]]:
    found: dict[Expr, list[_User]] = {}
    for block in function.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            for place, operand in enumerate(_operands(value)):
                if isinstance(operand, relax.Var):
                    found.setdefault(operand, []).append(_User(binding.var, value, place))
    for operand in _operands(function.body.body):
        if isinstance(operand, relax.Var):
            found.setdefault(operand, []).append(_User(None, None, 0))
    return found


def _operands(value: Expr) -> Iterator[Expr]:
    """Of a call, those in its tuples by themselves."""
    if isinstance(value, relax.Tuple):
        yield from value.fields
    elif isinstance(value, relax.TupleGetItem):
        yield value.tuple_value
    elif isinstance(value, tvm.ir.Call):
        args = value.args[1:] if operator_name(value) == _CALL_TIR else value.args
        for arg in args:
            yield from arg.fields if isinstance(arg, relax.Tuple) else (arg,)
    else:
        yield value


def _use(module: tvm.IRModule, users: Mapping[Expr, list[_User]], weight: Expr, use: _User) -> str | None:
    """How products or rows are made of it; None for anything else."""
    if use.operator == _MATMUL:
        return "columns" if _multiplies(use) else None
    if use.operator == _PERMUTE:
        after = users.get(use.variable, [])
        return "rows" if after and all(found.operator == _MATMUL and _multiplies(found) for found in after) else None
    return "gathered" if from_end(module, weight, use.call) is not None else None


def _multiplies(use: _User) -> bool:
    """By it from the right, in its own dtype."""
    given = use.call.args[0]
    if given.same_as(use.call.args[1]) or use.place != 1:
        return False
    shape = getattr(getattr(given.ty, "shape", None), "values", None)
    return shape is not None and len(shape) >= 1 and tensor_dtype(given.ty) == tensor_dtype(use.call.ty) in DTYPES


def from_end(module: tvm.IRModule, weight: Expr, call: Expr) -> bool | None:
    """Of a call that gathers rows of a weight: whether negative indices count from the end. None for another call."""
    if not isinstance(call, tvm.ir.Call):
        return None
    name, attrs = operator_name(call), attributes(call)
    if name == _TAKE:
        rows = call.args[0].same_as(weight) and attrs["axis"] is not None and int(attrs["axis"]) == 0
        return str(attrs["mode"]) != "clip" if rows and not call.args[1].same_as(weight) else None
    if name != _CALL_TIR or not str(call.args[0].name_hint).startswith("take"):
        return None
    operands = [*_operands(call)]
    if len(operands) != 2 or not operands[0].same_as(weight) or operands[1].same_as(weight):
        return None
    for counted in (True, False):
        scratch = relax.BlockBuilder()
        data, indices = (
            relax.Var(name, operand.ty) for name, operand in zip(("data", "indices"), operands, strict=True)
        )
        with scratch.function("main", [data, indices]):
            scratch.emit_func_output(scratch.emit_te(take, data, indices, 0, counted, primfunc_name_hint="take"))
        made = scratch.finalize()
        (variable,) = (found for found in made.get_global_vars() if found.name_hint != "main")
        if structural_equal(made[variable], module[call.args[0]], map_free_vars=True):
            return counted
    return None
