"""TVM's integer expressions as sizes (tapml.expressions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tapml.expressions import ExpressionError, checked

# Sizes are not negative: to divide towards zero is to divide downwards.
_OPERATIONS = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "Div": "floordiv",
    "FloorMod": "floormod",
    "Mod": "floormod",
    "Min": "min",
    "Max": "max",
}


def expression_of(value: Any, size_of: Callable[[Any], Any]) -> Any:
    """A PrimExpr of integers that are not negative; `size_of` gives the expression that a variable stands for, or None.

    Raises ExpressionError for what is none: another variable, a load, a call, a float.
    """
    kind = type(value).__name__
    if isinstance(value, int | tirx.IntImm):
        return int(value)
    if kind == "Cast":
        return expression_of(value.value, size_of)
    if kind == "Var":
        if (found := size_of(value)) is None:
            raise ExpressionError(f"{value} is no size of the model's inputs")
        return found
    if kind in _OPERATIONS:
        operands = [expression_of(operand, size_of) for operand in (value.a, value.b)]
        return checked([_OPERATIONS[kind], *operands])
    raise ExpressionError(f"{value} is no operation of sizes")
