"""What an integer expression may be: from a least to a greatest value, and as a sum of terms for what conditions say.

All of it in Python's integers, which have no end: a result that its dtype does not hold is the caller's to see to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tapml.operators.program import Expression

Terms = Mapping[Expression, int]
Facts = dict[frozenset[tuple[Expression, int]], tuple[int, int]]
"""A sum of terms -> from where to where it is, where a condition that holds says so."""

ENDLESS = 1 << 200


@dataclass(frozen=True)
class Known:
    """`expression` is from `low` to `high`, and the sum of `terms` (each times its factor) and `constant`.

    Of an expression of floating-point numbers nothing is known: `low` is above `high`.
    """

    expression: Expression
    low: int = 1
    high: int = 0
    terms: Terms = field(default_factory=dict)
    constant: int = 0
    parts: int = 0

    @property
    def exact(self) -> bool:
        """It is always the same number."""
        return self.low == self.high

    @property
    def size(self) -> int:
        """What no part of it exceeds, however a compiler orders its sums and multiplies them out."""
        return max(self.parts, abs(self.low), abs(self.high))


def atom(expression: Expression, low: int, high: int) -> Known:
    """An expression that is no sum of others."""
    return Known(expression, low, high, {expression: 1})


def combined(kind: str, a: Known, b: Known) -> tuple[int, int]:
    """The range of an operation. A divisor that may be 0 is taken as if it were not, a shift as if in range."""
    if kind == "add":
        return a.low + b.low, a.high + b.high
    if kind == "sub":
        return a.low - b.high, a.high - b.low
    if kind == "mul":
        return _corners([x * y for x in (a.low, a.high) for y in (b.low, b.high)])
    if kind in ("min", "max"):
        choose = min if kind == "min" else max
        return choose(a.low, b.low), choose(a.high, b.high)
    if kind in ("div", "floordiv"):
        return _quotient(kind, a, b)
    if kind in ("mod", "floormod"):
        return _remainder(kind, a, b)
    if kind == "shift_left":
        return _corners([x << y for x in (a.low, a.high) for y in (b.low, b.high)])
    if kind == "shift_right":
        return _corners([x >> y for x in (a.low, a.high) for y in (b.low, b.high)])
    return _bits(kind, a, b)


def _corners(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


def _quotient(kind: str, a: Known, b: Known) -> tuple[int, int]:
    if b.low <= 0:
        most = max(abs(a.low), abs(a.high))
        return -most, most
    divide = _truncated if kind == "div" else int.__floordiv__
    return _corners([divide(x, y) for x in (a.low, a.high) for y in (b.low, b.high)])


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


def summed(kind: str, a: Known, b: Known) -> tuple[dict[Expression, int], int] | None:
    """Terms and constant of a sum, a difference, or a product with a number; None of anything else."""
    if kind in ("add", "sub"):
        sign = 1 if kind == "add" else -1
        return _merged(a.terms, b.terms, sign), a.constant + sign * b.constant
    if kind == "mul" and (a.exact or b.exact):
        factor, other = (a.low, b) if a.exact else (b.low, a)
        if factor:
            return {term: count * factor for term, count in other.terms.items()}, other.constant * factor
    return None


def _merged(a: Terms, b: Terms, sign: int) -> dict[Expression, int]:
    terms = dict(a)
    for term, count in b.items():
        terms[term] = terms.get(term, 0) + sign * count
    return {term: count for term, count in terms.items() if count}


def narrowed(known: Known, facts: Facts) -> tuple[int, int]:
    """The range with what `facts` add to it."""
    low, high = known.low, known.high
    if facts and known.terms:
        if found := facts.get(frozenset(known.terms.items())):
            low, high = max(low, found[0] + known.constant), min(high, found[1] + known.constant)
        if found := facts.get(frozenset((term, -count) for term, count in known.terms.items())):
            low, high = max(low, known.constant - found[1]), min(high, known.constant - found[0])
    # Conditions that exclude each other: the expression is never reached.
    return (low, high) if low <= high else (known.low, known.low)


def with_fact(facts: Facts, kind: str, a: Known, b: Known, truth: bool) -> Facts:
    """`facts` and what a comparison of integers says that came out as `truth`."""
    if not truth:
        kind = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}[kind]
    if kind in ("gt", "ge"):
        kind, a, b = {"gt": "lt", "ge": "le"}[kind], b, a
    terms = _merged(a.terms, b.terms, -1)
    if kind == "ne" or not terms:
        return facts
    most = b.constant - a.constant - (kind == "lt")
    least = most if kind == "eq" else -ENDLESS
    key = frozenset(terms.items())
    known = facts.get(key, (-ENDLESS, ENDLESS))
    return {**facts, key: (max(known[0], least), min(known[1], most))}
