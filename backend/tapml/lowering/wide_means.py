"""Means of more float16 than a float16 counts: TVM divides by their number, which it cannot write in that dtype."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax, topi

from tapml.lowering.calls import axes_of, name_of, rewritten, shape_of

_MOST = 65504
"""The greatest float16."""


@relax.expr_functor.mutator
class _InFloat32(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        name = name_of(call).removeprefix("relax.")
        shape = shape_of(call.args[0]) if name in ("mean", "variance", "std") else None
        if shape is None or str(call.args[0].ty.dtype) != "float16":
            return call
        axes = axes_of(call, len(shape))
        sizes = [shape[axis] for axis in axes]
        # How many there are of a symbol is an argument of the kernel.
        if not all(isinstance(size, tvm.tirx.IntImm) for size in sizes):
            return call
        count, keepdims = math.prod(map(int, sizes)), bool(call.attrs.keepdims)
        if count <= _MOST:
            return call

        def computed(data: Any) -> Any:
            numbers = topi.cast(data, "float32")
            if name == "mean":
                return topi.cast(topi.sum(numbers, axes, keepdims) / float(count), "float16")
            apart = numbers - topi.sum(numbers, axes, keepdims=True) / float(count)
            variance = topi.sum(apart * apart, axes, keepdims) / float(count)
            return topi.cast(variance if name == "variance" else topi.sqrt(variance), "float16")

        return self.builder_.call_te(computed, call.args[0], primfunc_name_hint=name)


def with_wide_means(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which a mean, a variance or a standard deviation of more than 65,504 float16 is computed in
    float32 and rounded to float16."""
    return rewritten(module, lambda so_far, function: _InFloat32(so_far))
