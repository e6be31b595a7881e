"""Splits as slices: each part by itself is read in place by whoever reads it, where the kernel of all parts is one that
only moves elements."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering.calls import name_of, rewritten, shape_of


@relax.expr_functor.mutator
class _Slices(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def visit_tuple_getitem_(self, found: Any) -> Any:
        call = self.lookup_binding(found.tuple_value) if isinstance(found.tuple_value, relax.Var) else None
        if call is None or name_of(call) != "relax.split" or (places := _places(call)) is None:
            return super().visit_tuple_getitem_(found)
        begin, end = places[found.index : found.index + 2]
        axis = int(call.attrs.axis) % len(shape_of(call.args[0]) or ())  # TVM counts no slice's axis from the end
        return op.strided_slice(call.args[0], [axis], [begin], [end])


def with_slices(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which parts of tensors that are split along an axis of known size are slices of these."""
    return rewritten(module, lambda so_far, function: _Slices(so_far))


def _places(call: Any) -> list[int] | None:
    """Where parts begin along the axis, and where the last one ends."""
    shape, asked = shape_of(call.args[0]), call.attrs.indices_or_sections
    size = shape[int(call.attrs.axis)] if shape is not None else None
    if not isinstance(size, tvm.tirx.IntImm):
        return None
    if isinstance(asked, int | tvm.tirx.IntImm):
        part = -(-int(size) // int(asked))
        return [min(part * n, int(size)) for n in range(int(asked) + 1)]
    return [0, *(min(int(place), int(size)) for place in asked), int(size)]
