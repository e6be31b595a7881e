"""The blocks of an operator's program: how they reduce, and the parts that they are evaluated in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from tapml.bounds.uncertain import NotDerivable
from tapml.operators.program import Block, Expression, Store, parts_of

POINTS = 1 << 19
"""Of the grid of a sum that are evaluated at a time: some arrays of this many float64 are held at once."""

_POINTS_OF_MAP = 1 << 16
"""The same where nothing is summed, and more arrays are held: all of them stay in a processor's cache."""


def accumulation(store: Store) -> tuple[str, Expression]:
    """(operation, the term) of `buffer[i] = operation(buffer[i], term)`."""
    found = store.value
    if found.kind in ("add", "max", "min"):
        for own, term in (found.operands, found.operands[::-1]):
            if own.kind == "load" and own.value == store.buffer:
                return found.kind, term
    raise NotDerivable(f"a reduction by {found.kind}")


def apart(stores: Sequence[Store], lets: Mapping[str, Expression]) -> list[Store] | None:
    """The stores of a reduction as accumulations of their own, such as the sums of x and of x * x; None where what one
    of them holds decides about another, as in an argmax.
    """
    found = [
        replace(store, value=lets[str(store.value.value)]) if store.value.kind == "variable" else store
        for store in stores
    ]
    buffers = {store.buffer for store in found}
    try:
        terms = [accumulation(store)[1] for store in found]
    except NotDerivable:
        return None
    alone = len(buffers) == len(found) and not any(_mentions(term, {*buffers, *lets}) for term in terms)
    return found if alone else None


def _mentions(term: Expression, names: Set[str]) -> bool:
    own = term.kind in ("load", "variable") and str(term.value) in names
    return own or any(_mentions(operand, names) for operand in term.operands)


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


def parts(
    extents: Mapping[str, int], spatial: Mapping[str, int], stores: Sequence[Store], product: Store | None
) -> list[dict[str, range]]:
    """The grid in parts along its axes that can be split, each of about as many points as are evaluated at a time, in
    order.

    What is scattered may meet: there the last one stays, so only the outermost axis is split. A sum of
    products needs no grid of all points, for it is a matrix product: its largest operand or its result counts.
    """
    among = [set(extents)]
    if product is not None:
        among = [set(spatial), *(_variables(operand) & set(extents) for operand in accumulation(product)[1].operands)]
    largest = max(among, key=lambda variables: math.prod(extents[v] for v in variables))
    points, most = math.prod(extents[v] for v in largest), _POINTS_OF_MAP if {*extents} == {*spatial} else POINTS
    found: list[dict[str, range]] = [{}]
    # In the order of the loops where they are as long: a sum's last bit may depend on how it is cut.
    split = sorted((v for v in spatial if v in largest), key=lambda v: -spatial[v])
    if any(node.kind == "load" for store in stores for index in store.indices for node in parts_of(index)):
        split = list(extents)[:1] if {*extents} == {*spatial} else []
    for var in split:
        if points <= most:
            break
        extent = spatial[var]
        step = max(1, extent * most // points)
        pieces = [range(start, min(start + step, extent)) for start in range(0, extent, step)]
        found = [{**part, var: piece} for part in found for piece in pieces]
        points = points * step // extent
    return found


def _variables(node: Expression) -> set[str]:
    return {str(found.value) for found in parts_of(node) if found.kind == "variable"}


def last_uses(blocks: Sequence[Block]) -> dict[str, int]:
    """The last of the blocks that reads or writes a buffer, by its name."""
    found: dict[str, int] = {}
    for place, block in enumerate(blocks):
        read = [str(node.value) for node in block.expressions if node.kind == "load"]
        written = [statement.buffer for statement in (*block.first, *block.body) if isinstance(statement, Store)]
        found |= dict.fromkeys([*read, *written], place)
    return found
