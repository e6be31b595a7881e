"""What an expression may be for all sizes in the range of its symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapml.expressions import ExpressionError, Symbol, checked, printed

Interval = tuple[int, int]
"""The least and the greatest value."""

_CORNERS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}
"""Whose least and greatest values are among those of their operands' ends: in each operand they only grow or only fall,
quotients where the divisor keeps its sign."""


def interval(expression: Any, symbols: Sequence[Symbol]) -> tuple[int, int]:
    """The least and the greatest value, for sizes that are each from a symbol's minimum to its maximum.

    It is never too narrow. It is exact where no symbol stands twice and nothing is left of a division; otherwise it may
    be too wide, for operands are taken to be independent.

    Raises ExpressionError for what is no expression, an unknown symbol, and a divisor that may be zero.
    """
    ranges = {symbol.name: (symbol.minimum, symbol.maximum) for symbol in symbols}
    return _of(checked(expression), ranges)


def _of(expression: Any, ranges: Mapping[str, Interval]) -> Interval:
    if isinstance(expression, int):
        return expression, expression
    if isinstance(expression, str):
        if expression not in ranges:
            raise ExpressionError(f"there is no symbol {expression} here")
        return ranges[expression]
    operation, a, b = expression
    left, right = _of(a, ranges), _of(b, ranges)
    if may_divide_by_zero(operation, right):
        raise ExpressionError(f"{printed(expression)} may divide by zero")
    return applied(operation, left, right)


def may_divide_by_zero(operation: str, right: Interval) -> bool:
    """Whether it is a division, and its divisor may be zero."""
    return operation in ("floordiv", "floormod", "ceildiv") and right[0] <= 0 <= right[1]


def applied(operation: str, left: Interval, right: Interval) -> Interval:
    """What an operation may give of operands that are independent; no divisor is zero."""
    if operation == "floormod":
        return _remainder(left, right)
    values = [_CORNERS[operation](x, y) for x in left for y in right]
    return min(values), max(values)


def _remainder(left: Interval, right: Interval) -> Interval:
    """It has the divisor's sign, and is nearer to zero."""
    if left[0] >= 0 and left[1] < right[0]:
        return left
    return (0, right[1] - 1) if right[0] > 0 else (right[0] + 1, 0)
