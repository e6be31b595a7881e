"""What an integer expression may be: from a least to a greatest value.

All of it in Python's integers, which have no end: a result that its dtype does not hold is the caller's to see to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tapml.operators.program import Expression


@dataclass(frozen=True)
class Known:
    """`expression` is from `low` to `high`; `parts`: what no part of a sum or a product within it exceeds.

    Of an expression of floating-point numbers nothing is known: `low` is above `high`.
    """

    expression: Expression
    low: int = 1
    high: int = 0
    parts: int = 0

    @property
    def size(self) -> int:
        """What no part of it exceeds, however a compiler orders its sums and multiplies them out."""
        return max(self.parts, abs(self.low), abs(self.high))


_MONOTONE: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}
"""Whose least and greatest results are among those of their operands' ends."""


def combined(kind: str, a: Known, b: Known) -> tuple[int, int]:
    """The range of an operation. A divisor that may be 0 is taken as if it were not, a shift as if in range."""
    if kind in _MONOTONE:
        return _corners(_MONOTONE[kind], a, b)
    if kind in ("div", "floordiv"):
        return _quotient(kind, a, b)
    if kind in ("mod", "floormod"):
        return _remainder(kind, a, b)
    return _bits(kind, a, b)


def _corners(function: Callable[[int, int], int], a: Known, b: Known) -> tuple[int, int]:
    values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(values), max(values)


def _quotient(kind: str, a: Known, b: Known) -> tuple[int, int]:
    if b.low <= 0:
        most = max(abs(a.low), abs(a.high))
        return -most, most
    return _corners(_truncated if kind == "div" else operator.floordiv, a, b)


def _truncated(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _remainder(kind: str, a: Known, b: Known) -> tuple[int, int]:
    most = max(abs(b.low), abs(b.high), 1) - 1
    if a.low >= 0 and b.low > 0:
        return (a.low, a.high) if a.high < b.low else (0, min(a.high, most))
    return (0 if kind == "floormod" and b.low > 0 else -most), most


def _bits(kind: str, a: Known, b: Known) -> tuple[int, int]:
    if kind == "bitwise_and" and (a.low >= 0 or b.low >= 0):
        return 0, min(known.high for known in (a, b) if known.low >= 0)
    reach = max((~x if x < 0 else x).bit_length() for x in (a.low, a.high, b.low, b.high))
    return (0 if min(a.low, b.low) >= 0 else -(1 << reach)), (1 << reach) - 1
