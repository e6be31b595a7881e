"""Products with a weight that is transposed, reading the weight as it lies.

A tied embedding is read as it is by the tokens, and transposed by the logits: as two operators that is a copy of the
largest weight of the model at every call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, te

from tapml.lowering.calls import name_of, rewritten
from tapml.lowering.wide_sums import product_of

_MATMUL, _PERMUTE = "relax.matmul", "relax.permute_dims"


@relax.expr_functor.mutator
class _AsItLies(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, transposed: Mapping[Any, Any]) -> None:
        super().__init__(module)
        self._transposed = transposed

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        weight = self._transposed.get(call.args[1]) if name_of(call) == _MATMUL else None
        if weight is None:
            return call

        def product(data: Any, found: Any) -> Any:
            term = te.reduce_axis((0, found.shape[1]), name="k")

            def factors(*at: Any) -> tuple[Any, Any]:
                return data(*at[:-1], term), found(at[-1], term)

            return product_of([*data.shape[:-1], found.shape[0]], factors, term, str(call.ty.dtype))

        return self.builder_.call_te(product, call.args[0], weight, primfunc_name_hint="matmul_transposed")


def with_weights_as_they_lie(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which no parameter of two dimensions is transposed for a product from its right."""

    def made(so_far: tvm.IRModule, function: Any) -> _AsItLies | None:
        transposed = _transposed(function)
        return _AsItLies(so_far, transposed) if transposed else None

    return rewritten(module, made)


def _transposed(function: Any) -> dict[Any, Any]:
    """Variable -> the parameter that it is the transpose of."""
    parameters = set(function.params)
    found = {}
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        value = getattr(binding, "value", None)
        if value is None or name_of(value) != _PERMUTE:
            continue
        weight, axes = value.args[0], value.attrs.axes
        if weight in parameters and len(weight.ty.shape.values) == 2 and (axes is None or [*map(int, axes)] == [1, 0]):
            found[binding.var] = weight
    return found
