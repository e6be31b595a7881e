"""What Relax calls say, for passes over a module before its operators become kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_equal


def rewritten(module: tvm.IRModule, made: Callable[[tvm.IRModule, Any], Any]) -> tvm.IRModule:
    """The module, each of whose Relax functions is visited by the mutator that is `made` for the module so far and the
    function; by none where that is None. What nothing reads any more is left out."""
    mutator = None
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function):
            continue
        found = made(mutator.builder_.get() if mutator else module, function)
        if found is not None:
            mutator = found
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return relax.transform.DeadCodeElimination()(mutator.builder_.get()) if mutator else module


def uses_of(function: Any) -> Counter[Any]:
    """How often each variable is read."""
    found: Counter[Any] = Counter()

    def seen(expression: Any) -> None:
        if isinstance(expression, tvm.ir.Call | relax.Tuple):
            fields = expression.args if isinstance(expression, tvm.ir.Call) else expression.fields
            found.update(field for field in fields if isinstance(field, relax.Var))
        elif isinstance(expression, relax.TupleGetItem) and isinstance(expression.tuple_value, relax.Var):
            found[expression.tuple_value] += 1
        elif isinstance(expression, relax.SeqExpr):
            found.update([expression.body] if isinstance(expression.body, relax.Var) else [])

    relax.analysis.post_order_visit(function.body, seen)
    return found


def results_of(function: Any) -> list[Any]:
    """Variables that the function gives, and those in tuples that it gives."""
    bound = {binding.var: binding.value for block in function.body.blocks for binding in block.bindings}
    found: list[Any] = []
    pending: list[Any] = [function.body.body]
    while pending:
        one = pending.pop()
        if isinstance(one, relax.Tuple):
            pending.extend(one.fields)
        elif isinstance(one, relax.Var):
            found.append(one)
            pending.extend([bound[one]] if isinstance(bound.get(one), relax.Tuple | relax.Var) else [])
    return found


def name_of(call: Any) -> str:
    return getattr(call.op, "name", "") if isinstance(call, tvm.ir.Call) else ""


def shown_by(function: Any) -> dict[Any, Any]:
    """View -> the value that it is another shape of."""
    found: dict[Any, Any] = {}
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        value = getattr(binding, "value", None)
        if value is not None and name_of(value) == "relax.reshape":
            found[binding.var] = found.get(value.args[0], value.args[0])
    return found


def shape_of(expression: Any) -> list[Any] | None:
    """Of a tensor; None where it is not known."""
    ty = getattr(expression, "ty", None)
    shape = getattr(ty, "shape", None) if isinstance(ty, relax.TensorType) else None
    return [*shape.values] if isinstance(shape, relax.ShapeExpr) else None


def axes_of(call: Any, rank: int) -> list[int]:
    """That a reduction of a tensor of so many axes goes over."""
    return [int(axis) % rank for axis in (range(rank) if call.attrs.axis is None else call.attrs.axis)]


def same_sizes(one: Sequence[Any] | None, other: Sequence[Any] | None) -> bool:
    return one is not None and other is not None and len(one) == len(other) and all(map(structural_equal, one, other))


def is_one(size: Any) -> bool:
    return isinstance(size, tvm.tirx.IntImm) and int(size) == 1
