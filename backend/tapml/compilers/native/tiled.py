"""Matrix products by tiles: each workgroup computes a rectangle of the result from parts of both factors that it holds
in workgroup memory, each of its invocations a smaller one that it holds in registers."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tapml.compilers.native.factors import last
from tapml.compilers.native.grouped import OF_GROUP, ProductOfGroups
from tapml.compilers.native.kernel import Launch, grid_of, times
from tapml.compilers.native.product import NUMBERS, Count, Hooks, Kind, last_step, numbered, shared_out, tiles
from tapml.compilers.native.tiles import DEPTH, Tile

_VECTORS = DEPTH // 4
_MANY_SUMS = 64
"""Of an invocation, from which on one point of the inner axis after the other is multiplied, though both factors lie
along it: what registers hold is read by multiplications that follow each other then."""
_OF_GROUP = OF_GROUP // 4
"""Vectors of a group."""


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

    def kind(self, kind: Kind) -> str:
        """The type of what an invocation brings at a time, of numbers of a kind."""
        return kind.vector

    def held(self, kind: Kind) -> str:
        """The type of the part."""
        return f"array<array<{kind.vector}, {self.stride}>, {self.groups}>"

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

    def brought(self, first: str) -> Iterable[str]:
        """Each invocation's shares of the step that begins at `first`, from the factor. Lines beyond the last are read
        as the last: what comes of them is not stored."""
        for share, (line, vector) in enumerate(self.places()):
            if self.across:
                line, end, inner = f"{line} * 4", last(self.end, 4), vector
            else:
                end = last(self.end)
                inner = str(4 * int(vector)) if vector.isdigit() else f"({vector}) * 4"
            where = f"min({self.begin} + {line}, {end})"
            yield f"{self.name}_{share} = {self.name}4(batch, {where}, {_sum(first, inner)});"

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


@dataclass(frozen=True)
class _Scales:
    """What of the scales of a right factor in groups is in workgroup memory: of each group of a step, those of the
    columns."""

    tile: Tile
    end: str
    """Text: how many columns there are."""
    groups: int
    """Of a column."""
    name = "scale"

    def kind(self, _: Kind) -> str:
        return "f32"

    def held(self, _: Kind) -> str:
        return f"array<f32, {self._count}>"

    @property
    def _count(self) -> int:
        return self.tile.width * (DEPTH // OF_GROUP)

    @property
    def shares(self) -> int:
        return -(-self._count // self.tile.invocations)

    @property
    def _places(self) -> list[str]:
        return [_plus("index", share * self.tile.invocations) for share in range(self.shares)]

    def brought(self, first: str) -> Iterable[str]:
        """As those of a part; of groups beyond the last that is read, too: what is multiplied by it is 0."""
        width = self.tile.width
        for share, place in enumerate(self._places):
            column = f"min(column + ({place}) % {width}, {last(self.end)})"
            group = f"min(({first}) / {OF_GROUP} + ({place}) / {width}, {self.groups - 1})"
            yield f"scale_{share} = right_scale(batch, {column}, {group});"

    def kept(self) -> Iterable[str]:
        for share, place in enumerate(self._places):
            stored = f"scale_part[{place}] = scale_{share};"
            whole = (share + 1) * self.tile.invocations <= self._count
            yield from [stored] if whole else [f"if ({place} < {self._count}) {{", f"  {stored}", "}"]


def _sum(first: str, second: str) -> str:
    return " + ".join(text for text in (first, second) if text != "0") or "0"


def _plus(text: str, number: int) -> str:
    return f"{text} + {number}" if text and number else text or str(number)


def tiled(hooks: Hooks, tile: Tile, count: Count, kind: Kind = NUMBERS) -> Launch:
    """The dispatch of a product; `count` says how many workgroups of a tile it takes, `kind` what is multiplied."""
    product = hooks.product(DEPTH)
    way = product.left_along, product.left_across, "row", product.rows
    left = _Part("left", tile.height, tile.rows, tile.invocations, *way)
    way = product.right_along, product.right_across, "column", product.columns
    right = _Part("right", tile.width, tile.columns, tile.invocations, *way)
    own, other = (replace(part, along=False, begin="", end="") for part in (left, right))
    parts: list[_Part | _Scales] = [left, right]
    if isinstance(hooks, ProductOfGroups):
        parts.append(_Scales(tile, product.columns, hooks.groups))
    workgroups, most = count(tile.height, tile.width)
    splits = tile.splits
    grid, group = grid_of(times(workgroups, splits), most * splits)
    shared = [f"var<workgroup> {part.name}_part : {part.held(kind)};" for part in parts]
    place = f"(tile / {splits})" if splits > 1 else "tile"
    each = f"row_tiles * column_tiles{f' * {splits}' if splits > 1 else ''}"
    batch = f"batch * {splits} + part" if splits > 1 else "batch"
    begin, end = ("begin", "end") if splits > 1 else ("0", product.inner)
    ahead = f"k + {DEPTH}" if product.endless else f"min(k + {DEPTH}, {last_step(end, DEPTH)})"
    lines = (
        "let index = i32(number);",
        f"let x = index % {tile.wide};",
        f"let y = index / {tile.wide};",
        f"let row_tiles = {tiles(product.rows, tile.height)};",
        f"let column_tiles = {tiles(product.columns, tile.width)};",
        *numbered(group, f"{product.batch} * {each}"),
        *shared_out(product.inner, DEPTH, splits),
        f"let batch = tile / ({each});",
        f"let row = {place} / column_tiles % row_tiles * {tile.height};",
        f"let column = {place} % column_tiles * {tile.width};",
        "",
        *(f"var sum_{i}_{j} = {kind.zero};" for i in range(tile.rows) for j in range(tile.columns)),
        "",
        *(f"var {part.name}_{share} : {part.kind(kind)};" for part in parts for share in range(part.shares)),
        "",
        *(line for part in parts for line in part.brought(begin)),
        *(line for part in parts for line in part.kept()),
        "workgroupBarrier();",
        "",
        f"for (var k = {begin}; k < {end}; k += {DEPTH}) {{",
        "  // What the next step multiplies is read meanwhile: a branch for the last step would wait for that.",
        f"  let next = {ahead};",
        *(f"  {line}" for part in parts for line in part.brought("next")),
        *(_all_multiplied(tile, own, other, kind, grouped=isinstance(hooks, ProductOfGroups))),
        "  workgroupBarrier();",
        *(f"  {line}" for part in parts for line in part.kept()),
        "  workgroupBarrier();",
        "}",
        "",
        *_finished(hooks, tile, left, right, batch, kind),
    )
    comment = (
        f"Each workgroup computes {tile.height} x {tile.width} elements, each invocation {tile.rows} x "
        f"{tile.columns}, {DEPTH} steps\nalong the inner axis at a time. These parts of both factors lie in workgroup "
        f"memory:\n{left.said('y', 'row')};\n{right.said('x', 'column')}."
    )
    if splits > 1:
        comment += f"\n{splits} workgroups share out the inner axis of each tile."
    helpers = kind.accumulated
    if isinstance(hooks, ProductOfGroups):
        comment += "\nscale_part has the scales of the columns' groups, of one group after the other."
        helpers = f"{hooks.helpers}\n{helpers}"
    launch = hooks.launch(product, shared, lines, comment, (group, grid), tile.invocations, helpers=helpers)
    return replace(launch, shared_out=tile)


def _finished(hooks: Hooks, tile: Tile, left: _Part, right: _Part, batch: str, kind: Kind) -> Iterable[str]:
    for i in range(tile.rows):
        if hooks.by_four_columns:
            for j in range(0, tile.columns, 4):
                four = ", ".join(f"sum_{i}_{j + n}" for n in range(4))
                yield f"finish4({batch}, {left.line('y', i)}, {right.line('x', j)}, vec4<{kind.scalar}>({four}));"
        else:
            for j in range(tile.columns):
                yield f"finish({batch}, {left.line('y', i)}, {right.line('x', j)}, sum_{i}_{j});"


def _offset(number: int) -> str:
    return f" + {number}" if number else ""


def _all_multiplied(tile: Tile, left: _Part, right: _Part, kind: Kind, *, grouped: bool) -> Iterable[str]:
    if grouped:
        return (_of_group(tile, left, right, group) for group in range(_VECTORS // _OF_GROUP))
    return (_multiplied(tile, left, right, vector, kind) for vector in range(_VECTORS))


@functools.lru_cache(maxsize=256)
def _of_group(tile: Tile, left: _Part, right: _Part, group: int) -> str:
    """As `_multiplied`, of all vectors of a group."""
    vectors = range(group * _OF_GROUP, (group + 1) * _OF_GROUP)
    lines = ["{", *(f"  {line}" for n, v in enumerate(vectors) for line in left.read("y", f"a{n}_", v, 0))]
    of_right = [[*right.read("x", f"b{n}_", vector, 0)] for n, vector in enumerate(vectors)]
    for j in range(tile.columns):
        lines += [f"  {of_vector[j]}" for of_vector in of_right]
        lines.append(f"  let scale{j} = scale_part[{group * tile.width + j * right.groups} + x];")
        for i in range(tile.rows):
            total = "0"
            for n in range(len(vectors)):
                total = f"accumulated({total}, a{n}_{i}, b{n}_{j})"
            lines.append(f"  sum_{i}_{j} = fma(f32({total}), scale{j}, sum_{i}_{j});")
    return "  " + "\n    ".join([*lines, "}"])


@functools.lru_cache(maxsize=256)
def _multiplied(tile: Tile, left: _Part, right: _Part, vector: int, kind: Kind) -> str:
    """Lines of the loop, as one. They do not depend on where parts come from, so that products of one model have them
    in common."""
    return "  " + "\n    ".join(_of_vector(tile, left, right, vector, kind))


def _of_vector(tile: Tile, left: _Part, right: _Part, vector: int, kind: Kind) -> Iterable[str]:
    yield "{"
    if left.across or right.across or (kind is NUMBERS and tile.rows * tile.columns >= _MANY_SUMS):
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
