"""Products of few rows whose larger factor lies along the inner axis in lines: those that begin anywhere, of an odd
length or cut out of longer ones, and whole vectors of several rows.

A line that begins anywhere is some elements, whole vectors of its buffer, and some elements again. Lines that begin at
the same place of a vector, as every fourth or eighth does, go together: what is multiplied with a vector of each of
them is the same, and is read element by element. Lines of whole vectors all go together: with several rows, reading
these for each line would take longer than reading the lines.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.eights import narrowed
from tapml.compilers.native.factors import Factor, last
from tapml.compilers.native.kernel import WORKGROUP_MEMORY, Launch, Text, grid_of, times
from tapml.compilers.native.product import ACCUMULATED, OWN_NAMES, Count, Hooks, Product, numbered, tiles
from tapml.compilers.native.skinny import INVOCATIONS, WIDENED, added
from tapml.compilers.native.stages import loads
from tapml.compilers.native.words import bare
from tapml.kernels.choice import DEFAULT_LIMITS
from tapml.operators.program import Expression

_NUMBERED = ("column", "begin", "vector", "one", "part", "a", "k")
OWN_NAMES_OF_LINES = (
    *(*OWN_NAMES, "right_begin", "head", "tail", "vectors", "m"),
    *(f"{name}_{n}" for name in _NUMBERED for n in range(16)),
)
"""Those that this template's texts have."""


@dataclass(frozen=True)
class Lines:
    """How a factor lies: in vectors of `each` elements of a buffer, of which a line begins at the same place as the one
    `period` lines before it. `load`: an element."""

    load: Expression
    each: int
    period: int
    whole: bool
    """Whether all lines are whole vectors."""


@dataclass(frozen=True)
class LineSplit:
    """`lanes` invocations share `columns` columns that begin at the same place of a vector, and read `vectors` vectors
    of each before they go on."""

    lanes: int
    columns: int
    vectors: int


def line_split_of(rows: int, columns: int, inner: int, each: int) -> LineSplit:
    """About the fastest on an H200 of products of one to eight rows, 385 to 4,097 points by 1,023 to 9,999 columns."""
    if columns >= _MANY:
        shared = 4 if 4 * rows + each > 15 else 2 if rows > 1 or each == 8 else 1
    else:
        shared = 2 if rows > 1 else 1
    most = 16 * each if shared < 4 or rows < 4 else 64 if rows < 7 else 32
    lanes = 8
    while lanes < most and 3 * lanes * each < inner:
        lanes *= 2
    vectors = 1
    while rows == 1 and each == 4 and vectors < 4 and 2 * vectors * each * lanes <= inner:
        vectors *= 2
    return LineSplit(lanes, shared, vectors)


def whole_line_split_of(rows: int, columns: int, inner: int, each: int, stored: bool) -> LineSplit:
    """The same of lines of whole vectors, of two to eight rows, 384 to 8,192 points and columns. `stored`: whether
    columns of float32 lie as float16."""
    if columns < _MANY:
        shared, lanes, most = 1, 8, 128
        while lanes < most and 2 * lanes * each < inner:
            lanes *= 2
        return LineSplit(lanes, shared, 1)
    if rows == 2:
        return LineSplit(64 if inner < 4096 else 128, 2, 1)
    if each == 8:
        lanes = 32 if inner < 4096 else 64 if inner < 8192 else 128
        return LineSplit(lanes if rows < 7 else lanes // 2, 2, 2)
    lanes = 128 if rows <= 4 and inner >= 8192 else 64
    return LineSplit(min(lanes, max(8, inner // 16)), 4 if rows <= 4 else 2, 2 if stored else 1)


_MOST_BINDINGS = DEFAULT_LIMITS["maxStorageBuffersPerShaderStage"]
_AT_ONCE = WORKGROUP_MEMORY // (4 * INVOCATIONS)
"""Sums of all invocations that there is workgroup memory for."""
_MANY = 2048
"""Columns that fill a large device by twos, or fours."""


class LinesOfRight(Hooks):
    """The functions of a product of so many rows whose larger factor is of lines: `left` of an element, `left4` of
    four, and where a line begins in its buffer, `right_begin`."""

    def __init__(self, text: Text, found: Contraction, rows: int) -> None:
        self._lines: Lines | None = None
        self._rows = rows
        super().__init__(text, found)

    @property
    def lines(self) -> Lines | None:
        """None where the factor does not lie so, or in whole vectors that too few rows are multiplied with."""
        return self._lines

    def split(self, columns: int, inner: int) -> LineSplit:
        """About the fastest way to share out so many lines."""
        assert self._lines is not None
        sizes = self._rows, columns, inner, self._lines.each
        if not self._lines.whole:
            return line_split_of(*sizes)
        return whole_line_split_of(*sizes, self._is_stored(self._lines.load))

    def _is_stored(self, load: Expression) -> bool:
        """Whether columns of float32 lie as float16."""
        return str(load.value) in self._text.found.stored

    @property
    def names(self) -> tuple[str, str]:
        """Of the factor's buffer: as vectors, and as elements, which it is not bound as where lines are whole."""
        assert self._lines is not None
        access = self._text.accesses[str(self._lines.load.value)]
        return access.name, str(access.single)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        left, right = factors
        read = {str(load.value) for load in loads(left.value, *others)}
        self._lines = self._found_lines(right)
        if self._lines is not None:
            bound = len(read) + (2 if self._lines.whole else 3)  # the factor, or that twice, and the output
            if str(self._lines.load.value) in read or bound > _MOST_BINDINGS:
                self._lines = None
        if self._lines is None:
            super()._bind(factors, *others)
            return
        name = str(self._lines.load.value)
        if self._lines.whole:
            super()._bind([left], *others)
            self._text.bind(name, self._lines.each)
            return
        for buffer in self._buffers:
            if buffer in read:
                self._text.bind(buffer)
            elif buffer == name:
                self._text.bind(buffer, self._lines.each)
                self._text.bind_singly(buffer)

    def _found_lines(self, right: Factor) -> Lines | None:
        load = narrowed(right.value) or right.value
        if load.kind != "load" or len(right.own) != 1 or len(right.inner) != 1:
            return None
        buffer = self._buffers[str(load.value)]
        if buffer.dtype not in _EACH or buffer.name in self._text.found.textures:
            return None
        (own,), (inner,) = right.own, right.inner
        place = self._place(load)
        steps = [place.coefficient(axis.variable) for axis in (own, inner)]
        if any(step is None or step.constant is None for step in steps):
            return None
        across, along = (step.constant or 0 for step in steps if step is not None)
        rest = place.without(own.variable).without(inner.variable)
        if along != 1 or across < 1 or any(self._indices.depends(rest, axis.variable) for axis in (own, inner)):
            return None
        each = _EACH[buffer.dtype]

        def in_vectors(of: int) -> bool:
            size = inner.extent
            return across % of == 0 and rest.divisible(of) and isinstance(size, int) and size % of == 0

        # Two rows with columns of float32 that lie as float16 are no faster so.
        if self._rows >= (3 if self._is_stored(load) else 2) and in_vectors(each):
            return Lines(load, each, 1, whole=True)
        return None if in_vectors(4) else Lines(load, each, each // math.gcd(across, each), whole=False)

    def _vector(self, factor: Factor, step: int) -> str:
        assert self._lines is not None
        if factor.name == "left" and self._lines.whole:
            return super()._vector(factor, step)
        writer = self._writer()
        if factor.name == "left":
            self._single(writer, factor)
            writer.lines.append("fn left4(batch : i32, row : i32, k : i32) -> vec4<f32> {")
            four = ", ".join(f"left(batch, row, k{f' + {n}' if n else ''})" for n in range(4))
            writer.line(f"return vec4<f32>({four});")
        else:
            writer.lines.append("// Where in the buffer a column begins.")
            writer.lines.append("fn right_begin(batch : i32, column : i32) -> i32 {")
            self._decoded(writer, factor.batch, "batch")
            self._decoded(writer, factor.own, "column")
            place = self._place(self._lines.load).without(factor.inner[0].variable)
            writer.line(f"return {bare(writer.polynomial(place))};")
        writer.lines.append("}\n")
        return self._ended(writer)


_EACH = {"float32": 4, "float16": 8}
LEAST_OF_LINES = 64
"""Points of the inner axis."""


def ragged(hooks: LinesOfRight, rows: int, split: LineSplit, count: Count) -> Launch:
    """The dispatch of a product of so many rows, of lines; `count` says how many workgroups of a tile it takes."""
    found = hooks.lines
    assert found is not None
    product, period, lanes = hooks.product(found.each if found.whole else 1), found.period, split.lanes
    groups = INVOCATIONS // lanes
    # So many columns have all places of a vector between them: of one workgroup, or of several.
    width, parts = split.columns * max(groups, period), max(1, period // groups)
    workgroups, most = count(rows, width)
    grid, group = grid_of(times(workgroups, parts), most * parts)
    sums = [f"sum_{row}_{n}" for row in range(rows) for n in range(split.columns)]
    tiled = tiles(product.columns, width)
    lines = (
        "let index = i32(number);",
        f"let column_tiles = {f'{tiled} * {parts}' if parts > 1 else tiled};",
        *numbered(group, f"{product.batch} * column_tiles"),
        "let batch = tile / column_tiles;",
        f"let lane = index % {lanes};",
        f"let line = tile % column_tiles * {groups} + index / {lanes};",
        *_columns(split, found, product),
        *(f"var {name} = 0.0;" for name in sums),
        *_turns(hooks, split, found, range(rows)),
        *([] if found.whole else _ends(hooks, split, product.inner, range(rows))),
        "",
        "let slot = index;",
        *_together(split, found, rows),
    )
    each = "each column" if split.columns == 1 else f"{split.columns} columns"
    comment = (
        f"Each workgroup computes {groups * split.columns} columns of all {rows} rows. {lanes} invocations share\n"
        f"the inner axis of {each}, and add up what they have in workgroup memory."
    )
    if not found.whole:
        comment += (
            f"\nColumns begin anywhere in vectors of {found.each}: what is before their first whole one, and behind\n"
            "the last, is read by itself."
        )
    shared = [f"var<workgroup> part_{n} : array<f32, {INVOCATIONS}>;" for n in range(min(len(sums), _AT_ONCE))]
    helpers = f"{ACCUMULATED}\n{WIDENED}" if found.each == 8 else ACCUMULATED
    launch = hooks.launch(product, shared, lines, comment, (group, grid), INVOCATIONS, helpers=helpers)
    return dataclasses.replace(launch, shared_out=split)


def _columns(split: LineSplit, found: Lines, product: Product) -> Iterable[str]:
    """Which columns invocations have, and where these begin."""
    each, period, inner = found.each, found.period, product.inner
    if period > 1:
        yield f"let first = line / {period} * {period * split.columns} + line % {period};"
    else:
        yield f"let first = line * {split.columns};"
    yield "// Columns beyond the last are read as one before: what comes of them is not stored."
    yield f"let column_0 = min(first, {last(product.columns)});"
    for n in range(1, split.columns):
        other = f"first + {n * period}"
        yield f"let column_{n} = select(column_0, {other}, {other} < {product.columns});"
    for n in range(split.columns):
        yield f"let begin_{n} = right_begin(batch, column_{n});"
    if found.whole:
        yield f"let vectors = {inner} / {each};"
        yield from (f"let vector_{n} = begin_{n} / {each};" for n in range(split.columns))
        return
    yield f"let head = min(({each} - begin_0 % {each}) % {each}, {inner});"
    yield f"let vectors = ({inner} - head) / {each};"
    yield f"let tail = head + vectors * {each};"
    for n in range(split.columns):
        yield f"let vector_{n} = (begin_{n} + head) / {each};"


def _turns(hooks: LinesOfRight, split: LineSplit, found: Lines, rows: Iterable[int]) -> Iterable[str]:
    """All whole vectors of the columns: all of a turn are read before the first is multiplied."""
    wide, _ = hooks.names
    lanes, many, columns = split.lanes, range(split.vectors), range(split.columns)
    yield "var m = lane;"
    if split.vectors > 1:
        yield f"for (; m{_plus((split.vectors - 1) * lanes)} < vectors; m += {split.vectors * lanes}) {{"
        yield from (f"  let b{v}_{n} = {wide}[vector_{n} + m{_plus(v * lanes)}];" for v in many for n in columns)
        for v in many:
            yield from (f"  {line}" for line in _multiplied(found, split, f"m{_plus(v * lanes)}", str(v), rows))
        yield "}"
    yield f"for (; m < vectors; m += {lanes}) {{"
    yield from (f"  let b0_{n} = {wide}[vector_{n} + m];" for n in columns)
    yield from (f"  {line}" for line in _multiplied(found, split, "m", "0", rows))
    yield "}"


def _multiplied(found: Lines, split: LineSplit, at: str, vector: str, rows: Iterable[int]) -> Iterable[str]:
    halves = ("first_four({})", "last_four({})") if found.each == 8 else ("{}",)
    at = f"({at})" if " " in at else at
    yield f"let k_{vector} = {'' if found.whole else 'head + '}{at} * {found.each};"
    for row in rows:
        for number, half in enumerate(halves):
            yield f"let a{vector}_{row}_{number} = left4(batch, {row}, k_{vector}{_plus(4 * number)});"
            for n in range(split.columns):
                name, four = f"sum_{row}_{n}", half.format(f"b{vector}_{n}")
                yield f"{name} = accumulated({name}, a{vector}_{row}_{number}, {four});"


def _ends(hooks: LinesOfRight, split: LineSplit, inner: str, rows: range) -> Iterable[str]:
    """What is before the first whole vector of the columns, and behind the last."""
    for condition, k in ("lane < head", "lane"), (f"tail + lane < {inner}", "tail + lane"):
        yield f"if ({condition}) {{"
        yield from (f"  {line}" for line in _singly(hooks, split, k, rows))
        yield "}"


def _singly(hooks: LinesOfRight, split: LineSplit, k: str, rows: Iterable[int]) -> Iterable[str]:
    """The product of an element of each column."""
    _, single = hooks.names
    for n in range(split.columns):
        yield f"let one_{n} = f32({single}[begin_{n} + {k}]);"
    for row in rows:
        yield f"let a_{row} = left(batch, {row}, {k});"
        yield from (f"sum_{row}_{n} = fma(a_{row}, one_{n}, sum_{row}_{n});" for n in range(split.columns))


def _together(split: LineSplit, found: Lines, rows: int) -> Iterable[str]:
    """What the lanes have of each sum, of so many at once as there is workgroup memory for."""
    sums = [(row, n) for row in range(rows) for n in range(split.columns)]
    for begin in range(0, len(sums), _AT_ONCE):
        some = sums[begin : begin + _AT_ONCE]
        if begin:
            yield "workgroupBarrier();"
        yield from (f"part_{place}[slot] = sum_{row}_{n};" for place, (row, n) in enumerate(some))
        yield from added([f"part_{place}" for place in range(len(some))], split.lanes, 1)
        yield "if (lane == 0) {"
        for place, (row, n) in enumerate(some):
            yield f"  finish(batch, {row}, first{_plus(n * found.period)}, part_{place}[slot]);"
        yield "}"


def _plus(offset: int) -> str:
    return f" + {offset}" if offset else ""
