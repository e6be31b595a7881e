"""What expressions are for all sizes in range: the least and the greatest value, and whether two are always the same.

An expression is kept as a polynomial with integer coefficients over *atoms*: names, and what is no polynomial (a
quotient, a minimum), each with its range. Both sides of the verifier (runner_js/src/compiled/algebra.ts) do the same in
the same order, and give up at the same size: what is too large is an atom of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tapml.expressions import MOST, ExpressionError, printed
from tapml.program.intervals import applied, may_divide_by_zero

MOST_WORK = 2**22
"""Products of terms and the like, for one model."""

_MOST_TERMS = 32
_MOST_DEGREE = 8
_MOST_SHOWN = 200

Terms = dict[tuple[int, ...], int]
"""Atoms that are multiplied, in order of their numbers -> coefficient, never 0."""


@dataclass(frozen=True)
class Value:
    """What an expression may be: never less than `low`, never more than `high`."""

    low: int
    high: int
    terms: Terms


Scope = Mapping[str, Value]


@dataclass(frozen=True)
class _Atom:
    low: int
    high: int
    most: Terms | None = None
    """What it is never above, of atoms before it."""


class Algebra:
    """The atoms of one model."""

    def __init__(self) -> None:
        self._atoms: list[_Atom] = []
        self._numbers: dict[Any, int] = {}
        self._work = 0

    def name(self, low: int, high: int, most: Terms | None = None) -> Value:
        """A new name for an integer from `low` to `high`, which is not above `most` either."""
        self._atoms.append(_Atom(low, high, most))
        return Value(low, high, {(len(self._atoms) - 1,): 1})

    def turn(self, count: Value) -> Value:
        """A new name for the number of a turn, of `count`."""
        return self.name(0, max(0, self.greatest(count) - 1), self._sum(count.terms, {(): 1}, -1))

    def value(self, expression: Any, scope: Scope) -> Value:
        """Of a well-formed expression over the names in scope.

        Raises ExpressionError for an unknown name, a divisor that may be zero, and what may be beyond 2^53 - 1.
        """
        self.spend(1)
        if isinstance(expression, int):
            return Value(expression, expression, {(): expression} if expression else {})
        if isinstance(expression, str):
            if expression not in scope:
                raise ExpressionError(f"there is no size {expression} here")
            return scope[expression]
        operation, a, b = expression
        left, right = self.value(a, scope), self.value(b, scope)
        if may_divide_by_zero(operation, (right.low, right.high)):
            raise ExpressionError(f"{shown(expression)} may divide by zero")
        low, high = applied(operation, (left.low, left.high), (right.low, right.high))
        if low < -MOST or high > MOST:
            raise ExpressionError(f"{shown(expression)} may be beyond 2^53 - 1")
        return Value(low, high, self._terms(operation, left, right, low, high))

    def least(self, value: Value) -> int:
        """What it is never below."""
        found = self._least(value.terms)
        return value.low if found is None else max(value.low, found)

    def greatest(self, value: Value) -> int:
        """What it is never above."""
        found = self._least({key: -factor for key, factor in value.terms.items()})
        return value.high if found is None else min(value.high, -found)

    def fits(self, part: Value, whole: Value) -> bool:
        """Whether `part` is never more than `whole`."""
        if part.high <= whole.low:
            return True
        difference = self._sum(whole.terms, part.terms, -1)
        found = None if difference is None else self._least(difference)
        return found is not None and found >= 0

    def multiple(self, value: Value, of: int) -> bool:
        """Whether it is always a multiple of `of`."""
        return all(factor % of == 0 for factor in value.terms.values())

    def spend(self, work: int) -> None:
        """Raises ExpressionError where the model has taken more than MOST_WORK."""
        self._work += work
        if self._work > MOST_WORK:
            raise ExpressionError("the model's expressions take too long to check")

    # ------------------------------------------------------------ polynomials

    def _terms(self, operation: str, left: Value, right: Value, low: int, high: int) -> Terms:
        found: Terms | None = None
        if low == high:
            found = {(): low} if low else {}
        elif operation in ("add", "sub"):
            found = self._sum(left.terms, right.terms, 1 if operation == "add" else -1)
        elif operation == "mul":
            found = self._product(left.terms, right.terms)
        elif operation in ("min", "max"):
            small, large = (left, right) if operation == "min" else (right, left)
            found = left.terms if small.high <= large.low else right.terms if small.low >= large.high else None
        elif right.low == right.high > 0 and operation != "floormod":
            whole = all(factor % right.low == 0 for factor in left.terms.values())
            found = {key: factor // right.low for key, factor in left.terms.items()} if whole else None
        if found is not None:
            return found
        key = (operation, _key(left.terms), _key(right.terms))
        if key not in self._numbers:
            self._numbers[key] = len(self._atoms)
            self._atoms.append(_Atom(low, high))
        return {(self._numbers[key],): 1}

    def _sum(self, left: Terms, right: Terms, sign: int) -> Terms | None:
        self.spend(len(left) + len(right))
        found = dict(left)
        for key, factor in right.items():
            if not _add(found, key, sign * factor):
                return None
        return found if len(found) <= _MOST_TERMS else None

    def _product(self, left: Terms, right: Terms) -> Terms | None:
        self.spend(len(left) * len(right))
        found: Terms = {}
        for a, x in left.items():
            for b, y in right.items():
                if len(a) + len(b) > _MOST_DEGREE or abs(x * y) > MOST:
                    return None
                if not _add(found, tuple(sorted((*a, *b))), x * y):
                    return None
        return found if len(found) <= _MOST_TERMS else None

    def _least(self, terms: Terms) -> int | None:
        """Atom by atom, the newest first: where it only adds it is at its least, where it only takes away at its most.
        What is left takes each atom by itself."""
        atom = len(self._atoms)
        while (atom := max((number for key in terms for number in key if number < atom), default=-1)) >= 0:
            self.spend(len(terms))
            if any(key.count(atom) > 1 for key in terms):
                continue
            factor = {tuple(n for n in key if n != atom): of for key, of in terms.items() if atom in key}
            rest = {key: of for key, of in terms.items() if atom not in key}
            found = self._range_of(factor)
            if found is None or found[0] < 0 < found[1]:
                continue
            bound = self._atoms[atom]
            end = {(): bound.low} if found[0] >= 0 else {(): bound.high} if bound.most is None else bound.most
            product = self._product(factor, {key: of for key, of in end.items() if of})
            bounded = None if product is None else self._sum(rest, product, 1)
            terms = terms if bounded is None else bounded
        found = self._range_of(terms)
        return found and found[0]

    def _range_of(self, terms: Terms) -> tuple[int, int] | None:
        """None where it may be beyond 2^53 - 1."""
        low = high = 0
        for key, factor in terms.items():
            self.spend(1)
            ends = (factor, factor)
            for number in key:
                atom = self._atoms[number]
                corners = [x * y for x in ends for y in (atom.low, atom.high)]
                ends = (min(corners), max(corners))
                if ends[0] < -MOST or ends[1] > MOST:
                    return None
            low, high = low + ends[0], high + ends[1]
            if low < -MOST or high > MOST:
                return None
        return low, high


def shown(expression: Any) -> str:
    """For people, and not too long for them."""
    text = printed(expression)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def same(one: Value, other: Value) -> bool:
    """Whether they are shown to be the same for all sizes."""
    return one.terms == other.terms


def _add(terms: Terms, key: tuple[int, ...], factor: int) -> bool:
    """Whether the sum is one that JavaScript holds exactly."""
    found = terms.pop(key, 0) + factor
    if found:
        terms[key] = found
    return abs(found) <= MOST


def _key(terms: Terms) -> tuple[Any, ...]:
    return tuple(sorted(terms.items()))
