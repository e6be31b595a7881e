"""Sums of products as mappings: coefficients by product of atoms, () for the constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Atom = TypeVar("Atom")
Number = TypeVar("Number")

Terms = Mapping[tuple[Atom, ...], Number]


def coefficient_in(terms: Terms[Atom, Number], atom: Atom) -> dict[tuple[Atom, ...], Number] | None:
    """What an atom is multiplied by; None where it stands with a power."""
    found: dict[tuple[Atom, ...], Number] = {}
    for product, c in terms.items():
        if product.count(atom) > 1:
            return None
        if atom in product:
            rest = list(product)
            rest.remove(atom)
            found[tuple(rest)] = c
    return found


def without_in(terms: Terms[Atom, Number], atom: Atom) -> dict[tuple[Atom, ...], Number]:
    """The terms that do not have an atom."""
    return {product: c for product, c in terms.items() if atom not in product}
