"""Fusing operators, with no more buffers in one than a device may bind."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering.expanded import OPAQUE, called_by, cut, same_again

MOST_BUFFERS = 10
"""Storage buffers of one kernel: what Chromium allows on every GPU."""


@relax.expr_functor.mutator
class _Narrowed(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        name = getattr(call.op, "name", "")
        if name in ("relax.concat", "relax.stack") and isinstance(call.args[0], relax.Tuple):
            return self._joined(call, name, list(call.args[0].fields))
        return call

    def _joined(self, call: Any, name: str, parts: list[Any]) -> Any:
        if len(parts) < MOST_BUFFERS:
            return call
        axis = call.attrs.axis
        emit = self.builder_.emit
        if name == "relax.stack":
            axis = 0 if axis is None else axis
            parts = [emit(op.expand_dims(part, axis)) for part in parts]
        elif axis is None:
            axis, parts = 0, [emit(op.flatten(part)) for part in parts]
        while len(parts) >= MOST_BUFFERS:
            groups = [parts[start : start + MOST_BUFFERS - 1] for start in range(0, len(parts), MOST_BUFFERS - 1)]
            parts = [emit(op.concat(group, axis)) if len(group) > 1 else group[0] for group in groups]
        return op.concat(parts, axis)


def with_narrow_joins(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which nothing is made of more tensors than one kernel can read."""
    mutator = _Narrowed(module)
    for variable, function in module.functions.items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return mutator.builder_.get()


def fuse(module: tvm.IRModule) -> tuple[tvm.IRModule, tvm.IRModule]:
    """A module that does the same, and TVM's FuseOps of it, of a module whose PrimFuncs have patterns.

    Where a fused operator would have more buffers than a kernel may, the operator in it that has most of them stays by
    itself; where its expressions would be larger than MOST_EXPANDED, one before they become so.
    """
    while True:
        fused = relax.transform.FuseOps()(module)
        alone = {name for function in fused.functions.values() if (name := _widest(function, module)) is not None}
        if not alone:
            if (smaller := cut(module, fused)) is None:
                return module, same_again(fused)
            module = smaller
        for name in alone:
            module = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
            module.update_func(module.get_global_var(name), module[name].with_attr("op_pattern", OPAQUE))


def _widest(function: Any, module: tvm.IRModule) -> str | None:
    """Of a fused operator that has too many buffers: the PrimFunc with most of them that may be fused yet."""
    if not isinstance(function, relax.Function) or not function.attrs or "Primitive" not in function.attrs:
        return None
    outputs = function.ret_ty.fields if isinstance(function.ret_ty, relax.TupleType) else [function.ret_ty]
    if len(function.params) + len(outputs) <= MOST_BUFFERS:
        return None
    fusible = [name for name in sorted({*called_by(function)}) if int(module[name].attrs["op_pattern"]) != OPAQUE]
    # A bool must stay inside of a kernel: no buffer can hold it.
    bools = [name for name in fusible if any(str(found.dtype) == "bool" for found in module[name].params)]
    fusible = [name for name in fusible if name not in bools] or fusible
    return max(fusible, key=lambda name: len(module[name].params), default=None)
