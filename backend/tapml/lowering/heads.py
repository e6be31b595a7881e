"""Products of heads as those of whole tensors, so that nothing stands between scores and their softmax.

PyTorch multiplies heads as [batch * heads, rows, columns], reshapes what comes of it, and scales queries and keys by
the root of what scores are to be scaled by.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering.calls import name_of, rewritten, same_sizes, shape_of, uses_of

_MOVES = ("relax.permute_dims", "relax.reshape", "relax.broadcast_to", "relax.expand_dims", "relax.squeeze")


def with_whole_heads(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which products of heads have as many axes as what they are made of and what is made of them, and
    a scale of a factor (float32) is one of the product, if nothing else reads the scaled factor."""
    for kind in (_Unspread, _Whole, _Scaled):

        def made(so_far: tvm.IRModule, function: Any, kind: Any = kind) -> Any:
            return kind(so_far, uses_of(function))

        # A name for what has one already hides what it is.
        module = relax.transform.CanonicalizeBindings()(rewritten(module, made))
    return module


class _Bound(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, uses: Counter[Any]) -> None:
        super().__init__(module)
        self._uses = uses

    def _value(self, expression: Any, name: str) -> Any:
        """The call of that operator that made it, if nothing else reads what it made."""
        value = self.lookup_binding(expression) if isinstance(expression, relax.Var) else None
        return value if value is not None and name_of(value) == name and self._uses[expression] == 1 else None


@relax.expr_functor.mutator
class _Unspread(relax.PyExprMutator):  # type: ignore[misc]  # as above
    """Nothing is spread over the shape that it has."""

    def __init__(self, module: tvm.IRModule, _: Counter[Any]) -> None:
        super().__init__(module)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if name_of(call) == "relax.broadcast_to" and same_sizes(shape_of(call.args[0]), [*call.args[1].values]):
            return call.args[0]
        return call


@relax.expr_functor.mutator
class _Whole(_Bound):
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        product = self._value(call.args[0], "relax.matmul") if name_of(call) == "relax.reshape" else None
        if product is None:
            return call
        shape, wanted = shape_of(call.args[0]) or [], [*call.args[1].values]
        if len(shape) != 3 or len(wanted) <= 3 or not same_sizes(shape[-2:], wanted[-2:]):
            return call
        factors = [self._apart(factor, wanted[:-2]) for factor in product.args]
        if None in factors:
            return call
        return op.matmul(*factors, out_dtype=product.attrs.out_dtype or None)

    def _apart(self, factor: Any, batch: Sequence[Any]) -> Any | None:
        """What a factor of three axes was, or another shape of it, with these in place of the first."""
        value = self.lookup_binding(factor) if isinstance(factor, relax.Var) else None
        source = value.args[0] if value is not None and name_of(value) == "relax.reshape" else None
        rows = (shape_of(factor) or ())[-2:]
        return source if same_sizes(shape_of(source), [*batch, *rows]) else None


@relax.expr_functor.mutator
class _Scaled(_Bound):
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if name_of(call) != "relax.matmul" or any(len(shape_of(factor) or ()) < 3 for factor in call.args):
            return call
        if str(call.ty.dtype) != "float32" or any(str(factor.ty.dtype) != "float32" for factor in call.args):
            return call
        found = [self._without(factor) for factor in call.args]
        if found == [None, None]:
            return call
        scale = math.prod(one[1] for one in found if one is not None)
        factors = [factor if one is None else one[0] for one, factor in zip(found, call.args, strict=True)]
        product = self.builder_.emit(op.matmul(*factors, out_dtype=call.attrs.out_dtype or None))
        return product if scale == 1 else op.multiply(product, relax.const(np.float32(scale), "float32"))

    def _without(self, factor: Any) -> tuple[Any, float] | None:
        """A factor as it is before it is scaled by a number, and that number."""
        value = self.lookup_binding(factor) if isinstance(factor, relax.Var) and self._uses[factor] == 1 else None
        if value is None:
            return None
        if name_of(value) in _MOVES:
            inner = self._without(value.args[0])
            if inner is None:
                return None
            moved = tvm.ir.Call(value.op, [inner[0], *value.args[1:]], value.attrs)
            return self.builder_.emit(moved), inner[1]
        if name_of(value) != "relax.multiply":
            return None
        for data, number in (value.args, [*value.args][::-1]):
            if isinstance(number, tvm.ir.GenericConst) and shape_of(number) == [] and shape_of(data):
                made = self.lookup_binding(data) if isinstance(data, relax.Var) else None
                # Behind a product it is part of that one's kernel, and that product's values are the model's own.
                of_product = made is not None and name_of(made) == "relax.matmul"
                return None if of_product else (data, float(number.value.numpy()))
        return None
