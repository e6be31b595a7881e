"""What a model's operators would move if each were a kernel of its own: what fusing them saves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tapml.expressions import Expression, ExpressionError
from tapml.lowering.sizes import expression_of
from tapml.program.program import SymbolicType

_CALLS = ("relax.call_tir", "relax.call_dps_packed")


@dataclass(frozen=True)
class Unfused:
    """`calls`: the tensors that each operator reads and writes; reshapes are none, which move nothing."""

    calls: tuple[tuple[SymbolicType, ...], ...] = ()

    def bytes_at(self, sizes: Mapping[str, int]) -> int:
        """That all of them move in a call of these sizes."""
        return sum(found.at(sizes, "a tensor").nbytes for call in self.calls for found in call)


def unfused(module: tvm.IRModule, symbols: Collection[str]) -> Unfused | None:
    """Of `main`, whose operators are PrimFuncs that nothing was fused into, with sizes of these names. None where a
    tensor's size is told by something else, as within a choice of what is computed."""
    views = [relax.transform.RewriteDataflowReshape(), relax.transform.DeadCodeElimination()]
    main = tvm.ir.transform.Sequential(views)(module)["main"]
    bindings = (binding for block in main.body.blocks for binding in block.bindings)

    def symbol(size: Any) -> str | None:
        return str(size.name) if str(size.name) in symbols else None

    try:
        calls = [found for binding in bindings if (found := _tensors(binding, symbol))]
    except ExpressionError:
        return None
    return Unfused(tuple(calls))


def _tensors(binding: Any, symbol: Callable[[Any], str | None]) -> tuple[SymbolicType, ...]:
    value = getattr(binding, "value", None)
    if not isinstance(value, tvm.ir.Call) or getattr(value.op, "name", "") not in _CALLS:
        return ()
    return tuple(_each([value.args[1].ty, binding.var.ty], symbol))


def _each(types: list[Any], symbol: Callable[[Any], str | None]) -> Iterator[SymbolicType]:
    for found in types:
        if isinstance(found, relax.TupleType):
            yield from _each(list(found.fields), symbol)
        elif isinstance(found, relax.TensorType):
            shape: list[Expression] = [expression_of(axis, symbol) for axis in found.shape]
            yield SymbolicType(tuple(shape), str(found.dtype))
