"""Which template computes a product of matrices."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tapml.compilers.native.blocks import (
    BLOCKS,
    BLOCKS_OF_BITS,
    BLOCKS_OF_LEFT_PIECES,
    BLOCKS_OF_PIECES,
    SIDE,
    Blocks,
    blocks_of,
    fits,
)
from tapml.compilers.native.contraction import Contraction, contraction
from tapml.compilers.native.direct import MOST_TERMS, direct
from tapml.compilers.native.dots import DOTS, EACH, ProductOfWords, of_words
from tapml.compilers.native.eights import halves_of, narrowed
from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.factors import extents
from tapml.compilers.native.grouped import OWN_NAMES_OF_GROUPS, ProductOfGroups, grouped, kind_of
from tapml.compilers.native.halves import HalvesOfIntegers, HalvesOfRight, ProductOfHalves
from tapml.compilers.native.integers import Integers, ProductOfIntegers, with_integers
from tapml.compilers.native.kernel import Found, Launch, Text, ceildiv, check_counts, times
from tapml.compilers.native.matrices import by_matrices
from tapml.compilers.native.packed import packed_factor, packing_of, packs_vectors
from tapml.compilers.native.pieces import LEAST_OF_PIECES, in_pieces, least_splits
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, Hooks
from tapml.compilers.native.ragged import (
    LEAST_OF_LINES,
    OWN_NAMES_OF_LINES,
    LinesOfRight,
    LineSplit,
    ragged,
)
from tapml.compilers.native.rounded import rounded
from tapml.compilers.native.skinny import (
    MOST_ROWS,
    ROWS_OF_EIGHTS,
    ROWS_OF_FOURS,
    Split,
    skinny,
    split_of,
    split_of_one,
)
from tapml.compilers.native.skinny_groups import skinny_groups, split_of_groups
from tapml.compilers.native.skinny_integers import WordSplit, skinny_integers, word_split_of
from tapml.compilers.native.split import MOST_BYTES, merged, parts_of
from tapml.compilers.native.stages import loads
from tapml.compilers.native.tiled import tiled
from tapml.compilers.native.tiles import Tile, is_large, tile_of
from tapml.compilers.native.turned_words import BLOCKS_OF_TURNED, HalvesOfTurned, turned, turning_pays
from tapml.compilers.native.winograd import Winograd, pays, steps, windows_of

Chosen: TypeAlias = Tile | Split | LineSplit | WordSplit | Blocks | Winograd
"""How a product is shared out."""


def matmul(found: Found, chosen: Chosen | None = None, packed: Collection[str] | None = None) -> list[Launch] | None:
    """One dispatch for a product of matrices, however its axes lie, or of one row that is rounded first (rounded.py);
    two where its inner axis is shared out, and one before it for each factor that is packed. None for what is none.
    `chosen`: how it is shared out, where that is the template's own way to do it; `packed`: factors, "left" and
    "right", that are; by default what is estimated to take the least time."""
    if found.threads < 256:
        return None
    known = _contracted(found)
    if known is None:
        return rounded(found, chosen if isinstance(chosen, Split) else None)
    found, indices, made, shape = known
    batch, rows, columns, inner = shape.batch, shape.rows, shape.columns, shape.inner
    check_counts(indices, (batch, rows, columns))
    if made.groups is not None:
        return _of_groups(found, made, indices, shape, chosen)
    if made.dtype == "int32":
        return _of_words(found, made, indices, shape, chosen)
    if isinstance(chosen, Winograd) or (chosen is None and packed is None):
        fewer = _by_winograd(found, made, indices, shape, isinstance(chosen, Winograd))
        if fewer is not None:
            return fewer
    if found.matrices and min(rows, columns) > MOST_ROWS and inner >= SIDE:
        fast = _by_matrices(found, made, indices, (batch, rows, columns, inner), chosen, packed)
        if fast is not None:
            return fast
    texels = found.in_texels(str(made.stored.value))
    if shape.tiled or texels:
        tile = chosen if isinstance(chosen, Tile) else None
        if tile is None:
            as_they_lie = Hooks(Text(found, found.entry_point, indices.copy(), OWN_NAMES), made, (True, True))
            across, gathered = as_they_lie.right_across, as_they_lie.right_gathered
            tile = tile_of(rows, columns, batch, inner, across, gathered)
            if texels and tile.columns % 4:
                tile = _OF_TEXELS
            if packed is None and across and gathered and is_large(rows, columns, batch, inner):
                packed = ("right" if packs_vectors(found, made, indices, 4, "right") else "right narrow",)
        before, found, made = _packed(found, made, indices, packed or (), 4)
        parts = parts_of(found, tile.splits)
        text = Text(found, found.entry_point, indices, OWN_NAMES)
        hooks = Hooks(text, made, (tile.rows % 4 == 0, tile.columns % 4 == 0), parts, four_columns=None)
        launch = tiled(hooks, tile, lambda *tile: _count(made, indices, *tile))
        return [*before, *([launch] if parts is None else merged(found, made, indices, parts, launch))]
    integers = with_integers(made, indices, found.buffers)
    if integers is not None and not isinstance(chosen, Split):
        word_split = chosen if isinstance(chosen, WordSplit) else _word_split(found, made, indices, rows, integers)
        if word_split.fits(rows):
            text = Text(found, found.entry_point, indices, OWN_NAMES)
            by_words = ProductOfIntegers(text, made, word_split.columns == 4, word_split.fours)
            return [skinny_integers(by_words, rows, word_split, lambda *tile: _count(made, indices, *tile))]
    text = Text(found, found.entry_point, indices, OWN_NAMES)
    hooks = Hooks(text, made, (False, rows <= ROWS_OF_FOURS), four_columns=None)
    if rows == 1 and batch > 1 and inner <= MOST_TERMS and (not hooks.right_along or _is_narrow(indices, made)):
        return [direct(found, indices, made, batch * columns)]
    if not isinstance(chosen, Split) and inner >= LEAST_OF_LINES and hooks.right_along:
        of_lines = LinesOfRight(Text(found, found.entry_point, indices, OWN_NAMES_OF_LINES), made, rows)
        if of_lines.lines is not None:
            shared_out = chosen if isinstance(chosen, LineSplit) else of_lines.split(columns, inner)
            return [ragged(of_lines, rows, shared_out, lambda *tile: _count(made, indices, *tile))]
    eights_of_right = _by_eights(found, made, indices, rows)
    if isinstance(chosen, Split):
        split = chosen
    elif rows == 1 and hooks.right_across:
        by_eights = eights_of_right is not None and eights_of_right.right_across
        stored = bool(found.stored) and all(load.value in found.stored for load in loads(made.right))
        split = split_of_one(columns, inner, batch, by_eights, stored)
    else:
        ways = hooks.right_along, hooks.right_across, hooks.right_in_word
        by_eights = rows == 1 and eights_of_right is not None and not eights_of_right.right_across
        split = split_of(columns, inner, batch, *ways, by_eights)
    if split.eights and eights_of_right is not None:
        hooks = eights_of_right
    return [skinny(hooks, rows, split, lambda *tile: _count(made, indices, *tile))]


def _by_winograd(found: Found, made: Contraction, indices: Indices, shape: Shape, wanted: bool) -> list[Launch] | None:
    """The dispatches of a convolution by fewer multiplications; None where there is none, or, unless it is `wanted`,
    where that is estimated to take longer."""
    windows = windows_of(found, made, indices)
    halves = found.matrices and all(narrowed(factor) is not None for factor in (made.left, made.right))
    if windows is None or (found.matrices and not halves):
        return None
    if not wanted and not pays(windows, (shape.batch, shape.rows, shape.columns, shape.inner), halves=halves):
        return None
    each = steps(found, made, indices, windows, "float16" if halves else "float32")
    if each is None:
        return None
    launches = [*each.before]
    for step, template in ((replace(each.products, matrices=halves), matmul), (each.output, elementwise)):
        more = template(replace(step, part=found.part + len(launches)))
        if more is None:
            return None
        launches += more
    return launches


def _is_narrow(indices: Indices, made: Contraction) -> bool:
    """Whether so few elements lie beside each other along the inner axis, as in a window over an image, that nothing is
    gained by invocations that share them."""
    return indices.greatest(made.inner[-1].extent) < 8


def _of_words(
    found: Found, made: Contraction, indices: Indices, shape: Shape, chosen: Chosen | None
) -> list[Launch] | None:
    """The dispatch of a product of 8-bit integers, of which four are in a word; None for other integers."""
    if not of_words(made, indices, found.buffers) or found.textures:
        return None
    batch, rows, columns, words = shape.batch, shape.rows, shape.columns, -(-shape.inner // EACH)
    hooks = ProductOfWords(Text(found, found.entry_point, indices, OWN_NAMES), made)

    def count(height: int, width: int) -> tuple[Any, int]:
        return _count(made, indices, height, width)

    if shape.tiled:
        tile = chosen if isinstance(chosen, Tile) else tile_of(rows, columns, batch, words, across=False)
        return [tiled(hooks, dataclasses.replace(tile, splits=1), count, DOTS[found.dots])]
    split = chosen if isinstance(chosen, Split) else split_of(columns, words, batch, along=True)
    return [skinny(hooks, rows, split, count, DOTS[found.dots])]


def _of_groups(found: Found, made: Contraction, indices: Indices, shape: Shape, chosen: Chosen | None) -> list[Launch]:
    """The dispatch of a product of 8-bit integers with weights of 4 bits in groups."""
    hooks = ProductOfGroups(Text(found, found.entry_point, indices, OWN_NAMES_OF_GROUPS), made)

    def count(height: int, width: int) -> tuple[Any, int]:
        return _count(made, indices, height, width)

    if shape.tiled:
        sizes = shape.rows, shape.columns, shape.batch, -(-shape.inner // EACH)
        tile = chosen if isinstance(chosen, Tile) else tile_of(*sizes, across=False)
        return [tiled(hooks, dataclasses.replace(tile, splits=1), count, kind_of(found.dots))]
    split = chosen if isinstance(chosen, Split) else split_of_groups(hooks.groups)
    return [skinny_groups(hooks, shape.rows, split, count, kind_of(found.dots))]


def _word_split(found: Found, made: Contraction, indices: Indices, rows: int, integers: Integers) -> WordSplit:
    batch, columns, inner = (_most(indices, axes) for axes in (made.batch, made.columns, made.inner))
    probe = ProductOfIntegers(Text(found, found.entry_point, indices, OWN_NAMES), made, False)
    ways = integers.bits, probe.by_four_words, narrowed(made.left) is None
    return word_split_of(rows, columns, -(-inner // integers.each), batch, *ways)


_OF_TEXELS = Tile(4, 4, 8, 8)
"""Where an invocation writes whole texels, and a smaller tile has fewer columns."""


@dataclass(frozen=True)
class Shape:
    """Of a product: how many batches, rows, columns and points of the inner axis there are at most. `tiled`: whether it
    is computed by tiles, where no subgroup matrices are."""

    batch: int
    rows: int
    columns: int
    inner: int
    tiled: bool


def shape_of(found: Found) -> Shape | None:
    """That `matmul` sees; None for what is no product of matrices."""
    known = _contracted(found)
    return None if known is None else known[3]


def _contracted(found: Found) -> tuple[Found, Indices, Contraction, Shape] | None:
    """The product that an operator is, and the operator as that was told from it."""
    indices = found.own_indices()
    made = found.memory.of(indices, "contraction", (), lambda: contraction(found, indices))
    if made is None:
        known = grouped(found)
        if known is None:
            return None
        found, indices, made = known
    batch, rows, columns, inner = (_most(indices, axes) for axes in (made.batch, made.rows, made.columns, made.inner))
    if columns <= MOST_ROWS < rows and made.groups is None:
        made, rows, columns = made.turned(), columns, rows
    tiled = rows > MOST_ROWS or not all(isinstance(extent, int) for extent in extents(made.rows))
    return found, indices, made, Shape(batch, rows, columns, inner, tiled)


def _by_eights(found: Found, made: Contraction, indices: Indices, rows: int) -> HalvesOfRight | None:
    """The functions of a product of few rows whose larger factor is of float16 that lie beside each other."""
    right = narrowed(made.right)
    if right is None:
        return None
    text = Text(found, found.entry_point, indices, OWN_NAMES)
    hooks = HalvesOfRight(text, dataclasses.replace(made, right=right))
    return hooks if hooks.runs and (rows <= ROWS_OF_EIGHTS or not hooks.right_across) else None


def _packed(
    found: Found, made: Contraction, indices: Indices, sides: Collection[str], each: int
) -> tuple[list[Launch], Found, Contraction]:
    """The dispatches that pack factors, as far as they can be, and the product of what they leave."""
    launches: list[Launch] = []
    for side in sides:
        name, _, narrow = side.partition(" ")
        if (done := packed_factor(found, made, indices, name, each, not narrow)) is not None:
            more, found, made = done
            launches += more
    return launches, found, made


def _by_matrices(
    found: Found,
    made: Contraction,
    indices: Indices,
    sizes: tuple[int, int, int, int],
    chosen: object,
    packed: Collection[str] | None,
) -> list[Launch] | None:
    """The dispatches of a product by subgroup matrices. `sizes`: batches, rows, columns and points of the inner
    axis."""
    batch, rows, columns, inner = sizes
    before: list[Launch] = []
    halves = halves_of(made)
    if halves is None:
        if batch * rows * columns * inner < LEAST_OF_PIECES:
            return None
        pieces = in_pieces(found, made, indices)
        if pieces is None:
            return None
        before, found, halves = pieces
    integers = with_integers(halves, indices, found.buffers)
    kind = ProductOfHalves if integers is None else HalvesOfIntegers
    as_it_is = kind(Text(found, found.entry_point, indices, OWN_NAMES), halves)
    if halves.rest is None:
        choices = BLOCKS if integers is None else BLOCKS_OF_BITS[integers.bits]
    else:
        choices = BLOCKS_OF_PIECES if as_it_is.products == 3 else BLOCKS_OF_LEFT_PIECES
    least = 1 if halves.rest is None else least_splits(inner, as_it_is.products)
    if least > 1 and 4 * batch * rows * columns * least > MOST_BYTES:
        return None
    if isinstance(chosen, Blocks):
        blocks = dataclasses.replace(chosen, splits=max(chosen.splits, least))
    else:
        blocks = blocks_of(rows, columns, batch, inner, as_it_is.across, choices, least, as_it_is.products)
    if blocks.invocations > found.threads:
        return None
    turns = turning_pays(rows, columns, inner, blocks.height) if packed is None else "right" in packed
    if packed is None:
        by_vectors = functools.partial(packs_vectors, found, halves, indices, 8)
        packed = packing_of(as_it_is.ways, sizes, (blocks.height, blocks.width), by_vectors)
    if halves.rest is not None:
        packed = [side for side in packed if side.startswith("right")]  # Pieces lie as packed ones do.
    if integers is not None:
        packed = [side for side in packed if side.startswith("left")]  # Words are read as they lie, or turned.
    more, found, halves = _packed(found, halves, indices, packed, 8)
    turning = None
    if integers is not None and halves.rest is None and turns:
        turning = turned(found, halves, indices, integers)
    if turning is not None:
        first, found, halves, names = turning
        more.append(first)
        if not isinstance(chosen, Blocks):
            sides = as_it_is.across[0], True
            blocks = blocks_of(rows, columns, batch, inner, sides, BLOCKS_OF_TURNED, least, as_it_is.products)
    parts = parts_of(found, blocks.splits)
    text = Text(found, found.entry_point, indices, OWN_NAMES)
    tile = blocks.height, blocks.width
    if turning is not None:
        eights: ProductOfHalves = HalvesOfTurned(text, halves, names, tile, parts)
    elif isinstance(as_it_is, HalvesOfIntegers):
        depth = blocks.depth * as_it_is.integers.bits // 16  # in vectors of eight, as in fours of words
        fours = depth >= 8 and fits(blocks.width, depth, blocks.invocations, False)
        eights = HalvesOfIntegers(text, halves, tile, parts, fours)
    else:
        eights = ProductOfHalves(text, halves, tile, parts)
    launch = by_matrices(eights, blocks, lambda *tile: _count(halves, indices, *tile))
    return [*before, *more, *([launch] if parts is None else merged(found, halves, indices, parts, launch))]


def _most(indices: Indices, axes: Any) -> int:
    return math.prod(indices.greatest(extent) for extent in extents(axes))


def _count(made: Contraction, indices: Indices, height: int, width: int) -> tuple[Any, int]:
    batch, rows, columns = (times(*extents(axes)) for axes in (made.batch, made.rows, made.columns))
    most = [_most(indices, axes) for axes in (made.batch, made.rows, made.columns)]
    return times(batch, ceildiv(rows, height), ceildiv(columns, width)), most[0] * -(-most[1] // height) * -(
        -most[2] // width
    )
