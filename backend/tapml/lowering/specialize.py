"""Kernels that an importer wrote for any size, made for the sizes that they are called with, where these are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

Sizes = Mapping[Any, Any]
"""Of a PrimFunc's variables, by the variable."""


def _variables(function: Any) -> list[Any]:
    """Those that stand for sizes: alone on an axis of a buffer, or handed over by themselves."""
    if not isinstance(function, tirx.PrimFunc):
        return []
    shapes = (getattr(parameter.ty, "shape", [parameter]) for parameter in function.params)
    return [*dict.fromkeys(axis for shape in shapes for axis in shape if tvm.ir.is_prim_var(axis))]


def _sizes(module: tvm.IRModule, call: Any) -> Sizes | None:
    """Those of the PrimFunc that is called that are fixed; None where it is to stay."""
    function = module[call.args[0]]
    if not isinstance(call.args[1], relax.Tuple) or not (variables := _variables(function)):
        return None
    given = [*call.args[1].fields, *_results(call)]
    if len(call.args) != 2 or len(given) != len(function.params):
        return None
    found: dict[Any, Any] = {}
    for parameter, one in zip(function.params, given, strict=True):
        if (shape := getattr(parameter.ty, "shape", None)) is None:
            found[parameter] = one
            continue
        values = getattr(getattr(getattr(one, "ty", one), "shape", None), "values", None)
        if values is None:
            return None
        for axis, size in zip(shape, values, strict=True):
            found.setdefault(axis, size)
    known = {variable: size for variable in variables if isinstance(size := found[variable], tirx.IntImm)}
    by_themselves = (parameter for parameter in function.params if not hasattr(parameter.ty, "shape"))
    return known if known and all(parameter in known for parameter in by_themselves) else None


def _results(call: Any) -> list[Any]:
    return list(call.ty_args[0].fields if isinstance(call.ty_args[0], relax.TupleType) else call.ty_args)


def _is_call(expression: Any) -> bool:
    return isinstance(expression, relax.Call) and getattr(expression.op, "name", "") == "relax.call_tir"


@relax.expr_functor.mutator
class _Specialized(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """A PrimFunc that is called with the same sizes everywhere keeps its name: kernels are known by it."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self._module = module
        self._called: dict[str, set[str]] = {}

        def seen(expression: Any) -> None:
            if _is_call(expression):
                known = _sizes(module, expression)
                self._called.setdefault(expression.args[0].name_hint, set()).add(str(known and [*known.values()]))

        for function in module.functions.values():
            if isinstance(function, relax.Function):
                relax.analysis.post_order_visit(function, seen)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        sizes = _sizes(self._module, call) if _is_call(call) else None
        if sizes is None:
            return call
        variable = call.args[0]
        function = self._module[variable]
        fixed = function.specialize(
            {
                parameter: sizes[parameter]
                if shape is None
                else tirx.decl_buffer([sizes.get(axis, axis) for axis in shape], parameter.ty.dtype)
                for parameter in function.params
                if (shape := getattr(parameter.ty, "shape", None)) is None or any(map(tvm.ir.is_prim_var, shape))
            }
        )
        if len(self._called[variable.name_hint]) == 1:
            self.builder_.update_func(variable, fixed)
        else:
            variable = self.builder_.add_func(fixed, variable.name_hint)
        found = _results(call)
        tensors = [field for field in call.args[1].fields if not tvm.ir.is_prim_expr(field)]
        return relax.call_tir(variable, relax.Tuple(tensors), found if len(found) > 1 else found[0])


def specialized(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which each call of a PrimFunc of any size whose sizes are fixed is one of a PrimFunc of those: TVM
    fuses what has the same shape on both sides of a call only."""
    if not any(map(_variables, module.functions.values())):
        return module
    mutator = _Specialized(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return relax.transform.DeadCodeElimination()(mutator.builder_.get())
