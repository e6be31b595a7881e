"""Products with few rows, such as of one token: the larger factor is read once, by invocations that share out the inner
axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native.factors import last
from tapml.compilers.native.halves import HalvesOfRight
from tapml.compilers.native.kernel import Launch, grid_of
from tapml.compilers.native.product import ACCUMULATED, NUMBERS, Count, Hooks, Kind, numbered, tiles

MOST_ROWS = 8
INVOCATIONS = 256
ROWS_OF_FOURS, ROWS_OF_EIGHTS = 4, 2
"""Rows of which sums of four columns each, or of eight, fit into the workgroup memory that every device has."""

WIDENED = """\
// The first four of eight float16.
fn first_four(eight : vec4<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(eight.x), unpack2x16float(eight.y));
}

// The last four.
fn last_four(eight : vec4<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(eight.z), unpack2x16float(eight.w));
}
"""


@dataclass(frozen=True)
class Split:
    """A workgroup computes `columns` columns, or four or eight times as many where vectors are of columns; `lanes`
    invocations share the inner axis of each, and read `vectors` vectors of four (or eight) points of it before they go
    on."""

    columns: int
    lanes: int
    vectors: int
    together: int = 1
    """Vectors that lie beside each other, of those that an invocation reads: they are of one word."""
    ahead: bool = False
    """Whether what the next turn multiplies is read before."""
    eights: bool = False
    """Whether vectors are of eight float16."""

    def offset(self, vector: int, points: int = 4) -> int:
        """Where along the inner axis it begins, behind the first."""
        return points * (vector // self.together * self.together * self.lanes + vector % self.together)


def split_of(
    columns: int, inner: int, batch: int, along: bool, fours: bool = False, together: int = 1, eights: bool = False
) -> Split:
    """Along the inner axis, where the larger factor lies so: many lanes to a column. Else columns beside each other,
    as many as fill whole cache lines, while the device is filled; `fours`: four of them at once; `together` as in
    Split. `eights`: whether a product of one row may read vectors of eight float16 along the inner axis, which is the
    fastest of 4096 x 4096 on an H200 where a workgroup reads a column in whole turns."""
    if eights and inner % (2 * 8 * INVOCATIONS) == 0:
        return Split(1, INVOCATIONS, 2, eights=True)
    lanes = _lanes(inner, along, columns * batch, 262144 if fours else 131072)
    vectors = max(1, min(2 if fours else 4, inner // (4 * lanes)))
    return Split(INVOCATIONS // lanes, lanes, -(-vectors // together) * together, together)


def split_of_one(columns: int, inner: int, batch: int, eights: bool, stored: bool = False) -> Split:
    """Of one row and four columns at once, or eight of float16: more is on its way at a time, a turn ahead. These are
    about the fastest on an H200 of products of 3,072 to 8,192 points by 1,024 to 8,192 columns. `stored`: whether
    columns of float32 lie as float16: what that takes in registers leaves none for a turn ahead."""
    if stored:
        lanes = _lanes(inner, False, 1, INVOCATIONS)
        return Split(INVOCATIONS // lanes, lanes, max(1, min(4, inner // (4 * lanes))))
    lanes = _lanes(inner, False, columns * batch, 262144 if eights else 98304)
    vectors = 4 if eights else 8
    while vectors > 1 and 4 * lanes * vectors > inner:
        vectors //= 2
    return Split(INVOCATIONS // lanes, lanes, vectors, ahead=inner > 4 * lanes * vectors, eights=eights)


def _lanes(inner: int, along: bool, columns: int, filled: int) -> int:
    lanes = 8
    while lanes < 64 and lanes * 16 < inner and (along or columns * lanes < filled):
        lanes *= 2
    return lanes


@dataclass(frozen=True)
class _Vectors:
    """What an invocation reads of the larger factor: vectors of `points` along the inner axis, or at each of four
    points of it a vector of `wide` columns."""

    split: Split
    across: bool
    eights: bool

    @property
    def points(self) -> int:
        return 8 if self.eights and not self.across else 4

    @property
    def wide(self) -> int:
        return (8 if self.eights else 4) if self.across else 1

    @property
    def turn(self) -> int:
        """How far along the inner axis all lanes go at a time."""
        return self.points * self.split.lanes * self.split.vectors

    def at(self, vector: int, more: int = 0) -> str:
        offset = self.split.offset(vector, self.points) + more
        return f" + {offset}" if offset else ""

    def read(self, k: str) -> Iterable[tuple[str, str]]:
        """The name of each, and its text."""
        function = "right8" if self.eights else "right4"
        for vector in range(self.split.vectors):
            for q in range(4 if self.across else 1):
                name = f"b{vector}_{q}" if self.across else f"b{vector}"
                yield name, f"{function}(batch, read, {k}{self.at(vector, q)})"

    def sums(self, row: int) -> Sequence[str]:
        return (f"sum_{row}", f"more_{row}") if self.wide == 8 else (f"sum_{row}",)

    def multiplied(self, rows: Iterable[int]) -> Iterable[str]:
        for vector in range(self.split.vectors):
            for row in rows:
                yield from self._multiplied(vector, row)

    def _multiplied(self, vector: int, row: int) -> Iterable[str]:
        left = f"left4(batch, {row}, k{self.at(vector)})"
        if not self.across and not self.eights:
            yield f"sum_{row} = accumulated(sum_{row}, {left}, b{vector});"
        elif not self.across:
            yield f"sum_{row} = accumulated(sum_{row}, {left}, first_four(b{vector}));"
            left = f"left4(batch, {row}, k{self.at(vector, 4)})"
            yield f"sum_{row} = accumulated(sum_{row}, {left}, last_four(b{vector}));"
        else:
            yield f"let a{vector}_{row} = {left};"
            for q in range(4):
                four, given = f"vec4<f32>(a{vector}_{row}.{'xyzw'[q]})", f"b{vector}_{q}"
                halves = (f"first_four({given})", f"last_four({given})") if self.eights else (given,)
                for name, half in zip(self.sums(row), halves, strict=True):
                    yield f"{name} = fma({four}, {half}, {name});"


def skinny(hooks: Hooks, rows: int, split: Split, count: Count, of: Kind = NUMBERS) -> Launch:
    """The dispatch of a product of so many rows; `count` says how many workgroups of a tile it takes, `of` what is
    multiplied: vectors of four columns, and of eight, are of numbers."""
    vectors = _Vectors(split, hooks.right_across, isinstance(hooks, HalvesOfRight))
    product = hooks.product(vectors.turn)
    many, wide = range(rows), vectors.wide
    kind, zero = ("vec4<f32>", "vec4<f32>()") if wide > 1 else (of.scalar, of.zero)
    # Invocations beside each other read what lies beside each other.
    place, lane = ("/", "%") if product.right_along else ("%", "/")
    by = split.lanes if product.right_along else split.columns
    workgroups, most = count(rows, wide * split.columns)
    grid, group = grid_of(workgroups, most)
    sums = [name for row in many for name in vectors.sums(row)]
    shared = [f"var<workgroup> {name}_part : array<{kind}, {INVOCATIONS}>;" for name in sums]
    lines = (
        "let index = i32(number);",
        f"let column_tiles = {tiles(product.columns, wide * split.columns)};",
        *numbered(group, f"{product.batch} * column_tiles"),
        "let batch = tile / column_tiles;",
        f"let place = index {place} {by};",
        f"let lane = index {lane} {by};",
        f"let column = tile % column_tiles * {wide * split.columns} + place{f' * {wide}' if wide > 1 else ''};",
        "// Columns beyond the last are read as the last: what comes of them is not stored.",
        f"let read = min(column, {last(product.columns, wide)});" if not vectors.eights else "let read = column;",
        *(f"var {name} = {zero};" for name in sums),
        *_turns(vectors, product.inner, many),
        "",
        f"let slot = lane * {split.columns} + place;",
        *(f"{name}_part[slot] = {name};" for name in sums),
        *added([f"{name}_part" for name in sums], split.lanes, split.columns),
        "if (lane == 0) {",
        *(f"  {line}" for row in many for line in _finished(row, vectors, hooks.by_four_columns)),
        "}",
    )
    what = {1: "each column", 4: "four columns", 8: "eight columns"}[wide]
    comment = (
        f"Each workgroup computes {wide * split.columns} columns of all {rows} rows. {split.lanes} invocations share\n"
        f"the inner axis of {what}, and add up what they have in workgroup memory."
    )
    helpers = f"{ACCUMULATED}\n{WIDENED}" if vectors.eights else of.accumulated
    if isinstance(hooks, HalvesOfRight):
        helpers = "\n".join([helpers, *hooks.helpers.values()])
    launch = hooks.launch(product, shared, lines, comment, (group, grid), INVOCATIONS, helpers=helpers)
    return replace(launch, shared_out=split)


def added(names: Sequence[str], lanes: int, groups: int) -> Iterable[str]:
    """Adds up what the lanes of each of so many groups have in these arrays of workgroup memory, at `slot`: eight or
    sixteen at a time, which waits less often than by halves."""
    while lanes > 1:
        rest = lanes // (16 if lanes in (16, 128) else 8) or 1
        yield "workgroupBarrier();"
        yield f"if (lane < {rest}) {{"
        others = range(rest * groups, lanes * groups, rest * groups)
        for name in names:
            yield f"  {name}[slot] += {' + '.join(f'{name}[slot + {other}]' for other in others)};"
        yield "}"
        lanes = rest


def _turns(vectors: _Vectors, inner: str, rows: Iterable[int]) -> Iterable[str]:
    split, turn = vectors.split, vectors.turn
    begin = f"lane * {vectors.points * split.together}"
    loop = f"for (var k = {begin}; k < {inner}; k += {turn}) {{"
    if not split.ahead:
        yield loop
        yield from (f"  let {name} = {text};" for name, text in vectors.read("k"))
        yield from (f"  {line}" for line in vectors.multiplied(rows))
        yield "}"
        return
    yield f"let begin = {begin};"
    yield from (f"var {name} = {text};" for name, text in vectors.read("begin"))
    yield loop
    yield f"  let next = select(k, k + {turn}, k + {turn} < {inner});"
    yield from (f"  let next_{name} = {text};" for name, text in vectors.read("next"))
    yield from (f"  {line}" for line in vectors.multiplied(rows))
    yield from (f"  {name} = next_{name};" for name, _ in vectors.read("next"))
    yield "}"


def _finished(row: int, vectors: _Vectors, fours: bool) -> Iterable[str]:
    for number, name in enumerate(vectors.sums(row)):
        if vectors.wide == 1:
            yield f"finish(batch, {row}, column, {name}_part[slot]);"
        elif fours:
            yield f"finish4(batch, {row}, column{f' + {number * 4}' if number else ''}, {name}_part[slot]);"
        else:
            yield f"let of_{name} = {name}_part[slot];"
            for j, component in enumerate("xyzw"):
                yield f"finish(batch, {row}, column + {number * 4 + j}, of_{name}.{component});"
