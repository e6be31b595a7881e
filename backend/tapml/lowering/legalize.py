"""Kernels of a module's operators, made once for calls that are alike.

TVM makes each call's kernel anew, finds that it has it already, and drops it. A recurrent layer calls the same few
operators in each of its steps, hundreds of times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax
from tvm_ffi import structural_equal

from tapml.lowering.wide_sums import Legalize, summed_in_float32


def legalized(module: tvm.IRModule) -> tvm.IRModule:
    """As relax.transform.LegalizeOps makes it, but for sums that give float16 (wide_sums.py)."""
    names = {str(call.op.name) for call in _calls(module)}
    found = {name: tvm.ir.Op.get(name).get_attr("FLegalize") for name in names}
    alike = {
        name: partial(Alike().legalized, summed_in_float32(name, function))
        for name, function in found.items()
        if function is not None
    }
    return relax.transform.LegalizeOps(alike)(module)


def _calls(module: tvm.IRModule) -> Iterator[Any]:
    for function in module.functions.values():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            for block in function.body.blocks:
                for binding in block.bindings:
                    value = binding.value
                    if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op):
                        yield value


@dataclass(frozen=True)
class _Made:
    """A call that a kernel was made for: its attributes, the call of the kernel, and where in the operator's operands
    those of the kernel are."""

    attrs: Any
    call: Any
    places: tuple[int, ...]


class Alike:
    """The calls of one operator so far, by the types of their operands."""

    def __init__(self) -> None:
        self._made: dict[Hashable, list[_Made]] = {}

    def legalized(self, function: Legalize, builder: Any, call: Any) -> Any:
        operands = [*_operands(call.args)]
        types = tuple(map(_type, operands))
        if None in types:
            return function(builder, call)
        # An operand that comes twice may be one of the kernel's.
        first = tuple(next(n for n, other in enumerate(operands) if other.same_as(one)) for one in operands)
        grouped = tuple(len(arg.fields) if isinstance(arg, relax.Tuple) else 0 for arg in call.args)
        known = self._made.setdefault((types, first, grouped), [])
        for made in known:
            if structural_equal(made.attrs, call.attrs):
                kernel, attrs = made.call.args[0], made.call.attrs
                fields = relax.Tuple([operands[place] for place in made.places])
                return tvm.ir.Call(made.call.op, [kernel, fields], attrs, made.call.ty_args)
        result = function(builder, call)
        if (places := _places(result, operands)) is not None:
            known.append(_Made(call.attrs, result, places))
        return result


def _operands(args: Any) -> Iterator[Any]:
    for arg in args:
        yield from (arg.fields if isinstance(arg, relax.Tuple) else (arg,))


def _type(operand: Any) -> Hashable | None:
    """What a kernel depends on of an operand; None where that is more than fixed sizes."""
    if isinstance(operand, relax.Var) and isinstance(operand.ty, relax.TensorType):
        sizes = _sizes(operand.ty.shape)
        return None if sizes is None else (str(operand.ty.dtype), sizes)
    if isinstance(operand, tvm.tirx.IntImm):
        return str(operand.ty), int(operand.value)
    return _sizes(operand) if isinstance(operand, relax.ShapeExpr) else None


def _sizes(shape: Any) -> tuple[int, ...] | None:
    if not isinstance(shape, relax.ShapeExpr):
        return None
    found: list[Any] = [*shape.values]
    return tuple(int(size) for size in found) if all(isinstance(size, tvm.tirx.IntImm) for size in found) else None


def _places(result: Any, operands: list[Any]) -> tuple[int, ...] | None:
    """None where the result is more than one call of a kernel on the operands."""
    if not isinstance(result, tvm.ir.Call) or not isinstance(result.op, tvm.ir.Op):
        return None
    if result.op.name != "relax.call_tir" or len(result.args) != 2 or not isinstance(result.args[1], relax.Tuple):
        return None
    fields = [*result.args[1].fields]
    places = [next((n for n, one in enumerate(operands) if one.same_as(field)), -1) for field in fields]
    return None if -1 in places else tuple(places)
