"""A module with sizes fixed, in its kernels too: those that an importer wrote were made for any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from tapml.program.program import MAIN


@relax.expr_functor.mutator
class _Bound(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Calls of PrimFuncs that take any size, by calls of PrimFuncs of the sizes that they are called with. TVM fuses
    what has the same shape on both sides of a call only."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self._module = module

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or not isinstance(call.args[1], relax.Tuple):
            return call
        found = list(call.ty_args[0].fields if isinstance(call.ty_args[0], relax.TupleType) else call.ty_args)
        function = self._module[call.args[0]]
        tensors = [part.ty for part in call.args[1].fields] + found
        known: dict[Any, Any] = {}
        buffers = {}
        if len(call.args) != 2 or len(tensors) != len(function.params):
            return call  # sizes among its operands
        for parameter, tensor in zip(function.params, tensors, strict=True):
            axes, sizes = getattr(parameter.ty, "shape", None), getattr(tensor.shape, "values", None)
            if axes is None or sizes is None:
                return call
            for axis, size in zip(axes, sizes, strict=True):
                if tvm.ir.is_prim_var(axis) and isinstance(size, tirx.IntImm):
                    known.setdefault(axis, size)
            buffers[parameter] = [known.get(axis, axis) if tvm.ir.is_prim_var(axis) else axis for axis in axes]
        if not known:
            return call
        fixed = function.specialize(
            {
                parameter: tirx.decl_buffer(shape, parameter.ty.dtype)
                for parameter, shape in buffers.items()
                if any(tvm.ir.is_prim_var(axis) for axis in parameter.ty.shape)
            }
        )
        variable = self.builder_.add_func(fixed, call.args[0].name_hint)
        return relax.call_tir(variable, call.args[1], found if len(found) > 1 else found[0])


def bound(module: tvm.IRModule, sizes: Mapping[str, int]) -> tvm.IRModule:
    """The module with `sizes` of symbols of `main` fixed."""
    module = relax.transform.BindSymbolicVars(dict(sizes), MAIN)(module)
    mutator = _Bound(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return relax.transform.DeadCodeElimination()(mutator.builder_.get())
