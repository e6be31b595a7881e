"""A box of points: loop variables with their extents, what forms over them come to, and how a box is divided where one
form does not hold in all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import gcd

from tapml.regions.forms import Atom, Form, NotRegions, Number, Remainder


@dataclass(frozen=True)
class Cut(Exception):
    """The box has to be two: up to `at`, which is no part of the first, and from there on."""

    variable: str
    at: Form


@dataclass(frozen=True)
class Fold(Exception):
    """The variable has to be two: so many turns of `length` each."""

    variable: str
    length: int


@dataclass(frozen=True)
class Box:
    """`extents` of its variables, outermost first, forms over symbols; `symbols`: least and most of each."""

    extents: Mapping[str, Form]
    symbols: Mapping[str, tuple[int, int]]

    # ------------------------------------------------ ranges

    def least(self, form: Form) -> Number | None:
        """A number that it is never below."""
        total = Form.of(0)
        for product, c in form.terms.items():
            inner = [atom for atom in product if not (isinstance(atom, str) and atom in self.symbols)]
            outer = Form({tuple(atom for atom in product if atom not in inner): c})
            if not inner:
                total += outer
            elif c < 0:
                # A product of what is not negative is the greatest where each is.
                for atom in inner:
                    if (most := self._most_of(atom)) is None:
                        return None
                    outer = outer * most
                total += outer
        return self._least_of_symbols(total)

    def greatest(self, form: Form) -> Number | None:
        """A number that it is never above."""
        found = self.least(-form)
        return None if found is None else -found

    def _most_of(self, atom: Atom) -> Form | None:
        if isinstance(atom, Remainder):
            return Form.of(atom.modulus - 1)
        return self.extents[atom] - 1 if atom in self.extents else None

    def _least_of_symbols(self, form: Form) -> Number:
        """Symbols are not negative."""
        total: Number = 0
        for product, c in form.terms.items():
            for atom in product:
                c *= self.symbols[str(atom)][0 if c > 0 else 1]
            total += c
        return total

    # ------------------------------------------------ division

    def remainder(self, form: Form, modulus: int) -> Form:
        """Of an integer's floor division."""
        scale = form.denominator
        if scale > 1:
            return self.remainder(form * scale, modulus * scale) * Fraction(1, scale)
        if modulus == 1:
            return Form.of(0)
        found = self._reduced(form, modulus)
        low, high = self.least(found), self.greatest(found)
        if low is not None and high is not None and low // modulus == high // modulus:
            return found - modulus * (low // modulus)
        if (known := self._of_quotient(found, modulus)) is not None:
            return known
        return Form.atom(Remainder(found, modulus))

    def _reduced(self, form: Form, modulus: int) -> Form:
        """Another dividend with the same remainder: multiples of the modulus are gone."""
        for atom in form.remainders:
            c = form.terms.get((atom,))
            # A remainder differs from its dividend by multiples of its own modulus.
            if c is not None and c * atom.modulus % modulus == 0:
                form = form.without(atom) + atom.dividend * c
        small = {product: c % modulus if c > 0 or not product else -(-c % modulus) for product, c in form.terms.items()}
        return Form(small)

    def _of_quotient(self, form: Form, modulus: int) -> Form | None:
        """That of `a - remainder(a, m)`, a multiple of m, is `remainder(a, modulus) - remainder(a, m)`."""
        for atom in form.remainders:
            rest = form.without(atom)
            if form.terms.get((atom,)) != -1 or modulus % atom.modulus or not rest.terms:
                continue
            if self.remainder(rest, atom.modulus) == Form.atom(atom):
                return self.remainder(rest, modulus) - Form.atom(atom)
        return None

    def quotient(self, form: Form, divisor: Form) -> Form:
        """Of a floor division. Raises NotRegions by what is not always the same number, but for symbols."""
        known = divisor.constant
        if known is not None and known.denominator == 1 and known > 0:
            return (form - self.remainder(form, int(known))) * Fraction(1, int(known))
        return self._of_symbols(form, divisor)[0]

    def modulo(self, form: Form, divisor: Form) -> Form:
        """The remainder of that; raises as it does."""
        known = divisor.constant
        if known is not None and known.denominator == 1 and known > 0:
            return self.remainder(form, int(known))
        return self._of_symbols(form, divisor)[1]

    def _of_symbols(self, form: Form, divisor: Form) -> tuple[Form, Form]:
        if len(divisor.terms) != 1:
            raise NotRegions
        ((product, factor),) = divisor.terms.items()
        quotient, rest = Form.of(0), form
        for term, c in form.terms.items():
            left = list(term)
            for atom in product:
                if atom not in left:
                    break
                left.remove(atom)
            else:
                if c % factor == 0:
                    quotient += Form({tuple(left): c // factor})
                    rest -= Form({term: c})
        low, room = self.least(rest), self.least(divisor - 1 - rest)
        if low is None or low < 0 or room is None or room < 0:
            raise NotRegions
        return quotient, rest

    # ------------------------------------------------ where to divide it

    def is_below(self, form: Form) -> bool:
        """Is it below 0? Raises Cut or Fold where that is not the same everywhere, NotRegions where none helps."""
        high = self.greatest(form)
        if high is not None and high < 0:
            return True
        low = self.least(form)
        if low is not None and low > -1:  # it is an integer
            return False
        self.resolve(form)
        scaled = form * form.denominator
        variables = self._by_size(scaled)
        if len(variables) == 1:
            self._cut_at_symbols(scaled, variables[0])
        for variable in variables:
            self._cut_where(scaled, variable, lambda value: value < 0)
        raise NotRegions

    def resolve(self, form: Form) -> None:
        """Raises Cut or Fold where the form has remainders, and is none of variables alone."""
        for atom in sorted(form.remainders, key=repr):
            inner = atom.dividend
            self.resolve(inner)
            folds = []
            for variable in self._by_size(inner):
                c = inner.terms.get((variable,), Fraction(1, 2))
                extent = self.extents[variable]
                if c.denominator != 1 or inner.coefficient(variable) != Form.of(c):
                    raise NotRegions
                length = atom.modulus // gcd(int(c), atom.modulus)
                known = extent.constant
                if (known is not None and known > length) or (known is None and extent.divisible(length)):
                    folds.append((length, variable))
            if folds:
                raise Fold(min(folds)[1], min(folds)[0])
            for variable in self._by_size(inner):
                self._cut_where(inner, variable, partial(_whole, modulus=atom.modulus))
            raise NotRegions

    def _by_size(self, form: Form) -> list[str]:
        """Its variables, that with the largest coefficient first."""
        sizes: dict[str, Fraction] = {}
        for product, c in form.terms.items():
            for atom in product:
                if isinstance(atom, str) and atom in self.extents:
                    sizes[atom] = max(sizes.get(atom, Fraction(0)), abs(Fraction(c)))
        return sorted(sizes, key=lambda variable: (-sizes[variable], variable))

    def _cut_where(self, form: Form, variable: str, kind: Callable[[Number], int]) -> None:
        """Raise Cut at the first value of the variable where `kind`, which only grows or only falls, of what the form
        can be is another than at 0."""
        step, rest = form.terms.get((variable,)), form.without(variable)
        known = self.extents[variable].constant
        low, high = self.least(rest), self.greatest(rest)
        if step is None or form.coefficient(variable) != Form.of(step) or None in (known, low, high):
            return

        def at(value: int) -> tuple[int, int]:
            assert low is not None
            assert high is not None
            return kind(step * value + low), kind(step * value + high)

        first, last = 0, int(known or 0) - 1
        if at(first) == at(last):
            return
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if at(middle) == at(0) else (first, middle)
        raise Cut(variable, Form.of(last))

    def _cut_at_symbols(self, form: Form, variable: str) -> None:
        """Raise Cut where a variable passes a size of symbols."""
        step, rest = form.terms.get((variable,)), form.without(variable)
        if step not in (1, -1) or form.coefficient(variable) != Form.of(step):
            return
        extent = self.extents[variable]
        if rest.constant is not None and extent.constant is not None:
            return
        at = -rest if step == 1 else rest + 1
        if all(atom in self.symbols for atom in at.atoms):
            sizes = self.least(at), self.least(extent - at)
            if all(size is not None and size >= 0 for size in sizes):
                raise Cut(variable, at)


def _whole(value: Number, modulus: int) -> int:
    return int(value // modulus)
