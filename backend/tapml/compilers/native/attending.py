"""The text of attention: over the keys of some rows, a tile of them at a time."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tapml.compilers.native.attended import Attended
from tapml.compilers.native.attention_hooks import AttentionHooks, most_of
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape
from tapml.compilers.native.contraction import TOTAL
from tapml.compilers.native.factors import extents, last
from tapml.compilers.native.kernel import Launch, Text, ceildiv, grid_of, times
from tapml.compilers.native.polynomials import Polynomial
from tapml.compilers.native.product import ACCUMULATED, arguments_of, numbered, tiles
from tapml.compilers.native.words import bare, tight

_AHEAD = 8
"""Values that a lane reads before the first is added."""

MIXED_OF = {4: ("mixed",), 8: ("mixed", "more")}
"""What a lane's sums of four columns each are called, by how many columns it has."""

PLACES = "places"
"""The symbol for how many places a cache has."""


class Attending(AttentionHooks):
    def __init__(self, text: Text, made: Attended, shape: Shape, width: int, caches: Sequence[str]) -> None:
        if caches:
            text.given[PLACES] = f"{PLACES}()"
        super().__init__(text, made, shape, width)
        product = made.scores
        self._caches = caches
        self._left = self._factor("left", "row", product.left, product.rows, product.inner)
        self._right = self._factor("right", "key", product.right, product.columns, product.inner)
        self._value = self._factor("value", "key", made.value, product.columns, made.width)
        self._whole = shape.splits == 1
        others = [made.score, made.base, *([made.finish] if self._whole else [])]
        bounds = [self._indices.expression(found) for found in (*made.first, *made.last)]
        self._bind((self._left, self._right, self._value), *others, *bounds)
        if self._whole:
            text.bind(str(made.stored.value), write=True)
        else:
            self._bind_parts(write=True)

    def launch(self) -> Launch:
        shape, product = self._shape, self._made.scores
        rows = shape.rows
        row_tiles = ceildiv(times(*extents(product.rows)), rows)
        most = most_of(self._indices, product.batch) * -(-most_of(self._indices, product.rows) // rows) * shape.splits
        grid, group = grid_of(times(*extents(product.batch), row_tiles, shape.splits), most)
        functions = [*self._factors(), self._score(), *self._bounds()]
        functions += [self._finish()] if self._whole else []
        shared = int(shape.parts > 1)
        self._text.declarations = [
            *self._memory(),
            *([f"var<workgroup> mixed_part : array<vec4<f32>, {shape.wide // 4 * LANES}>;"] * shared),
            *([f"var<workgroup> sum_part : array<f32, {LANES}>;"] * shared),
            "",
            *self._places(),
            *functions,
            *self._helpers(),
        ]
        writer = self._text.writer()
        writer.symbols.update(self.symbols)
        for line in (
            "let index = i32(number);",
            f"let row_tiles = {tiles(self._rows, rows)};",
            *numbered(group, times_text(self._batches, "row_tiles", shape.splits)),
            f"let split = tile % {shape.splits};" if shape.splits > 1 else "",
            f"let row_tile = tile / {shape.splits};" if shape.splits > 1 else "let row_tile = tile;",
            *self._placed(),
            *self._range(),
            "",
            *self._begun(),
            *self._over_keys(),
            *(f"  {line}" for line in self._tile()),
            "}",
            *self._together(),
            *self._stored(),
        ):
            writer.line(line)
        share = f" {shape.splits} workgroups share the keys of a row." if shape.splits > 1 else ""
        comment = f"Attention: each workgroup computes {rows} rows, over {shape.keys} keys at a time.{share}"
        launch = self._text.launch(writer, comment, arguments_of(group), LANES, grid)
        launch = dataclasses.replace(launch, grows=dict.fromkeys(self._caches, 1))
        return launch if self._whole else self._handing_on(launch)

    # ------------------------------------------------ functions

    def _helpers(self) -> Iterable[str]:
        """What the functions and the body call."""
        return (ACCUMULATED,)

    def _factors(self) -> Iterable[str]:
        yield self._vector(self._left, 4)
        yield self._vector(self._right, self._depth)
        yield self._vector(self._value, 4 * self._shape.fours)

    def _places(self) -> Iterable[str]:
        if self._caches:
            values = self._text.accesses[self._caches[1]]
            row = values.shape[0] * values.shape[2] // values.width
            yield f"fn {PLACES}() -> i32 {{\n  return i32(arrayLength(&{values.name})) / {row};\n}}\n"

    def _score(self) -> str:
        made, product = self._made, self._made.scores
        writer = self._function(
            "score(batch : i32, row : i32, key : i32, total : f32) -> f32",
            [(product.batch, "batch"), (product.rows, "row"), (product.columns, "key")],
        )
        self._given(writer, TOTAL, "total")
        text = bare(writer.value(made.score))
        writer.line(f"return {text if made.score.dtype == 'float32' else f'f32({text})'};")
        writer.lines.append("}\n")
        return self._ended(writer)

    def _bounds(self) -> Iterable[str]:
        """Functions of the first and the last key that a row sees."""
        made, product = self._made, self._made.scores
        for name, bounds, worst, start in (
            ("first_of", made.first, "max", "0"),
            ("last_of", made.last, "min", last(self._count(product.columns))),
        ):
            if not bounds:
                continue
            writer = self._function(
                f"{name}(batch : i32, row : i32) -> i32", [(product.batch, "batch"), (product.rows, "row")]
            )
            text = start
            for bound in bounds:
                text = f"{worst}({text}, {bare(self._bound(writer, bound))})"
            writer.line(f"return {text};")
            writer.lines.append("}\n")
            yield self._ended(writer)

    def _bound(self, writer: Any, bound: Polynomial) -> str:
        return str(writer.polynomial(bound))

    # ------------------------------------------------ the body

    @property
    def _query(self) -> int:
        """Vectors of a row of queries."""
        return -(-self._shape.inner // 4)

    def _placed(self) -> Iterable[str]:
        """Which batch and rows a workgroup has."""
        yield "let batch = row_tile / row_tiles;"
        yield f"let row = row_tile % row_tiles * {self._shape.rows};"

    @property
    def _depth(self) -> int:
        """How far along queries and keys a step goes."""
        return self._shape.depth

    def _memory(self) -> Iterable[str]:
        """Of a workgroup, beside what is put together in the end."""
        shape = self._shape
        yield f"var<workgroup> query_part : array<vec4<f32>, {shape.rows * self._query}>;"
        yield f"var<workgroup> key_part : array<vec4<f32>, {shape.keys * (self._depth // 4 + 1)}>;"
        yield f"var<workgroup> score_part : array<f32, {shape.rows * shape.keys}>;"
        yield f"var<workgroup> partial : array<f32, {LANES}>;"
        yield f"var<workgroup> highest : array<f32, {shape.rows}>;"
        yield f"var<workgroup> factor : array<f32, {shape.rows}>;"

    def _begun(self) -> Iterable[str]:
        """Before the first tile."""
        shape = self._shape
        line = f"min(row + n / {self._query}, {last(self._rows)})"
        yield from filled(f"query_part[n] = left4(batch, {line}, n % {self._query} * 4);", shape.rows * self._query)
        yield f"if (index < {shape.rows}) {{"
        yield f"  highest[index] = {LOWEST};"
        yield "}"
        yield from self._lanes()
        yield "workgroupBarrier();"

    def _lanes(self) -> Iterable[str]:
        """Which columns, rows and keys an invocation has, and what it adds up."""
        shape = self._shape
        yield f"let lane = index % {shape.fours};"
        yield f"let own = index / {shape.fours} % {shape.row_groups};"
        yield f"let part = index / {shape.fours * shape.row_groups};"
        for c in range(shape.own_rows):
            yield from (f"var {name}_{c} = vec4<f32>();" for name in MIXED_OF[shape.wide])
            yield f"var sum_{c} = 0.0;"

    @property
    def _own_rows(self) -> Sequence[str]:
        """The texts of which of the workgroup's rows a lane has."""
        shape = self._shape
        return [f"own + {c * shape.row_groups}" if c else "own" for c in range(shape.own_rows)]

    def _tile(self) -> Iterable[str]:
        yield from self._scores()
        yield from self._weights()
        yield from self._mixed()

    def _over_keys(self) -> Iterable[str]:
        """The head of the loop over tiles. Where keys are a number its bounds are, too: how often a loop goes round is
        read off its head (auto/counting.py)."""
        keys = self._keys_of_all
        begin, end = ("begin", "end") if keys is None or self._shape.splits > 1 else ("0", keys)
        yield f"for (var at = {begin}; at < {end}; at += {self._shape.keys}) {{"

    @property
    def _keys_of_all(self) -> int | None:
        """How many keys all rows see, where that is a number."""
        keys = self._count(self._made.scores.columns)
        return int(keys) if keys.isdigit() and not self._made.first and not self._made.last else None

    def _range(self) -> Iterable[str]:
        """From the first key that one of the rows sees to the last; where a row sees none, all count alike."""
        shape, made = self._shape, self._made
        keys = self._count(made.scores.columns)
        if not made.first and not made.last:
            yield "var begin = 0;"
            yield f"var end = {keys};"
        else:
            yield f"var begin = {keys};"
            yield "var end = 0;"
            yield f"for (var r = row; r < min(row + {shape.rows}, {self._rows}); r++) {{"
            yield f"  let low = {'first_of(batch, r)' if made.first else '0'};"
            yield f"  let high = {'last_of(batch, r)' if made.last else last(keys)};"
            yield "  begin = min(begin, select(low, 0, low > high));"
            yield f"  end = max(end, select(high + 1, {keys}, low > high));"
            yield "}"
        if shape.splits > 1:
            yield f"let share = (end - begin + {shape.splits - 1}) / {shape.splits};"
            yield "begin += split * share;"
            yield "end = min(end, begin + share);"

    def _keys_brought(self) -> Iterable[str]:
        """A part of the tile's keys, from `k` on, to workgroup memory."""
        keys, vectors = self._shape.keys, self._depth // 4
        key = f"min(at + n / {vectors}, end - 1)"
        into = f"key_part[n / {vectors} * {vectors + 1} + n % {vectors}]"
        return filled(f"{into} = right4(batch, {key}, k + n % {vectors} * 4);", keys * vectors)

    def _scores(self) -> Iterable[str]:
        shape = self._shape
        keys, depth, vectors = shape.keys, self._depth, self._depth // 4
        step = max(1, LANES // keys)
        """Rows beside each other that lanes have."""
        rows = [f"r + {c * step}" if c else "r" for c in range(shape.scores)]
        yield from (f"var found_{c} = 0.0;" for c in range(shape.scores))
        yield f"let key = index % {keys};"
        yield f"let r = index / {keys};"
        yield f"for (var k = 0; k < {shape.inner}; k += {depth}) {{"
        yield from (f"  {line}" for line in self._keys_brought())
        yield "  workgroupBarrier();"
        inside = "" if shape.rows * keys >= LANES else f"r < {shape.rows}"
        for n in range(vectors):
            lines = [f"let b_{n} = key_part[key * {vectors + 1}{f' + {n}' if n else ''}];"]
            for c, row in enumerate(rows):
                place = f"query_part[{tight(row)} * {self._query} + k / 4{f' + {n}' if n else ''}]"
                lines.append(f"found_{c} = accumulated(found_{c}, {place}, b_{n});")
            # The last step may have fewer vectors.
            beyond = self._query % vectors and n >= self._query % vectors
            conditions = [*([inside] if inside else []), *([f"k / 4 + {n} < {self._query}"] if beyond else [])]
            yield from guarded(" && ".join(conditions), lines, "  ")
        yield "  workgroupBarrier();"
        yield "}"
        for c, row in enumerate(rows):
            conditions = [*([f"{row} < {shape.rows}"] if inside else []), f"row + {row} < {self._rows}"]
            yield f"if ({' && '.join([*conditions, 'at + key < end'])}) {{"
            yield f"  score_part[{tight(row)} * {keys} + key] = score(batch, row + {row}, at + key, found_{c});"
            yield f"}} else{f' if ({row} < {shape.rows})' if inside else ''} {{"
            yield f"  score_part[{tight(row)} * {keys} + key] = {LOWEST};"
            yield "}"
        yield "workgroupBarrier();"

    def _weights(self) -> Iterable[str]:
        """The greatest score of each row, and the exponentials of the others less it."""
        shape = self._shape
        each = LANES // shape.rows
        yield f"let line = index / {each};"
        yield f"let place = index % {each};"
        yield f"var most = {LOWEST};"
        turn = f"for (var j = place; j < {shape.keys}; j += {each}) {{"
        yield turn
        yield f"  most = max(most, score_part[line * {shape.keys} + j]);"
        yield "}"
        yield from self._now(each, "most")
        yield turn
        yield f"  let n = line * {shape.keys} + j;"
        yield "  score_part[n] = select(0.0, exp(score_part[n] - now), at + j < end);"
        yield "}"
        yield "workgroupBarrier();"

    def _now(self, each: int, most: str) -> Iterable[str]:
        """The greatest score of a row so far, of `each` invocations that have the text `most` for it, and what sums are
        scaled by for it."""
        yield f"partial[index] = {most};"
        yield "workgroupBarrier();"
        yield "var now = highest[line];"
        yield f"for (var n = 0; n < {each}; n++) {{"
        yield f"  now = max(now, partial[line * {each} + n]);"
        yield "}"
        yield "let scale = exp(highest[line] - now);"
        yield "workgroupBarrier();"
        yield "if (place == 0) {"
        yield "  factor[line] = scale;"
        yield "  highest[line] = now;"
        yield "}"

    def _scaled(self) -> Iterable[str]:
        """What an invocation has of tiles before."""
        for c, row in enumerate(self._own_rows):
            yield f"mixed_{c} *= factor[{row}];"
            yield f"sum_{c} *= factor[{row}];"

    def _mixed(self) -> Iterable[str]:
        """Several values are read before the first is added. Beyond the last key weights are 0, and the last is read
        again."""
        shape = self._shape
        yield from self._scaled()
        ahead = max(1, min(_AHEAD, shape.keys // shape.parts))
        yield f"for (var j = part; j < min({shape.keys}, end - at); j += {ahead * shape.parts}) {{"
        for n in range(ahead):
            place = f"at + j{f' + {n * shape.parts}' if n else ''}"
            yield f"  let v_{n} = value4(batch, {f'min({place}, end - 1)' if n else place}, lane * 4);"
        for n in range(ahead):
            for c, row in enumerate(self._own_rows):
                place = f"{tight(row)} * {shape.keys} + j{f' + {n * shape.parts}' if n else ''}"
                yield f"  let p_{n}_{c} = score_part[{place}];"
                yield f"  mixed_{c} = fma(vec4<f32>(p_{n}_{c}), v_{n}, mixed_{c});"
                yield f"  sum_{c} += p_{n}_{c};"
        yield "}"

    def _together(self) -> Iterable[str]:
        """What lanes have of the same rows and columns."""
        shape = self._shape
        if shape.parts == 1:
            return
        names = enumerate(MIXED_OF[shape.wide])
        kept = [(name, f"index + {n * LANES}" if n else "index") for n, name in names]
        for c in range(shape.own_rows):
            for name, place in kept:
                yield f"mixed_part[{place}] = {name}_{c};"
            yield f"sum_part[index] = sum_{c};"
            yield "workgroupBarrier();"
            yield "if (part == 0) {"
            yield f"  for (var p = 1; p < {shape.parts}; p++) {{"
            for name, place in kept:
                yield f"    {name}_{c} += mixed_part[{place} + p * {shape.fours * shape.row_groups}];"
            yield f"    sum_{c} += sum_part[index + p * {shape.fours * shape.row_groups}];"
            yield "  }"
            yield "}"
            if c < shape.own_rows - 1:
                yield "workgroupBarrier();"

    def _part_begun(self, line: str, highest: str, total: str) -> Iterable[str]:
        """Where the part of a row begins, `line` of the workgroup, with its greatest score and its sum of weights."""
        yield f"let own_part = {self._part.replace('row)', f'row + {line})')};"
        yield "if (lane == 0) {"
        yield f"  parts[own_part] = {highest};"
        yield f"  parts[own_part + 1] = {total};"
        yield "}"

    def _stored(self) -> Iterable[str]:
        shape = self._shape
        first = "part == 0 && " if shape.parts > 1 else ""
        whole = self._width == shape.wide * shape.fours
        for c, here in enumerate(self._own_rows):
            yield f"if ({first}row + {here} < {self._rows}) {{"
            if not self._whole:
                yield from (f"  {line}" for line in self._part_begun(here, f"highest[{here}]", f"sum_{c}"))
            for n, (name, component) in enumerate(itertools.product(MIXED_OF[shape.wide], "xyzw")):
                column = f"lane * {shape.wide}{f' + {n}' if n else ''}"
                if self._whole:
                    given = f"batch, row + {here}, {column}, highest[{here}], sum_{c}, {name}_{c}.{component}"
                    line = f"finish({given});"
                else:
                    line = f"parts[own_part + {2 + n} + lane * {shape.wide}] = {name}_{c}.{component};"
                yield from guarded("" if whole else f"{column} < {self._width}", [line], "  ")
            yield "}"


def times_text(*factors: Any) -> str:
    return " * ".join(str(factor) for factor in factors if factor != 1)


def filled(line: str, count: int) -> Iterable[str]:
    """`line` for n from 0 to `count` - 1, shared out among the lanes."""
    yield f"for (var n = index; n < {count}; n += {LANES}) {{"
    yield f"  {line}"
    yield "}"


def guarded(condition: str, lines: Sequence[str], indent: str) -> Iterable[str]:
    if not condition:
        yield from (indent + line for line in lines)
        return
    yield f"{indent}if ({condition}) {{"
    yield from (f"{indent}  {line}" for line in lines)
    yield f"{indent}}}"
