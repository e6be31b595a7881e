"""Products of few rows of 8-bit integers with weights of 4 bits in groups (grouped.py): the words of a group are read
at once, by invocations that share out the groups of a column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tapml.compilers.native.factors import last
from tapml.compilers.native.grouped import OF_GROUP, ProductOfGroups
from tapml.compilers.native.kernel import Launch, grid_of
from tapml.compilers.native.product import Count, Kind, numbered, tiles
from tapml.compilers.native.skinny import INVOCATIONS, Split, added

_MOST_LANES = 64


def split_of_groups(groups: int) -> Split:
    """As `split_of`: `vectors` counts groups here. As many lanes as there are groups, then more of these for each."""
    lanes = 8
    while lanes < _MOST_LANES and 4 * lanes <= groups:
        lanes *= 2
    return Split(INVOCATIONS // lanes, lanes, max(1, min(4, groups // lanes)))


def skinny_groups(hooks: ProductOfGroups, rows: int, split: Split, count: Count, of: Kind) -> Launch:
    """The dispatch of a product of so many rows; `count` says how many workgroups of a tile it takes, `of` what is
    multiplied."""
    turn = split.lanes * split.vectors
    product, many = hooks.product(turn * OF_GROUP), range(rows)
    workgroups, most = count(rows, split.columns)
    grid, group = grid_of(workgroups, most)
    lines = (
        "let index = i32(number);",
        f"let column_tiles = {tiles(product.columns, split.columns)};",
        *numbered(group, f"{product.batch} * column_tiles"),
        "let batch = tile / column_tiles;",
        f"let place = index / {split.lanes};",
        f"let lane = index % {split.lanes};",
        f"let column = tile % column_tiles * {split.columns} + place;",
        "// Columns beyond the last are read as the last: what comes of them is not stored.",
        f"let read = min(column, {last(product.columns)});",
        *(f"var sum_{row} = {of.zero};" for row in many),
        f"for (var first = lane; first < {hooks.groups}; first += {turn}) {{",
        *(f"  {line}" for line in _turn(hooks, split, many)),
        "}",
        "",
        f"let slot = lane * {split.columns} + place;",
        *(f"sum_{row}_part[slot] = sum_{row};" for row in many),
        *added([f"sum_{row}_part" for row in many], split.lanes, split.columns),
        "if (lane == 0) {",
        *(f"  finish(batch, {row}, column, sum_{row}_part[slot]);" for row in many),
        "}",
    )
    comment = (
        f"Each workgroup computes {split.columns} columns of all {rows} rows. {split.lanes} invocations share\n"
        f"the inner axis of each column, {split.vectors} groups at a time, and add up what they have in workgroup "
        "memory."
    )
    shared = [f"var<workgroup> sum_{row}_part : array<{of.scalar}, {INVOCATIONS}>;" for row in many]
    helpers = f"{hooks.helpers}\n{of.accumulated}"
    launch = hooks.launch(product, shared, lines, comment, (group, grid), INVOCATIONS, helpers=helpers)
    return replace(launch, shared_out=split)


def _turn(hooks: ProductOfGroups, split: Split, rows: Iterable[int]) -> Iterable[str]:
    """All words of a turn are read before the first is multiplied."""
    inside = hooks.groups % (split.lanes * split.vectors) == 0
    for n in range(split.vectors):
        at = f"first{f' + {n * split.lanes}' if n else ''}"
        # What lies beyond the last group is multiplied by zeros.
        yield f"let at_{n} = {at if inside or not n else f'min({at}, {hooks.groups - 1})'};"
        yield f"let words_{n} = right_words(batch, read, at_{n});"
        yield f"let scale_{n} = right_scale(batch, read, at_{n});"
    for n in range(split.vectors):
        point = f"(first{f' + {n * split.lanes}' if n else ''}) * {OF_GROUP}" if n else f"first * {OF_GROUP}"
        yield f"let low_{n} = bytes_of_two(words_{n}.x, words_{n}.y);"
        yield f"let high_{n} = bytes_of_two(words_{n}.z, words_{n}.w);"
        for row in rows:
            total = f"accumulated(0, left4(batch, {row}, {point}), low_{n})"
            total = f"accumulated({total}, left4(batch, {row}, {point} + 4), high_{n})"
            yield f"sum_{row} = fma(f32({total}), scale_{n}, sum_{row});"
