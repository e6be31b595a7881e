"""Sums of products of loop variables, symbols and remainders: what indices and sizes are made of.

A quotient is no part of a form: floor(a / c) is (a - remainder(a, c)) / c, so that what a reshape divides and
multiplies again is gone by addition alone. Coefficients are fractions for that reason; the value of each form is an
integer wherever it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias, Union

from tapml.expressions import Expression
from tapml.regions.terms import coefficient_in, without_in

MOST_PARTS = 512
"""Of a form: terms, their atoms, and the parts of these."""

_MOST = 2**96
"""Of a coefficient."""


class NotRegions(Exception):
    """No regions say what this does."""


@dataclass(frozen=True)
class Remainder:
    """Of `dividend` by `modulus`, from 0 to `modulus` - 1, where no simpler form is known."""

    dividend: Form
    modulus: int


Atom: TypeAlias = Union[str, Remainder]  # noqa: UP007  # Remainder is named before it is known
"""A variable, a symbol, or a remainder."""

Number: TypeAlias = int | Fraction


class Form:
    """Coefficients by product of atoms, () for the constant; none is 0. Equal forms are equal objects to `==`.

    Raises NotRegions for one that is larger than any index that a person would write.
    """

    __slots__ = ("_hash", "parts", "terms")

    def __init__(self, terms: Mapping[tuple[Atom, ...], Number]) -> None:
        self.terms = {product: c if isinstance(c, int) else _plain(c) for product, c in terms.items() if c}
        self.parts = sum(1 + sum(map(_parts, product)) for product in self.terms)
        if self.parts > MOST_PARTS or any(max(abs(c.numerator), c.denominator) > _MOST for c in self.terms.values()):
            raise NotRegions
        self._hash = hash(frozenset(self.terms.items()))

    @staticmethod
    def of(value: Number | Form) -> Form:
        return value if isinstance(value, Form) else Form({(): value})

    @staticmethod
    def atom(atom: Atom) -> Form:
        return Form({(atom,): 1})

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form | int | Fraction) and self.terms == Form.of(other).terms

    def __repr__(self) -> str:
        return " + ".join(f"{c}*{product}" for product, c in self.terms.items()) or "0"

    def __add__(self, other: Number | Form) -> Form:
        found = dict(self.terms)
        for product, c in Form.of(other).terms.items():
            found[product] = found.get(product, 0) + c
        return Form(found)

    def __neg__(self) -> Form:
        return self * -1

    def __sub__(self, other: Number | Form) -> Form:
        return self + Form.of(other) * -1

    def __mul__(self, other: Number | Form) -> Form:
        found: dict[tuple[Atom, ...], Number] = {}
        for a, x in self.terms.items():
            for b, y in Form.of(other).terms.items():
                product = tuple(sorted((*a, *b), key=_order)) if a and b else a or b
                found[product] = found.get(product, 0) + x * y
        return Form(found)

    @property
    def constant(self) -> Number | None:
        """Its value, where it has no atoms."""
        return self.terms.get((), 0) if not self.terms.keys() - {()} else None

    @property
    def denominator(self) -> int:
        """The least number that makes all its coefficients integers."""
        return lcm(*(c.denominator for c in self.terms.values()))

    @property
    def atoms(self) -> set[Atom]:
        return {atom for product in self.terms for atom in product}

    @property
    def remainders(self) -> list[Remainder]:
        return [atom for atom in self.atoms if isinstance(atom, Remainder)]

    def coefficient(self, atom: Atom) -> Form | None:
        """What it is multiplied by; None where it stands with a power."""
        found = coefficient_in(self.terms, atom)
        return None if found is None else Form(found)

    def without(self, atom: Atom) -> Form:
        """The terms that do not have it."""
        return Form(without_in(self.terms, atom))

    def divisible(self, divisor: int) -> bool:
        """Is each of its coefficients a multiple?"""
        return all(c % divisor == 0 for c in self.terms.values())


def _plain(c: Fraction) -> Number:
    """Integers are faster."""
    return c.numerator if c.denominator == 1 else c


def _parts(atom: Atom) -> int:
    return 1 + atom.dividend.parts if isinstance(atom, Remainder) else 1


def _order(atom: Atom) -> tuple[bool, str]:
    return isinstance(atom, Remainder), repr(atom)


Size: TypeAlias = int | Form
"""An integer, or a form over symbols alone."""


def sized(form: Form) -> Size | None:
    """The form as a size; None where it is none."""
    if form.denominator != 1 or form.remainders:
        return None
    return form if form.constant is None else int(form.constant)


def expression(size: Size) -> Expression:
    """As an expression over symbols (tapml.expressions)."""
    if isinstance(size, int):
        return size
    total: Any = None
    for product, c in sorted(size.terms.items(), key=lambda term: (-term[1], len(term[0]), repr(term[0]))):
        term: Any = abs(int(c))
        for atom in product:
            term = atom if term == 1 else ["mul", term, atom]
        total = [("sub" if c < 0 else "add"), 0 if total is None else total, term] if total or c < 0 else term
    return total if total is not None else 0


def form_of(extent: Expression) -> Form | None:
    """An expression over symbols as a form; None for one that divides or chooses."""
    if isinstance(extent, int):
        return Form.of(extent)
    if isinstance(extent, str):
        return Form.atom(extent)
    kind, a, b = extent[0], form_of(extent[1]), form_of(extent[2])
    if a is None or b is None or kind not in ("add", "sub", "mul"):
        return None
    return a + b if kind == "add" else a - b if kind == "sub" else a * b
