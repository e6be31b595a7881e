"""Which template computes a product of matrices."""

from __future__ import annotations

import math
from typing import Any

from tapml.compilers.native.contraction import Contraction, contraction
from tapml.compilers.native.direct import MOST_TERMS, direct
from tapml.compilers.native.eights import ProductOfHalves, halves_of
from tapml.compilers.native.kernel import Found, Launch, Text, ceildiv, check_counts, times
from tapml.compilers.native.matrices import SIDE, Blocks, blocks_of, by_matrices
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, Hooks, extents
from tapml.compilers.native.skinny import MOST_ROWS, ROWS_OF_FOURS, Split, skinny, split_of
from tapml.compilers.native.split import merged, parts_of
from tapml.compilers.native.tiled import Tile, tile_of, tiled


def matmul(found: Found, chosen: Tile | Split | Blocks | None = None) -> list[Launch] | None:
    """One dispatch for a product of matrices, however its axes lie, or two where its inner axis is shared out.
    None for what is none. `chosen`: how it is shared out, where that is the template's own way to do it; by default
    what is estimated to take the least time."""
    indices = found.indices(found.stages)
    made = contraction(found, indices)
    if made is None or found.threads < 256:
        return None
    sizes = [_most(indices, axes) for axes in (made.batch, made.rows, made.columns, made.inner)]
    batch, rows, columns, inner = sizes
    check_counts(indices, sizes[:3])
    if columns <= MOST_ROWS < rows:
        made, rows, columns = made.turned(), columns, rows
    text = Text(found, found.entry_point, indices, OWN_NAMES)
    if found.matrices and (halves := _of_matrices(made, rows, columns, inner)) is not None:
        blocks = chosen if isinstance(chosen, Blocks) else blocks_of(rows, columns, batch)
        if blocks.invocations <= found.threads:
            return [by_matrices(ProductOfHalves(text, halves), blocks, lambda *tile: _count(made, indices, *tile))]
    if rows > MOST_ROWS or not all(isinstance(extent, int) for extent in extents(made.rows)):
        tile = chosen if isinstance(chosen, Tile) else tile_of(rows, columns, batch, inner)
        parts = parts_of(found, tile.splits)
        hooks = Hooks(text, made, (tile.rows % 4 == 0, tile.columns % 4 == 0), parts)
        launch = tiled(hooks, tile, lambda *tile: _count(made, indices, *tile))
        return [launch] if parts is None else merged(found, made, indices, parts, launch)
    hooks = Hooks(text, made, (False, rows <= ROWS_OF_FOURS))
    if rows == 1 and batch > 1 and inner <= MOST_TERMS and not hooks.right_along:
        return [direct(found, indices, made, batch * columns)]
    split = chosen if isinstance(chosen, Split) else None
    if split is None:
        ways = hooks.right_along, hooks.right_across, hooks.right_in_word
        split = split_of(columns, inner, batch, *ways)
    return [skinny(hooks, rows, split, lambda *tile: _count(made, indices, *tile))]


def _of_matrices(made: Contraction, rows: int, columns: int, inner: int) -> Contraction | None:
    """The product as subgroup matrices take it, where they are not mostly empty."""
    return halves_of(made) if rows > MOST_ROWS and columns > MOST_ROWS and inner >= SIDE else None


def _most(indices: Indices, axes: Any) -> int:
    return math.prod(indices.greatest(extent) for extent in extents(axes))


def _count(made: Contraction, indices: Indices, height: int, width: int) -> tuple[Any, int]:
    batch, rows, columns = (times(*extents(axes)) for axes in (made.batch, made.rows, made.columns))
    most = [_most(indices, axes) for axes in (made.batch, made.rows, made.columns)]
    return times(batch, ceildiv(rows, height), ceildiv(columns, width)), most[0] * -(-most[1] // height) * -(
        -most[2] // width
    )
