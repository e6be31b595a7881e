"""A module with sizes fixed, in its kernels too: those that an importer wrote were made for any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from tapml.program.program import MAIN

Shapes = tuple[tuple[Any, ...], ...]
"""Of a PrimFunc's buffers, in their order."""


def _shapes(module: tvm.IRModule, call: Any) -> Shapes | None:
    """Of the PrimFunc that is called, with its sizes of any value as the call has them; None where it is to stay."""
    if len(call.args) != 2 or not isinstance(call.args[1], relax.Tuple):
        return None  # sizes among its operands
    function = module[call.args[0]]
    tensors = [part.ty for part in call.args[1].fields] + _results(call)
    if len(tensors) != len(function.params):
        return None
    known: dict[Any, Any] = {}
    shapes = []
    for parameter, tensor in zip(function.params, tensors, strict=True):
        axes = getattr(parameter.ty, "shape", None)
        sizes = getattr(getattr(tensor, "shape", None), "values", None)
        if axes is None or sizes is None:
            return None
        for axis, size in zip(axes, sizes, strict=True):
            if tvm.ir.is_prim_var(axis) and isinstance(size, tirx.IntImm):
                known.setdefault(axis, size)
        shapes.append(tuple(known.get(axis, axis) if tvm.ir.is_prim_var(axis) else axis for axis in axes))
    return tuple(shapes) if known else None


def _results(call: Any) -> list[Any]:
    return list(call.ty_args[0].fields if isinstance(call.ty_args[0], relax.TupleType) else call.ty_args)


def _is_call(expression: Any) -> bool:
    return isinstance(expression, relax.Call) and getattr(expression.op, "name", "") == "relax.call_tir"


@relax.expr_functor.mutator
class _Bound(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Calls of PrimFuncs that take any size, by calls of PrimFuncs of the sizes that they are called with. TVM fuses
    what has the same shape on both sides of a call only. A PrimFunc that is called with the same sizes everywhere
    keeps its name: kernels are known by it."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self._module = module
        self._called: dict[str, set[str]] = {}

        def seen(expression: Any) -> None:
            if _is_call(expression):
                self._called.setdefault(expression.args[0].name_hint, set()).add(str(_shapes(module, expression)))

        for function in module.functions.values():
            if isinstance(function, relax.Function):
                relax.analysis.post_order_visit(function, seen)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        shapes = _shapes(self._module, call) if _is_call(call) else None
        if shapes is None:
            return call
        variable = call.args[0]
        function = self._module[variable]
        fixed = function.specialize(
            {
                parameter: tirx.decl_buffer(shape, parameter.ty.dtype)
                for parameter, shape in zip(function.params, shapes, strict=True)
                if any(tvm.ir.is_prim_var(axis) for axis in parameter.ty.shape)
            }
        )
        if len(self._called[variable.name_hint]) == 1:
            self.builder_.update_func(variable, fixed)
        else:
            variable = self.builder_.add_func(fixed, variable.name_hint)
        found = _results(call)
        return relax.call_tir(variable, call.args[1], found if len(found) > 1 else found[0])


def bound(module: tvm.IRModule, sizes: Mapping[str, int]) -> tvm.IRModule:
    """The module with `sizes` of symbols of `main` fixed."""
    module = relax.transform.BindSymbolicVars(dict(sizes), MAIN)(module)
    mutator = _Bound(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return relax.transform.DeadCodeElimination()(mutator.builder_.get())
