"""The blocks of an operator's program: how they reduce, and the parts that they are evaluated in."""

from __future__ import annotations

from collections.abc import Mapping

from tapml.bounds.expression import NotDerivable
from tapml.operators.program import Expression, Store

POINTS = 1 << 22
"""Of a grid that are evaluated at a time: some arrays of this many float64 are held at once."""


def accumulation(store: Store) -> tuple[str, Expression]:
    """(operation, the term) of `buffer[i] = operation(buffer[i], term)`."""
    found = store.value
    if found.kind in ("add", "max", "min"):
        for own, term in (found.operands, found.operands[::-1]):
            if own.kind == "load" and own.value == store.buffer:
                return found.kind, term
    raise NotDerivable(f"a reduction by {found.kind}")


def is_product_sum(store: Store) -> bool:
    try:
        kind, term = accumulation(store)
    except NotDerivable:
        return False
    return kind == "add" and loads_floats_only(term)


def loads_floats_only(term: Expression) -> bool:
    """Is it a product of two elements (perhaps converted)? `contract` can sum those without making the grid."""

    def plain(node: Expression) -> bool:
        while node.kind == "cast":
            (node,) = node.operands
        return node.kind == "load"

    return term.kind == "mul" and all(map(plain, term.operands))


def parts(spatial: Mapping[str, int], points: int, splittable: bool) -> list[dict[str, range]]:
    """The grid in parts along its longest axis that can be split, each of at most some points."""
    if not splittable or points <= POINTS or not spatial:
        return [{}]
    var = max(spatial, key=lambda v: spatial[v])
    extent = spatial[var]
    step = max(1, extent * POINTS // points)
    return [{var: range(start, min(start + step, extent))} for start in range(0, extent, step)]
