"""The mean of squares as one operator. What is reduced is no part of TVM's mean when operators are fused, so that an
RMSNorm would be two kernels, of which the first only writes squares."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import tvm
from tvm import relax, te, topi

from tapml.lowering.calls import axes_of, name_of, rewritten, shape_of, uses_of


@relax.expr_functor.mutator
class _Whole(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, uses: Counter[Any]) -> None:
        super().__init__(module)
        self._uses = uses

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        root = self._root(call.args[0]) if name_of(call) == "relax.mean" else None
        shape = shape_of(root)
        if root is None or shape is None or str(root.ty.dtype) != "float32":
            return call
        axes = axes_of(call, len(shape))

        def mean_of_squares(data: Any) -> Any:
            squares = te.compute(data.shape, lambda *at: data(*at) * data(*at), name="squares")
            return topi.sum(squares, axes, bool(call.attrs.keepdims)) / math.prod(data.shape[axis] for axis in axes)

        return self.builder_.call_te(mean_of_squares, root, primfunc_name_hint="mean_of_squares")

    def _root(self, squares: Any) -> Any:
        """What the values are squares of that nothing else reads; None where they are not."""
        value = self.lookup_binding(squares) if isinstance(squares, relax.Var) and self._uses[squares] == 1 else None
        if value is None or name_of(value) != "relax.multiply":
            return None
        left, right = value.args
        return left if left.same_as(right) else None


def with_means_of_squares(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which a mean of squares (float32) is one operator, if nothing else reads the squares."""
    return rewritten(module, lambda so_far, function: _Whole(so_far, uses_of(function)))
