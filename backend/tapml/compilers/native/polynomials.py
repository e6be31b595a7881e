"""Indices as polynomials over loop variables and symbols, which is where they become short: what a reshape divides and
multiplies again cancels, what lies in a row is seen to, and what is left prints as people write it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapml.compilers.native.stages import Numbering, variables_of
from tapml.operators.program import INTEGERS, Expression
from tapml.regions.terms import coefficient_in, without_in

Atom = str | int
"""A variable's or a symbol's name, or the number of an opaque expression."""

Range = tuple[int | None, int | None]


@dataclass(frozen=True)
class Polynomial:
    """Coefficients by product of atoms, () for the constant; no coefficient is 0."""

    terms: Mapping[tuple[Atom, ...], int] = field(default_factory=dict)

    def __add__(self, other: Polynomial) -> Polynomial:
        if not self.terms or not other.terms:
            return self if self.terms else other
        found = dict(self.terms)
        for product, coefficient in other.terms.items():
            found[product] = found.get(product, 0) + coefficient
        return Polynomial({product: c for product, c in found.items() if c})

    def __mul__(self, other: Polynomial) -> Polynomial:
        if (by := other.constant) is not None:
            return self.scaled(by)
        found: dict[tuple[Atom, ...], int] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                product = tuple(sorted((*a, *b), key=_order))
                found[product] = found.get(product, 0) + x * y
        return Polynomial({product: c for product, c in found.items() if c})

    def scaled(self, by: int) -> Polynomial:
        if by == 1:
            return self
        return Polynomial({product: c * by for product, c in self.terms.items()} if by else {})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other.scaled(-1)

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @property
    def constant(self) -> int | None:
        """Its value, where it has no atoms."""
        return self.terms.get((), 0) if not self.terms.keys() - {()} else None

    def atoms(self) -> set[Atom]:
        return {atom for product in self.terms for atom in product}

    def without(self, atom: Atom) -> Polynomial:
        """The terms that do not have it."""
        return Polynomial(without_in(self.terms, atom))

    def coefficient(self, atom: Atom) -> Polynomial | None:
        """What it is multiplied by; None where it stands with a power."""
        found = coefficient_in(self.terms, atom)
        return None if found is None else Polynomial(found)

    def divisible(self, divisor: int) -> bool:
        return all(c % divisor == 0 for c in self.terms.values())

    def divided(self, divisor: int) -> Polynomial:
        return Polynomial({product: c // divisor for product, c in self.terms.items()})


def _order(atom: Atom) -> tuple[bool, str]:
    return isinstance(atom, int), str(atom)


def number(value: int) -> Polynomial:
    return Polynomial({(): value} if value else {})


def atom(name: Atom) -> Polynomial:
    return Polynomial({(name,): 1})


class Indices:
    """Polynomials of an operator's index expressions. `ranges`: the extent of each loop variable; `symbols`: least and
    most of each symbol."""

    def __init__(self, symbols: Mapping[str, tuple[int, int]]) -> None:
        self.symbols = dict(symbols)
        self.extents: dict[str, Polynomial] = {}
        self.opaque: dict[int, Expression] = {}
        """By atom: floor divisions, remainders, loads and whatever else is no polynomial; operands are simplified."""
        self._numbers = Numbering()
        self._known: dict[int, Polynomial] = {}
        self._mark: tuple[Hashable, int] | None = None

    def declare(self, variable: str, extent: Any) -> None:
        self.extents[variable] = self.size(extent)
        self._mark = None

    # ------------------------------------------------ states (remembered.py)

    def mark(self, name: Hashable) -> None:
        """They are as `name` says, until they come to know something else."""
        self._mark = name, len(self._numbers)

    @property
    def marked(self) -> Hashable | None:
        """The name of the state that they are in."""
        return self._mark[0] if self._mark is not None and self._mark[1] == len(self._numbers) else None

    def become(self, other: Indices) -> None:
        self.symbols, self.extents, self.opaque = dict(other.symbols), dict(other.extents), dict(other.opaque)
        self._numbers, self._known, self._mark = other._numbers.copy(), dict(other._known), other._mark

    def copy(self) -> Indices:
        found = Indices({})
        found.become(self)
        return found

    # ------------------------------------------------ polynomials

    def size(self, extent: Any) -> Polynomial:
        """Of an extent: an integer or an expression over symbols."""
        if isinstance(extent, Polynomial):
            return extent
        if isinstance(extent, int):
            return number(extent)
        if isinstance(extent, str):
            return atom(extent)
        return self(_as_index(extent))

    def flat(self, indices: Sequence[Expression], shape: Sequence[Any]) -> Polynomial:
        """Where an element lies in its buffer, row-major."""
        found = number(0)
        for index, extent in zip(indices, shape, strict=True):
            if found.terms:
                found = found.scaled(extent) if isinstance(extent, int) else found * self.size(extent)
            found = found + self(index)
        return found

    def __call__(self, index: Expression) -> Polynomial:
        key = self._numbers(index)
        if key not in self._known:
            self._known[key] = self._polynomial(index)
        return self._known[key]

    def forget(self) -> None:
        """Extents have changed."""
        self._known.clear()

    def _polynomial(self, index: Expression) -> Polynomial:
        kind = index.kind
        if kind == "constant":
            return number(int(index.value or 0))
        if kind == "variable":
            return atom(str(index.value))
        if kind == "cast" and index.dtype in INTEGERS and index.operands[0].dtype in INTEGERS:
            return self(index.operands[0])
        if kind in ("add", "sub", "mul"):
            a, b = map(self, index.operands)
            return a + b if kind == "add" else a - b if kind == "sub" else a * b
        if kind in ("floordiv", "floormod", "div", "mod"):
            found = self._divided(index)
            if found is not None:
                return found
        return self._atom(index)

    def _atom(self, index: Expression) -> Polynomial:
        key = self._numbers(index)
        self.opaque[key] = index
        return atom(key)

    def _divided(self, index: Expression) -> Polynomial | None:
        """A quotient or a remainder by one product of symbols and a number, as far as it is a polynomial."""
        dividend, divisor = map(self, index.operands)
        if len(divisor.terms) != 1:
            return None
        ((product, factor),) = divisor.terms.items()
        if factor < 1:
            return None
        quotient, rest = number(0), number(0)
        for term, c in dividend.terms.items():
            left = _over(term, product)
            whole, remainder = divmod(c, factor) if left is not None else (0, c)
            quotient += Polynomial({left: whole}) if left is not None and whole else number(0)
            rest += Polynomial({term: remainder}) if remainder else number(0)
        low = self.low(rest)
        # Towards zero is downwards where nothing is below it.
        if index.kind in ("div", "mod") and (low is None or low < 0 or (self.low(dividend) or 0) < 0):
            return None
        inside = low is not None and low >= 0 and self.not_negative(divisor - number(1) - self.most(rest))
        if inside:
            return quotient if index.kind in ("floordiv", "div") else rest
        if not product and index.kind in ("floordiv", "floormod"):
            made = self._nested(index.kind, rest, factor)
            if made is not None:
                return quotient + made if index.kind == "floordiv" else made
        return None

    def _nested(self, kind: str, rest: Polynomial, factor: int) -> Polynomial:
        """What is left of a division once its multiples are taken out: itself an atom."""
        inner = self.expression(rest)
        if len(rest.terms) == 1 and rest.terms.get(next(iter(rest.terms))) == 1:
            (product,) = rest.terms
            found = self.opaque.get(product[0]) if len(product) == 1 and isinstance(product[0], int) else None
            before = self(found.operands[1]).constant if found is not None and found.kind == kind else None
            # floor(floor(x / a) / b) is floor(x / (a b)), and a remainder of a multiple of b leaves that of b.
            if found is not None and before and (kind == "floordiv" or before % factor == 0):
                factor = before * factor if kind == "floordiv" else factor
                made = Expression(kind, "int64", (found.operands[0], _integer(factor)))
                return self(made)
        return self._atom(Expression(kind, "int64", (inner, _integer(factor))))

    def expression(self, found: Polynomial) -> Expression:
        """The polynomial as an expression."""
        total: Expression | None = None
        for product, c in sorted(found.terms.items(), key=lambda term: [*map(_order, term[0])]):
            term: Expression | None = None
            for part in product:
                one = Expression("variable", "int64", (), part) if isinstance(part, str) else self.opaque[part]
                one = one if one.dtype == "int64" else Expression("cast", "int64", (one,))
                term = one if term is None else Expression("mul", "int64", (term, one))
            if term is None:
                term = _integer(c)
            elif c != 1:
                term = Expression("mul", "int64", (term, _integer(c)))
            total = term if total is None else Expression("add", "int64", (total, term))
        return total if total is not None else _integer(0)

    # ------------------------------------------------ ranges

    def range(self, atom: Atom) -> tuple[int | None, Polynomial | None]:
        """The least value, and the most as a polynomial over symbols."""
        if isinstance(atom, str):
            if atom in self.extents:
                return 0, self.extents[atom] - number(1)
            if atom in self.symbols:
                return self.symbols[atom][0], Polynomial({(atom,): 1})
            return None, None
        found = self.opaque[atom]
        if found.kind in ("floormod", "floordiv"):
            divisor = self(found.operands[1])
            if divisor.constant is not None and divisor.constant > 0:
                inner = self(found.operands[0])
                low, high = self.low(inner), self.most(inner).constant if self._bounded(inner) else None
                if found.kind == "floormod":
                    return 0, number(divisor.constant - 1)
                if low is not None:
                    least = low // divisor.constant
                    return least, number(high // divisor.constant) if high is not None else None
        return None, None

    def low(self, found: Polynomial) -> int | None:
        """A number that it is never below."""
        total = 0
        for product, c in found.terms.items():
            least, most = 1, 1
            for part in product:
                low, high = self.range(part)
                top = self._greatest(high) if high is not None else None
                if low is None or low < 0 or (c < 0 and top is None):
                    return None
                least, most = least * low, most * (top if top is not None else 0)
            total += c * (least if c > 0 else most)
        return total

    def _bounded(self, found: Polynomial) -> bool:
        return all(self.range(part)[1] is not None for part in found.atoms())

    def most(self, found: Polynomial) -> Polynomial:
        """What it is at most, over symbols; where nothing is known, an atom of which nothing is known either."""
        total = number(0)
        for product, c in found.terms.items():
            term = number(c)
            for part in product:
                low, high = self.range(part)
                if c < 0:
                    term *= number(low) if low is not None else atom("?")
                else:
                    term *= high if high is not None and low is not None and low >= 0 else atom("?")
            total += term
        return total

    def _greatest(self, found: Polynomial) -> int | None:
        """Of a polynomial over symbols."""
        total = 0
        for product, c in found.terms.items():
            value = c
            for part in product:
                if not isinstance(part, str) or part not in self.symbols:
                    return None
                value *= self.symbols[part][1 if c > 0 else 0]
            total += value
        return total

    def not_negative(self, found: Polynomial) -> bool:
        """Is a polynomial over symbols known to be 0 or more? For sizes of one symbol at their least is enough."""
        if any(not isinstance(part, str) or part not in self.symbols for part in found.atoms()):
            return False
        low = self.low(found)
        return low is not None and low >= 0

    def greatest(self, extent: Any) -> int:
        """The most that an extent comes to."""
        found = self._greatest(self.size(extent))
        return 2**31 - 1 if found is None else found

    def depends(self, found: Polynomial, variable: str) -> bool:
        """Does its value change with a variable?"""
        return any(
            part == variable if isinstance(part, str) else variable in variables_of(self.opaque[part])
            for part in found.atoms()
        )


def _over(term: tuple[Atom, ...], product: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """A product of atoms without those of another; None where it does not have them."""
    left = list(term)
    for part in product:
        if part not in left:
            return None
        left.remove(part)
    return tuple(left)


def _integer(value: int) -> Expression:
    return Expression("constant", "int64", (), value)


def _as_index(extent: Any) -> Expression:
    """An expression over symbols as one of a program."""
    if isinstance(extent, int):
        return _integer(extent)
    if isinstance(extent, str):
        return Expression("variable", "int64", (), extent)
    kind, a, b = extent[0], _as_index(extent[1]), _as_index(extent[2])
    if kind == "ceildiv":
        above = Expression("add", "int64", (a, Expression("sub", "int64", (b, _integer(1)))))
        return Expression("floordiv", "int64", (above, b))
    return Expression(kind, "int64", (a, b))
