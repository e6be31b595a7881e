"""Products with few rows, such as of one token: the larger factor is read once, by invocations that share out the inner
axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapml.compilers.native.kernel import Launch, grid_of
from tapml.compilers.native.product import Count, Hooks, last, numbered, tiles

MOST_ROWS = 8
INVOCATIONS = 256
ROWS_OF_FOURS = 4
"""Rows of which sums of four columns each fit into the workgroup memory that every device has."""


@dataclass(frozen=True)
class Split:
    """A workgroup computes `columns` columns, or four times as many where vectors are of four columns; `lanes`
    invocations share the inner axis of each, and read `vectors` vectors of four points of it before they go on."""

    columns: int
    lanes: int
    vectors: int
    together: int = 1
    """Vectors that lie beside each other, of those that an invocation reads: they are of one word."""

    def offset(self, vector: int) -> int:
        """Where along the inner axis it begins, behind the first."""
        return 4 * (vector // self.together * self.together * self.lanes + vector % self.together)


def split_of(columns: int, inner: int, batch: int, along: bool, fours: bool = False, together: int = 1) -> Split:
    """Along the inner axis, where the larger factor lies so: many lanes to a column. Else columns beside each other,
    as many as fill whole cache lines, while the device is filled; `fours`: four of them at once; `together` as in
    Split."""
    lanes = 8
    while lanes < 64 and lanes * 16 < inner and (along or columns * batch * lanes < (262144 if fours else 131072)):
        lanes *= 2
    vectors = max(1, min(2 if fours else 4, inner // (4 * lanes)))
    return Split(INVOCATIONS // lanes, lanes, -(-vectors // together) * together, together)


def skinny(hooks: Hooks, rows: int, split: Split, count: Count) -> Launch:
    """The dispatch of a product of so many rows; `count` says how many workgroups of a tile it takes."""
    product = hooks.product(4 * split.lanes * split.vectors)
    many = range(rows)
    fours = product.right_across
    wide = 4 if fours else 1
    kind, zero = ("vec4<f32>", "vec4<f32>()") if fours else ("f32", "0.0")
    # Invocations beside each other read what lies beside each other.
    place, lane = ("/", "%") if product.right_along else ("%", "/")
    by = split.lanes if product.right_along else split.columns
    workgroups, most = count(rows, wide * split.columns)
    grid, group = grid_of(workgroups, most)
    shared = [f"var<workgroup> sums_{row} : array<{kind}, {INVOCATIONS}>;" for row in many]
    lines = (
        "let index = i32(number);",
        f"let column_tiles = {tiles(product.columns, wide * split.columns)};",
        *numbered(group, f"{product.batch} * column_tiles"),
        "let batch = tile / column_tiles;",
        f"let place = index {place} {by};",
        f"let lane = index {lane} {by};",
        f"let column = tile % column_tiles * {wide * split.columns} + place{' * 4' if fours else ''};",
        "// Columns beyond the last are read as the last: what comes of them is not stored.",
        f"let read = min(column, {last(product.columns, wide)});",
        *(f"var sum_{row} = {zero};" for row in many),
        f"for (var k = lane * {4 * split.together}; k < {product.inner}; k += {4 * split.lanes * split.vectors}) {{",
        *(f"  {line}" for line in (_by_fours if fours else _multiplied)(split, many)),
        "}",
        "",
        f"let slot = lane * {split.columns} + place;",
        *(f"sums_{row}[slot] = sum_{row};" for row in many),
        f"for (var half = {split.lanes // 2}; half > 0; half /= 2) {{",
        "  workgroupBarrier();",
        "  if (lane < half) {",
        *(f"    sums_{row}[slot] += sums_{row}[slot + half * {split.columns}];" for row in many),
        "  }",
        "}",
        "if (lane == 0) {",
        *(f"  {line}" for row in many for line in _finished(row, fours)),
        "}",
    )
    what = "four columns" if fours else "each column"
    comment = (
        f"Each workgroup computes {wide * split.columns} columns of all {rows} rows. {split.lanes} invocations share\n"
        f"the inner axis of {what}, and add up what they have in workgroup memory."
    )
    return hooks.launch(product, shared, lines, comment, (group, grid), INVOCATIONS)


def _multiplied(split: Split, rows: Iterable[int]) -> Iterable[str]:
    for vector in range(split.vectors):
        yield f"let b{vector} = right4(batch, read, k{_plus(vector, split)});"
    for vector in range(split.vectors):
        for row in rows:
            factor = f"left4(batch, {row}, k{_plus(vector, split)})"
            yield f"sum_{row} = accumulated(sum_{row}, {factor}, b{vector});"


def _by_fours(split: Split, rows: Iterable[int]) -> Iterable[str]:
    """The same with vectors of four columns, at one point of the inner axis each."""
    points = [(vector, q) for vector in range(split.vectors) for q in range(4)]
    for vector, q in points:
        yield f"let b{vector}_{q} = right4(batch, read, k + {split.offset(vector) + q});"
    for vector in range(split.vectors):
        for row in rows:
            yield f"let a{vector}_{row} = left4(batch, {row}, k{_plus(vector, split)});"
            for q in range(4):
                factors = f"vec4<f32>(a{vector}_{row}.{'xyzw'[q]}), b{vector}_{q}"
                yield f"sum_{row} = fma({factors}, sum_{row});"


def _finished(row: int, fours: bool) -> Iterable[str]:
    if not fours:
        yield f"finish(batch, {row}, column, sums_{row}[slot]);"
        return
    yield f"let found_{row} = sums_{row}[slot];"
    for j, component in enumerate("xyzw"):
        yield f"finish(batch, {row}, column + {j}, found_{row}.{component});"


def _plus(vector: int, split: Split) -> str:
    return f" + {split.offset(vector)}" if vector else ""
