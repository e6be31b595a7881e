"""What only changes a tensor's shape is one reshape, and none stands between a product and what is made of it.

PyTorch computes a product of [1, n, k] as one of [n, k], with a reshape before and behind it. TVM fuses what has the
same shape on both sides of a call only, so that what is added to such a product would be no part of its kernel. And a
chain of moves would be a kernel that copies, where a single reshape is none at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from tapml.lowering.calls import is_one, name_of, results_of, rewritten, same_sizes, shape_of, uses_of

_RESHAPES = {f"relax.{name}" for name in ("reshape", "expand_dims", "squeeze", "flatten")}
_ELEMENT_BY_ELEMENT = {f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")}


@relax.expr_functor.mutator
class _Plain(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, uses: Counter[Any], kept: Collection[Any]) -> None:
        super().__init__(module)
        self._uses = uses
        self._kept = kept
        """Variables that are results of the function, which have values of their own, and its parameters."""
        self._made: Any = None
        """The variable whose value is visited."""

    def visit_var_binding_(self, binding: Any) -> None:
        self._made = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Any) -> Any:
        variable = self._made
        result = shape_of(call) if _is_plain(call) else None
        call = super().visit_call_(call)
        if result is None:
            return call
        source = self._source(call.args[0])
        if same_sizes(shape_of(source), result) and variable not in self._kept and source not in self._kept:
            return source
        made = self._with_units(source, result, True)
        return op.reshape(source, relax.ShapeExpr(result)) if made is None else made

    def _bound(self, expression: Any) -> Any:
        return self.lookup_binding(expression) if isinstance(expression, relax.Var) else None

    def _source(self, expression: Any) -> Any:
        """What it is a reshape of, however often."""
        while (value := self._bound(expression)) is not None:
            if isinstance(value, relax.Var):
                expression = value
            elif name_of(value) == "relax.reshape" and _is_plain(value):
                expression = value.args[0]
            else:
                break
        return expression

    def _with_units(self, expression: Any, wanted: Sequence[Any], outermost: bool = False) -> Any | None:
        """A product, and what is added to it and the like, made with the shape `wanted`, which has axes of one element
        more in front: of what had these before it was reshaped for the product. None where it is nothing of the kind.
        """
        shape, value = shape_of(expression), self._bound(expression)
        if not shape or len(wanted) <= len(shape) or not same_sizes(wanted[len(wanted) - len(shape) :], shape):
            return None
        units = [*wanted[: len(wanted) - len(shape)]]
        if not all(map(is_one, units)) or not isinstance(value, tvm.ir.Call):
            return None
        if name_of(value) == "relax.reshape":
            source = self._source(expression)
            whole = same_sizes(shape_of(source), wanted)
            return source if whole else self.builder_.emit(op.reshape(source, relax.ShapeExpr([*wanted])))
        if self._uses[expression] != 1 or len(shape) < 2:
            return None
        made = self._made_with(value, units, shape)
        return made if made is None or outermost else self.builder_.emit(made)

    def _made_with(self, call: Any, units: list[Any], shape: Sequence[Any]) -> Any | None:
        name = name_of(call)
        if name == "relax.matmul":
            left, right = call.args
            if len(shape_of(right) or ()) != 2:
                return None
            left = self._with_units(left, [*units, *(shape_of(left) or ())])
            return None if left is None else op.matmul(left, right, out_dtype=call.attrs.out_dtype or None)
        if name not in _ELEMENT_BY_ELEMENT:
            return None
        found = [self._with_units(operand, [*units, *(shape_of(operand) or ())]) for operand in call.args]
        if all(one is None for one in found):
            return None
        # One of fewer axes is spread over all the others, whether there are some more or not.
        operands = []
        for one, operand in zip(found, call.args, strict=True):
            beside = shape_of(operand) or ()
            if one is None and len(beside) == len(shape):
                one = self.builder_.emit(op.reshape(operand, relax.ShapeExpr([*units, *beside])))
            operands.append(operand if one is None else one)
        return tvm.ir.Call(call.op, operands, call.attrs)


def with_plain_moves(module: tvm.IRModule) -> tvm.IRModule:
    """The module, in which each tensor that has another's elements in their order is one reshape of it, and products of
    a matrix keep the axes of one element that PyTorch takes away before them and adds behind them."""

    def made(so_far: tvm.IRModule, function: Any) -> _Plain:
        return _Plain(so_far, uses_of(function), {*function.params, *results_of(function)})

    return rewritten(module, made)


def _is_plain(call: Any) -> bool:
    """Whether it only changes the shape, of what can be a view: no bool lies in a buffer, and TVM takes no reshape from
    or to a tensor without axes for one."""
    axes = shape_of(call.args[0]) if _keeps_order(call) else None
    return bool(axes) and bool(shape_of(call)) and str(call.args[0].ty.dtype) != "bool"


def _keeps_order(call: Any) -> bool:
    """Whether the elements of what it gives are those of its operand, in their order."""
    if name_of(call) in _RESHAPES:
        return shape_of(call.args[0]) is not None
    shape = shape_of(call.args[0]) if name_of(call) == "relax.permute_dims" else None
    if shape is None:
        return False
    axes = [int(axis) % len(shape) for axis in call.attrs.axes or reversed(range(len(shape)))]
    longer = [axis for axis in axes if not is_one(shape[axis])]
    return longer == sorted(longer)
