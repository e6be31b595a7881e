"""Fusing operators, with no more buffers in one than a device may bind."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering.expanded import (
    INJECTIVE,
    OPAQUE,
    REDUCED,
    called_by,
    cut,
    is_fused,
    same_again,
    with_own,
    with_patterns,
)

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

    Where a fused operator would have more buffers than a kernel may, a branch of it that is computed element by element
    is a kernel of its own, or, where that helps none, the operator in it that has most of them; where its expressions
    would be larger than MOST_EXPANDED, one begins anew before they become so.
    """
    while True:
        fused = relax.transform.FuseOps()(module)
        wide = [function for function in fused.functions.values() if _is_wide(function)]
        if patterns := _ends(wide, module):
            # Of its own first, so that other calls stay as they are.
            names = [name for function in wide for name in called_by(function)]
            module = with_own(module, names) or with_patterns(module, patterns)
        elif (smaller := cut(module, fused)) is None:
            return module, same_again(fused)
        else:
            module = smaller


def _ends(wide: list[Any], module: tvm.IRModule) -> dict[str, int]:
    """Patterns of PrimFuncs by which these fused operators become narrower."""
    found: dict[str, int] = {}
    for function in wide:
        if (end := _branch(function, module)) is not None:
            found[end] = REDUCED
        elif (alone := _widest(function, module)) is not None:
            found[alone] = OPAQUE
    return found


def _is_wide(function: Any) -> bool:
    """Whether it is a fused operator with more buffers than a kernel may have."""
    if not is_fused(function):
        return False
    outputs = function.ret_ty.fields if isinstance(function.ret_ty, relax.TupleType) else [function.ret_ty]
    return len(function.params) + len(outputs) > MOST_BUFFERS


def _branch(function: Any, module: tvm.IRModule) -> str | None:
    """Of a fused operator that is too wide: the last PrimFunc of a branch that a kernel may compute, element by
    element, whose result takes the place of most buffers. None where there is no such branch."""
    calls = [
        (binding.var, binding.value.args[0].name_hint, list(binding.value.args[1].fields))
        for block in function.body.blocks
        for binding in block.bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
    ]
    result = function.body.body
    results = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    best, most = None, 0
    for place, (variable, name, _) in enumerate(calls):
        # No buffer can hold a bool; what gives several is none of these.
        if any(variable.same_as(other) for other in results) or str(getattr(variable.ty, "dtype", "bool")) == "bool":
            continue
        own = _made_of(place, calls)
        if any(int(module[calls[one][1]].attrs["op_pattern"]) > INJECTIVE for one in own):
            continue
        others = [calls[one][2] for one in range(len(calls)) if one not in own]
        read = {given for given in function.params if any(given.same_as(v) for one in own for v in calls[one][2])}
        shared = {given for given in read if any(given.same_as(v) for values in others for v in values)}
        inner = [calls[one][0] for one in own if one != place]
        if any(v.same_as(value) for values in (*others, results) for value in values for v in inner):
            continue  # more of it is read than its result
        if len(read) < MOST_BUFFERS and len(read - shared) - 1 > most:
            best, most = name, len(read - shared) - 1
    return best


def _made_of(place: int, calls: list[tuple[Any, str, list[Any]]]) -> set[int]:
    """A call, by its place, and all that what it gives is made of."""
    found, left = {place}, [place]
    while left:
        given = calls[left.pop()][2]
        more = {n for n, (variable, _, _) in enumerate(calls) if any(variable.same_as(one) for one in given)} - found
        found |= more
        left += more
    return found


def _widest(function: Any, module: tvm.IRModule) -> str | None:
    """Of a fused operator that has too many buffers: the PrimFunc with most of them that may be fused yet."""
    fusible = [name for name in sorted({*called_by(function)}) if int(module[name].attrs["op_pattern"]) != OPAQUE]
    # A bool must stay inside of a kernel: no buffer can hold it.
    bools = [name for name in fusible if any(str(found.dtype) == "bool" for found in module[name].params)]
    fusible = [name for name in fusible if name not in bools] or fusible
    return max(fusible, key=lambda name: len(module[name].params), default=None)
