"""Products with few rows, such as of one token, with weights that are integers in words: each word is read once, and
its integers become numbers in registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapml.compilers.native.integers import ProductOfIntegers
from tapml.compilers.native.kernel import WORKGROUP_MEMORY, Launch, grid_of
from tapml.compilers.native.product import ACCUMULATED, Count, numbered, tiles
from tapml.compilers.native.skinny import INVOCATIONS, added
from tapml.compilers.native.words import bare

_AT_ONCE = 262144
"""Invocations that fill a large device, each of which waits for two words of each column."""
_SUM, _VECTOR = 4 * INVOCATIONS, 16
"""Bytes of a workgroup's sums of a column and a row, and of four numbers."""
_LEAST_SHARED = 2
"""Columns, for each row, that share what is staged: reading it takes longer than words where they are fewer."""


@dataclass(frozen=True)
class WordSplit:
    """`lanes` invocations share the inner axis of `columns` columns, and read `words` words of each before they go
    on."""

    columns: int
    lanes: int
    words: int
    fours: bool = False
    """Whether four words beside each other are read at once, and meet their scale together."""
    staged: bool = False
    """Whether what a workgroup multiplies in a turn of the left factor is read once, into workgroup memory."""

    def fits(self, rows: int) -> bool:
        """Whether the sums of so many rows do, and what is staged, of which a word has three vectors of four at
        most."""
        staged = 3 * _VECTOR * self.lanes * self.words if self.staged else 0
        return rows * (_SUM * self.columns + staged) <= WORKGROUP_MEMORY


def word_split_of(
    rows: int, columns: int, words: int, batch: int, bits: int = 4, by_fours: bool = False, wide: bool = False
) -> WordSplit:
    """As many columns as their sums leave room for, which share what is read of the left factor, and as many lanes as
    fill a large device: these are the fastest of one row, 4096 x 4096, on an H200. `bits`: of an integer; `by_fours`:
    whether four words may be read at once, which is worth it where what is multiplied by them is staged, or lies in few
    cache lines; `wide`: whether it lies in many, for it is float32."""
    if by_fours and bits == 4 and (split := _staged_split_of(rows, columns, words, batch)) is not None:
        return split
    by_fours &= bits == 8 or not wide
    widths = [width for width in (4, 2, 1) if WordSplit(width, 1, 1).fits(rows)]
    filled = _AT_ONCE * bits // 16 if by_fours else _AT_ONCE
    lanes = [lanes for lanes in (16, 32, 64, 128, 256)[: 4 if by_fours else 5] if lanes <= max(16, words)]
    splits = [(width, lane) for width in widths for lane in lanes]
    enough = (split for split in splits if columns * batch * split[1] >= filled * split[0])
    width, lane = next(enough, (widths[-1], lanes[-1]))
    if by_fours:
        return WordSplit(width, lane, 4, True)
    return WordSplit(width, lane, 2 if lane < words else 1)


def _staged_split_of(rows: int, columns: int, words: int, batch: int) -> WordSplit | None:
    """None where too few invocations for a large device would share what there is workgroup memory for."""
    for width in (4, 2):
        for lanes in (16, 32, 64):
            split = WordSplit(width, lanes, 4, fours=True, staged=True)
            filled = columns * batch * lanes * 4 >= _AT_ONCE * width and width >= _LEAST_SHARED * rows
            if filled and split.fits(rows) and lanes <= max(16, words // 4):
                return split
    return None


def skinny_integers(hooks: ProductOfIntegers, rows: int, split: WordSplit, count: Count) -> Launch:
    """The dispatch of a product of so many rows; `count` says how many workgroups of a tile it takes."""
    integers = hooks.integers
    width, lanes, many = split.columns, split.lanes, range(rows)
    product = hooks.product(integers.each * lanes * split.words)
    reads, words = split.words // hooks.at_once, _reads_of(hooks)
    groups = INVOCATIONS // lanes
    workgroups, most = count(rows, groups * width)
    grid, group = grid_of(workgroups, most)
    kind = f"vec{width}<f32>" if width > 1 else "f32"
    lines = (
        "let index = i32(number);",
        f"let column_tiles = {tiles(product.columns, groups * width)};",
        *numbered(group, f"{product.batch} * column_tiles"),
        "let batch = tile / column_tiles;",
        f"let place = index / {lanes};",
        f"let lane = index % {lanes};",
        f"let column = (tile % column_tiles * {groups} + place){f' * {width}' if width > 1 else ''};",
        "// Columns beyond the last are read as the last: what comes of them is not stored.",
        *(f"let read_{j} = min(column{f' + {j}' if j else ''}, {hooks.last_column});" for j in range(width)),
        *(f"var {_sum(i, j)} = 0.0;" for i in many for j in range(width)),
        *_turns(hooks, rows, split, reads, words),
        "",
        f"let slot = lane * {groups} + place;",
        *(f"sums_{i}[slot] = {_vector(kind, [_sum(i, j) for j in range(width)])};" for i in many),
        *added([f"sums_{i}" for i in many], lanes, groups),
        "if (lane == 0) {",
        *(f"  {line}" for line in _finished(hooks, rows, split, kind)),
        "}",
    )
    what = f"{width} columns" if width > 1 else "a column"
    comment = (
        f"Each workgroup computes {groups * width} columns of all {rows} rows. {lanes} invocations share\n"
        f"the inner axis of {what}, {split.words} words of {integers.each} integers at a time, and add up what they "
        "have in workgroup memory."
    )
    shared = [f"var<workgroup> sums_{i} : array<{kind}, {INVOCATIONS}>;" for i in many]
    if split.staged:
        comment += "\nWhat they multiply of the rows in a turn the whole workgroup reads there."
        size = lanes * reads * _pitch(hooks)
        shared += [f"var<workgroup> left_part_{i} : array<vec4<f32>, {size}>;" for i in many]
    helpers = f"{ACCUMULATED}\n{hooks.fours}"
    return hooks.launch(product, shared, lines, comment, (group, grid), INVOCATIONS, helpers=helpers)


def _sum(row: int, column: int) -> str:
    return f"sum_{row}_{column}"


def _vector(kind: str, parts: list[str]) -> str:
    return f"{kind}({', '.join(parts)})" if len(parts) > 1 else parts[0]


def _reads_of(hooks: ProductOfIntegers) -> str:
    """Of a line: words, or fours of them."""
    return hooks.words if hooks.at_once == 1 else str(int(hooks.words) // hooks.at_once)


def _vectors(hooks: ProductOfIntegers) -> int:
    """Of four numbers of the left factor that meet what is read of words at once."""
    return hooks.integers.each * hooks.at_once // 4


def _pitch(hooks: ProductOfIntegers) -> int:
    """Vectors in workgroup memory from those of one lane to those of the next: an odd number, so that lanes beside each
    other read of different banks."""
    return _vectors(hooks) | 1


def _turns(hooks: ProductOfIntegers, rows: int, split: WordSplit, reads: int, words: str) -> Iterable[str]:
    step = split.lanes * reads
    if split.staged:
        yield f"for (var begin = 0; begin < {words}; begin += {step}) {{"
        yield "  let first = begin + lane;"
    else:
        yield f"for (var first = lane; first < {words}; first += {step}) {{"
    yield from (f"  {line}" for line in _turn(hooks, rows, split, reads))
    yield "}"


def _staging(hooks: ProductOfIntegers, rows: int, split: WordSplit, reads: int) -> Iterable[str]:
    """What a turn multiplies of the left factor, into workgroup memory; beyond the end of the inner axis that is
    zeros."""
    step, each, pitch = split.lanes * reads, _vectors(hooks), _pitch(hooks)
    yield "// What the turn before has multiplied is not needed any more."
    yield "workgroupBarrier();"
    for first in range(0, step * each, INVOCATIONS):
        n = "index" if not first else f"(index + {first})"
        at = n if pitch == each else f"{n} / {each} * {pitch} + {n} % {each}"
        lines = [f"left_part_{i}[{bare(at)}] = left4(batch, {i}, begin * {4 * each} + {n} * 4);" for i in range(rows)]
        some = step * each < INVOCATIONS
        yield from [f"if (index < {step * each}) {{", *(f"  {line}" for line in lines), "}"] if some else lines
    yield "workgroupBarrier();"


def _turn(hooks: ProductOfIntegers, rows: int, split: WordSplit, reads: int) -> Iterable[str]:
    """All words of a turn are read before the first one is multiplied."""
    integers, columns, count = hooks.integers, range(split.columns), _reads_of(hooks)
    each = integers.each * hooks.at_once
    end = str(int(count) - 1) if count.isdigit() else bare(f"({count} - 1)")
    inside = count.isdigit() and int(count) % (split.lanes * reads) == 0
    function = "right_word" if hooks.at_once == 1 else "right_words"
    for w in range(reads):
        at = f"first{f' + {w * split.lanes}' if w else ''}"
        # What lies beyond the last word is multiplied by zeros.
        given = inside or not (w or split.staged)
        yield f"let at_{w} = {at if given else f'min({at}, {end})'};"
        for j in columns:
            yield f"let word_{w}_{j} = {function}(batch, read_{j}, at_{w});"
            if not integers.by_lines:
                yield f"let scale_{w}_{j} = right_scale(batch, read_{j}, at_{w} * {each});"
                if integers.zero.kind != "constant":
                    yield f"let zero_{w}_{j} = right_zero(batch, read_{j}, at_{w} * {each});"
    if integers.by_lines and integers.zero.kind != "constant":
        yield from (f"let zero_{j} = right_zero(batch, read_{j}, 0);" for j in columns)
    if split.staged:
        yield from _staging(hooks, rows, split, reads)
    for w in range(reads):
        yield from _multiplied(hooks, rows, split, w)


def _multiplied(hooks: ProductOfIntegers, rows: int, split: WordSplit, w: int) -> Iterable[str]:
    integers = hooks.integers
    halves = ("low", "high") if integers.bits == 4 else ("low",)
    point = f"(first{f' + {w * split.lanes}' if w else ''}) * {integers.each * hooks.at_once}"
    parts = [(f"{half}_{w}" + f"_{p}" * (hooks.at_once > 1), half, p) for p in range(hooks.at_once) for half in halves]
    for i in range(rows):
        for n, (name, _, _) in enumerate(parts):
            if split.staged:
                lane = f"(lane + {w * split.lanes})" if w else "lane"
                four = f"left_part_{i}[{lane} * {_pitch(hooks)}{f' + {n}' if n else ''}]"
            else:
                four = f"left4(batch, {i}, {point}{f' + {4 * n}' if n else ''})"
            yield f"let {name}_of_{i} = {four};"
    for j in range(split.columns):
        zero = integers.constant_or(integers.zero, f"zero_{j}" if integers.by_lines else f"zero_{w}_{j}")
        for name, half, p in parts:
            word = f"word_{w}_{j}" + f".{'xyzw'[p]}" * (hooks.at_once > 1)
            yield f"let {name}_by_{j} = {half}_four({word}, {zero});"
        for i in range(rows):
            text = _sum(i, j) if integers.by_lines else "0.0"
            for name, _, _ in parts:
                text = f"accumulated({text}, {name}_of_{i}, {name}_by_{j})"
            yield f"{_sum(i, j)} = {text if integers.by_lines else f'fma({text}, scale_{w}_{j}, {_sum(i, j)})'};"


def _finished(hooks: ProductOfIntegers, rows: int, split: WordSplit, kind: str) -> Iterable[str]:
    columns = range(split.columns)
    lined = hooks.integers.by_lines and hooks.integers.scale.kind != "constant"
    if lined:
        scales = [f"right_scale(batch, read_{j}, 0)" for j in columns]
        yield f"let scale = {_vector(kind, scales)};"
    for i in range(rows):
        yield f"let total_{i} = sums_{i}[slot]{' * scale' if lined else ''};"
        if split.columns == 4 and hooks.by_four_columns:
            yield f"finish4(batch, {i}, column, total_{i});"
        elif split.columns == 1:
            yield f"finish(batch, {i}, column, total_{i});"
        else:
            for j in columns:
                of = f"total_{i}.{'xyzw'[j]}"
                if not hooks.by_four_columns:
                    yield f"finish(batch, {i}, column{f' + {j}' if j else ''}, {of});"
