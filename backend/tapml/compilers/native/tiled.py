"""Matrix products by tiles: each workgroup computes a rectangle of the result from parts of both factors that it holds
in workgroup memory, each of its invocations a smaller one that it holds in registers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tapml.compilers.native import split
from tapml.compilers.native.kernel import Launch, grid_of, times
from tapml.compilers.native.product import Count, Hooks, last, numbered, tiles

DEPTH = 16
"""How far along the inner axis the parts in workgroup memory reach, in vectors of four."""

_VECTORS = DEPTH // 4


@dataclass(frozen=True)
class Tile:
    """Each of `wide` * `high` invocations computes `rows` * `columns` elements; `splits` workgroups share out the inner
    axis of each."""

    rows: int
    columns: int
    wide: int
    high: int
    splits: int = 1

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.high

    @property
    def width(self) -> int:
        """Columns of a workgroup."""
        return self.columns * self.wide

    @property
    def invocations(self) -> int:
        return self.wide * self.high


TILES = (
    Tile(8, 8, 8, 16),
    Tile(8, 8, 8, 8),
    Tile(4, 4, 16, 16),
    Tile(4, 4, 8, 8),
    Tile(2, 8, 8, 8),
    Tile(8, 2, 8, 8),
    Tile(2, 2, 8, 8),
)
"""From the least memory traffic to the most workgroups; the first is the best for large products on an H200."""

_AT_ONCE = 132 * 256
"""Invocations that a large device runs at full speed."""


def tile_of(rows: int, columns: int, batch: int, inner: int) -> Tile:
    """The tile that is estimated to take the least time; more than one workgroup to a sum where that is far less."""
    best = min(TILES, key=lambda tile: _cost(tile, rows, columns, batch))
    most = min(split.MOST, inner // (4 * DEPTH), split.MOST_BYTES // (4 * rows * columns * batch))

    def time(tile: Tile) -> float:
        return _time(tile, rows, columns, batch, inner) + split.cost(rows * columns * batch, tile.splits)

    shared = [replace(tile, splits=splits) for tile in TILES for splits in range(2, most + 1)]
    least = min(map(time, shared), default=math.inf)
    if least > _FAR_LESS * time(best):
        return best
    return min((tile for tile in shared if time(tile) < _ALIKE * least), key=lambda tile: (tile.splits, time(tile)))


_FAR_LESS = 0.85
_ALIKE = 1.1


def _cost(tile: Tile, rows: int, columns: int, batch: int) -> float:
    """In units of a multiplication: what an invocation multiplies and what it reads for that, by how often the device
    is filled."""
    each = tile.rows * tile.columns + 2 * (tile.rows + tile.columns)
    return max(1.0, _filled(tile, rows, columns, batch)) * each


def _filled(tile: Tile, rows: int, columns: int, batch: int) -> float:
    """How often a large device is."""
    groups = -(-rows // tile.height) * -(-columns // tile.width) * batch * tile.splits
    return groups * tile.invocations / _AT_ONCE


def _time(tile: Tile, rows: int, columns: int, batch: int, inner: int) -> float:
    """In nanoseconds: of a step along the inner axis some for waiting, however little is multiplied, and some for what
    is multiplied and read. The numbers are those of six products on an H200."""
    each = 0.7 * tile.rows * tile.columns + 2.4 * (tile.rows + tile.columns) + 7
    return inner / tile.splits * (18 + _filled(tile, rows, columns, batch) * each)


@dataclass(frozen=True)
class _Part:
    """One factor's part in workgroup memory: `lines` rows (or columns) of it, `each` of them for an invocation."""

    name: str
    lines: int
    each: int
    invocations: int
    along: bool
    """Whether invocations beside each other read along the inner axis, in which the factor lies in memory."""
    across: bool
    """Whether its vectors are of four lines."""
    begin: str
    end: str
    """Texts: its first line, and how many the factor has."""

    @property
    def groups(self) -> int:
        return self.lines // self.each

    @property
    def stride(self) -> int:
        """Vectors from one group of lines to the next: odd, so that they lie in different banks."""
        return self.each * _VECTORS + 1

    @property
    def shares(self) -> int:
        """Vectors that each invocation brings."""
        return self.lines * _VECTORS // self.invocations

    def places(self) -> list[tuple[str, str]]:
        """Of each share: its line, and which vector of the line it is; or which vector of lines, and where on the inner
        axis."""
        found = []
        if self.across:
            fours = self.lines // 4
            step = self.invocations // fours
            return [
                (f"index % {fours}", _plus(f"index / {fours}" if step > 1 else "", share * step))
                for share in range(self.shares)
            ]
        for share in range(self.shares):
            if self.along:
                line, vector = _plus("index / 4", share * (self.invocations // _VECTORS)), "index % 4"
            elif self.invocations >= self.lines:
                step = self.invocations // self.lines
                line = f"index % {self.lines}"
                vector = _plus(f"index / {self.lines}" if step > 1 else "", share * step)
            else:
                times = self.lines // self.invocations
                line = _plus("index", share % times * self.invocations)
                vector = str(share // times)
            found.append((line, vector))
        return found

    def brought(self) -> Iterable[str]:
        """Each invocation's shares, from the factor. Lines beyond the last are read as the last: what comes of them is
        not stored."""
        for share, (line, vector) in enumerate(self.places()):
            if self.across:
                line, end, inner = f"{line} * 4", last(self.end, 4), _plus(vector, DEPTH)
            else:
                end = last(self.end)
                inner = str(DEPTH + 4 * int(vector)) if vector.isdigit() else f"{DEPTH} + ({vector}) * 4"
            where = f"min({self.begin} + {line}, {end})"
            yield f"{self.name}_{share} = {self.name}4(batch, {where}, k + {inner});"

    def kept(self) -> Iterable[str]:
        for share, (line, vector) in enumerate(self.places()):
            if self.across:
                place = f"({vector}) * {self.each // 4} + {line} / {self.groups}"
            else:
                place = f"({line}) / {self.groups} * {_VECTORS} + {vector}"
            yield f"{self.name}_part[({line}) % {self.groups}][{place}] = {self.name}_{share};"

    def read(self, own: str, short: str, vector: int, q: int) -> Iterable[str]:
        """What an invocation needs at the q-th point of a vector along the inner axis; `own`: its group of lines."""
        if self.across:
            for j in range(self.each // 4):
                where = (vector * 4 + q) * (self.each // 4) + j
                yield f"let {short}{j}_{q} = {self.name}_part[{own}][{where}];"
        elif q == 0:
            for j in range(self.each):
                yield f"let {short}{j} = {self.name}_part[{own}][{j * _VECTORS + vector}];"

    def element(self, short: str, line: int, q: int) -> str:
        return f"{short}{line // 4}_{q}.{'xyzw'[line % 4]}" if self.across else f"{short}{line}.{'xyzw'[q]}"

    def said(self, own: str, what: str) -> str:
        """A sentence on what lies where."""
        if self.across:
            first = f"{what}s {own} * 4 to {own} * 4 + 3"
            more = f" and {self.groups * 4} on" if self.each > 4 else ""
            return f"{self.name}_part[{own}] has at each step, as vectors, the {first}{more}"
        more = f", {own} + {self.groups} and so on" if self.each > 1 else ""
        return f"{self.name}_part[{own}] has, as vectors along the inner axis, the {what}s {own}{more}"

    def line(self, own: str, number: int) -> str:
        """Of those that an invocation has, in the factor."""
        if self.across:
            return f"{self.begin} + {own} * 4{_offset(number // 4 * self.groups * 4 + number % 4)}"
        return f"{self.begin} + {own}{_offset(number * self.groups)}"


def _plus(text: str, number: int) -> str:
    return f"{text} + {number}" if text and number else text or str(number)


def tiled(hooks: Hooks, tile: Tile, count: Count) -> Launch:
    """The dispatch of a product; `count` says how many workgroups of a tile it takes."""
    product = hooks.product(DEPTH)
    way = product.left_along, product.left_across, "row", product.rows
    left = _Part("left", tile.height, tile.rows, tile.invocations, *way)
    way = product.right_along, product.right_across, "column", product.columns
    right = _Part("right", tile.width, tile.columns, tile.invocations, *way)
    workgroups, most = count(tile.height, tile.width)
    splits = tile.splits
    grid, group = grid_of(times(workgroups, splits), most * splits)
    shared = [
        f"var<workgroup> {part.name}_part : array<array<vec4<f32>, {part.stride}>, {part.groups}>;"
        for part in (left, right)
    ]
    place = f"(tile / {splits})" if splits > 1 else "tile"
    each = f"row_tiles * column_tiles{f' * {splits}' if splits > 1 else ''}"
    batch = f"batch * {splits} + part" if splits > 1 else "batch"
    begin, end = (f"begin - {DEPTH}", "end") if splits > 1 else (f"-{DEPTH}", product.inner)
    lines = (
        "let index = i32(number);",
        f"let x = index % {tile.wide};",
        f"let y = index / {tile.wide};",
        f"let row_tiles = {tiles(product.rows, tile.height)};",
        f"let column_tiles = {tiles(product.columns, tile.width)};",
        *numbered(group, f"{product.batch} * {each}"),
        *_shared_out(product.inner, splits),
        f"let batch = tile / ({each});",
        f"let row = {place} / column_tiles % row_tiles * {tile.height};",
        f"let column = {place} % column_tiles * {tile.width};",
        "",
        *(f"var sum_{i}_{j} = 0.0;" for i in range(tile.rows) for j in range(tile.columns)),
        "",
        *(f"var {part.name}_{share} : vec4<f32>;" for part in (left, right) for share in range(part.shares)),
        "",
        "// What a step multiplies was read in the one before it.",
        f"for (var k = {begin}; k < {end}; k += {DEPTH}) {{",
        f"  if (k + {DEPTH} < {end}) {{",
        *(f"    {line}" for part in (left, right) for line in part.brought()),
        "  }",
        f"  if (k >= {'begin' if splits > 1 else 0}) {{",
        *(f"    {line}" for vector in range(_VECTORS) for line in _multiplied(tile, left, right, vector)),
        "  }",
        "  workgroupBarrier();",
        *(f"  {line}" for part in (left, right) for line in part.kept()),
        "  workgroupBarrier();",
        "}",
        "",
        *(
            f"finish({batch}, {left.line('y', i)}, {right.line('x', j)}, sum_{i}_{j});"
            for i in range(tile.rows)
            for j in range(tile.columns)
        ),
    )
    comment = (
        f"Each workgroup computes {tile.height} x {tile.width} elements, each invocation {tile.rows} x "
        f"{tile.columns}, {DEPTH} steps\nalong the inner axis at a time. These parts of both factors lie in workgroup "
        f"memory:\n{left.said('y', 'row')};\n{right.said('x', 'column')}."
    )
    if splits > 1:
        comment += f"\n{splits} workgroups share out the inner axis of each tile."
    return hooks.launch(product, shared, lines, comment, (group, grid), tile.invocations)


def _shared_out(inner: str, splits: int) -> Iterable[str]:
    """Which part of the inner axis a workgroup has: all but the last are of whole steps."""
    if splits > 1:
        yield f"let part = tile % {splits};"
        yield f"let share = ({inner} + {splits * DEPTH - 1}) / {splits * DEPTH} * {DEPTH};"
        yield "let begin = part * share;"
        yield f"let end = min(begin + share, {inner});"


def _offset(number: int) -> str:
    return f" + {number}" if number else ""


def _multiplied(tile: Tile, left: _Part, right: _Part, vector: int) -> Iterable[str]:
    yield "{"
    if left.across or right.across:
        for q in range(4):
            yield from (f"  {line}" for part, own, short in ((left, "y", "a"), (right, "x", "b"))
                        for line in part.read(own, short, vector, q))  # fmt: skip
            for i in range(tile.rows):
                for j in range(tile.columns):
                    factors = f"{left.element('a', i, q)}, {right.element('b', j, q)}"
                    yield f"  sum_{i}_{j} = fma({factors}, sum_{i}_{j});"
    else:
        yield from (f"  {line}" for line in left.read("y", "a", vector, 0))
        for j, line in enumerate(right.read("x", "b", vector, 0)):
            yield f"  {line}"
            for i in range(tile.rows):
                yield f"  sum_{i}_{j} = accumulated(sum_{i}_{j}, a{i}, b{j});"
    yield "}"
