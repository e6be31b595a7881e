"""The blocks of an operator's program: what they run over, what they store, and how they reduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tapml.bounds.expression import NotDerivable

POINTS = 1 << 22
"""Of a grid that are evaluated at a time: some arrays of this many float64 are held at once."""

_REDUCTION = 2  # tirx.IterVar.CommReduce


@dataclass(frozen=True)
class Block:
    """A block and the extents of its variables."""

    realize: Any
    extents: dict[Any, int]
    reductions: frozenset[Any]

    @property
    def block(self) -> Any:
        return self.realize.block


def shape_of(buffer: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in buffer.ty.shape)


def realized(root: Any) -> list[tuple[Any, dict[Any, int], frozenset[Any]]]:
    """The blocks within loops, in order: (realization, extents of its variables, those that reduce)."""
    body = root.block.body if type(root).__name__ == "SBlockRealize" else root
    found = []
    for statement in body.seq if type(body).__name__ == "SeqStmt" else [body]:
        loops: dict[Any, int] = {}
        while type(statement).__name__ == "For":
            loops[statement.loop_var] = int(statement.extent)
            statement = statement.body
        if type(statement).__name__ != "SBlockRealize":
            raise NotDerivable(f"{type(statement).__name__} in its program")
        # A loop of one turn may be written as its number.
        if not all(
            type(value).__name__ == "Var" or int(variable.dom.extent) == 1
            for value, variable in zip(statement.iter_values, statement.block.iter_vars, strict=True)
        ):
            raise NotDerivable("blocks that are not simple loops")
        variables = list(statement.block.iter_vars)
        extents = {variable.var: int(variable.dom.extent) for variable in variables}
        found.append((statement, extents, frozenset(v.var for v in variables if int(v.iter_type) == _REDUCTION)))
    return found


def statements(body: Any) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """(stores, bound variables with their values) of a block's body."""
    stores, lets = [], []
    for statement in body.seq if type(body).__name__ == "SeqStmt" else [body]:
        kind = type(statement).__name__
        if kind == "BufferStore":
            stores.append(statement)
        elif kind == "Bind":
            lets.append((statement.var, statement.value))
        else:
            raise NotDerivable(f"{kind} in its program")
    return stores, lets


def accumulation(store: Any) -> tuple[str, Any]:
    """(operation, the term) of `buffer[i] = operation(buffer[i], term)`."""
    kind = type(store.value).__name__
    if kind in ("Add", "Max", "Min"):
        for own, term in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
            if type(own).__name__ == "TensorLoad" and own.source.same_as(store.buffer):
                return kind, term
    raise NotDerivable(f"a reduction by {kind}")


def is_product_sum(store: Any) -> bool:
    try:
        kind, term = accumulation(store)
    except NotDerivable:
        return False
    return kind == "Add" and type(term).__name__ == "Mul" and loads_floats_only(term)


def loads_floats_only(product: Any) -> bool:
    """A product of two elements (perhaps converted): what `contract` can sum without making the grid."""

    def plain(node: Any) -> bool:
        while type(node).__name__ == "Cast":
            node = node.value
        return type(node).__name__ == "TensorLoad"

    return plain(product.a) and plain(product.b)


def parts(spatial: Mapping[Any, int], points: int, splittable: bool) -> list[dict[Any, range]]:
    """The grid in parts along its longest axis that can be split, each of at most some points."""
    if not splittable or points <= POINTS or not spatial:
        return [{}]
    var = max(spatial, key=lambda v: spatial[v])
    extent = spatial[var]
    step = max(1, extent * POINTS // points)
    return [{var: range(start, min(start + step, extent))} for start in range(0, extent, step)]
