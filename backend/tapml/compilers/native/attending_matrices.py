"""The text of attention by subgroup matrices: over the keys of many rows, a tile of them at a time.

Scores and mixed values are sums of subgroup matrices in float32. A weight is a float16 there: where the program has it
in float32 it is two, the second for what the first leaves out. Sums of a row are scaled to a new greatest score only
where that is far above the one that they refer to, which is seldom: matrices go through workgroup memory for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tapml.compilers.native.attended import Attended
from tapml.compilers.native.attending import Attending, times_text
from tapml.compilers.native.attention_hooks import most_of
from tapml.compilers.native.attention_shape import LOWEST, Shape
from tapml.compilers.native.blocks import SIDE, SUBGROUP
from tapml.compilers.native.combining import all_combined
from tapml.compilers.native.eights import Eights, halves_of, narrowed
from tapml.compilers.native.factors import extents, last
from tapml.compilers.native.kernel import Launch, Text, ceildiv, grid_of, times
from tapml.compilers.native.matrices import BUILTIN, RESULT
from tapml.compilers.native.matrix_parts import factor_at, odd
from tapml.compilers.native.product import arguments_of, numbered, tiles

KEYS = 32
"""Of a tile."""
_FEW_SUBGROUPS, _MANY_SUBGROUPS = 4, 8
"""Of a workgroup, each with as many rows as a matrix. Many read keys and values less often; for two float16 a weight
they have no room in 48 KiB of workgroup memory."""
_AT_ONCE = 100
"""Workgroups that a large device is filled with."""
LEAST_ROWS = 2 * SIDE
MOST_WIDTH = 128
"""Of queries and values, which are in registers."""

_FAR = "4.0"
_SCALE = 512
"""Of weights, which are exp(_FAR) at most: no normal float16 are those below 2**-23."""

_OF_SCORES = odd(KEYS // 4)
"""Vectors from one row of scores to the next."""
_OF_WEIGHTS = odd(KEYS // 8)
_EACH = KEYS // 2
"""Scores of an invocation: half a row."""


def by_matrices(
    text: Text, made: Attended, sizes: tuple[int, int, int, int], caches: Sequence[str]
) -> AttendingMatrices | None:
    """Where subgroup matrices are for it. `sizes`: batches, rows, length of queries, length of values."""
    batch, rows, inner, width = sizes
    product, value = halves_of(made.scores), narrowed(made.value)
    if product is None or value is None or rows < LEAST_ROWS or max(inner, width) > MOST_WIDTH:
        return None
    made = dataclasses.replace(made, scores=product, value=value)
    many = _MANY_SUBGROUPS * SIDE
    fill = text.found.threads >= _MANY_SUBGROUPS * SUBGROUP and batch * -(-rows // many) >= _AT_ONCE
    subgroups = _MANY_SUBGROUPS if made.halved and fill else _FEW_SUBGROUPS
    return AttendingMatrices(text, made, Shape(subgroups * SIDE, KEYS, 1, inner, 1), width, caches)


class AttendingMatrices(Eights, Attending):
    """Each invocation has half a row of scores, each subgroup 16 rows."""

    def __init__(self, text: Text, made: Attended, shape: Shape, width: int, caches: Sequence[str]) -> None:
        super().__init__(text, made, shape, width, caches)
        self._steps = -(-shape.inner // SIDE)
        """Of matrices, along queries and keys."""
        self._wide = -(-width // SIDE)
        self._invocations = shape.rows // SIDE * SUBGROUP
        self._stride = odd(2 * max(self._steps, self._wide))
        self._parts = ["weight_part"] if made.halved else ["weight_part", "rest_part"]
        self._brings = {
            "right": ("of_keys", "key_part", self._steps),
            "value": ("of_values", "value_part", self._wide),
        }
        """Of the function that reads vectors: the variables that they are brought in, the array that they are kept in,
        and of how many matrices along a row they are."""
        self._lane = self._in_fours(made.width[-1] if made.width else None, made.stored)
        if self._lane is not None:
            text.bind(str(made.stored.value), 4, write=True)

    def launch(self) -> Launch:
        product = self._made.scores
        rows = self._shape.rows
        row_tiles = ceildiv(times(*extents(product.rows)), rows)
        most = most_of(self._indices, product.batch) * -(-most_of(self._indices, product.rows) // rows)
        grid, group = grid_of(times(*extents(product.batch), row_tiles), most)
        functions = [self._vector(self._left, SIDE), self._vector(self._right, SIDE), self._vector(self._value, SIDE)]
        functions += [self._score(), *self._bounds(), self._finish(self._lane)]
        self._text.declarations = [
            *(
                f"var<workgroup> {part} : array<array<vec4<u32>, {KEYS * self._stride}>, 1>;"
                for part in ("key_part", "value_part")
            ),
            f"var<workgroup> score_part : array<array<vec4<f32>, {SIDE * _OF_SCORES}>, {rows // SIDE}>;",
            *(
                f"var<workgroup> {part} : array<array<vec4<u32>, {SIDE * _OF_WEIGHTS}>, {rows // SIDE}>;"
                for part in self._parts
            ),
            f"var<workgroup> partial : array<f32, {self._invocations}>;",
            f"var<workgroup> highest_part : array<f32, {rows}>;",
            f"var<workgroup> sum_part : array<f32, {rows}>;",
            f"var<workgroup> scale_part : array<f32, {rows}>;",
            "var<workgroup> far : atomic<u32>;",
            "",
            *self._places(),
            *functions,
            *self.helpers.values(),
        ]
        writer = self._text.writer()
        writer.symbols.update(self.symbols)
        for line in (
            "let index = i32(number);",
            f"let row_tiles = {tiles(self._rows, rows)};",
            *numbered(group, times_text(self._batches, "row_tiles")),
            "let batch = tile / row_tiles;",
            f"let row = tile % row_tiles * {rows};",
            *self._range(),
            "",
            "let own = index / 2;",
            f"let here = min(row + own, {last(self._rows)});",
            "let half = index % 2;",
            f"let part = own / {SIDE};",
            f"let of_row = own % {SIDE};",
            *(f"var of_keys_{n} : vec4<u32>;" for n in range(self._shares(self._steps))),
            *(f"var of_values_{n} : vec4<u32>;" for n in range(self._shares(self._wide))),
            *self._brought("right", "begin"),
            *(f"let of_query_{n} = left8(batch, here, {n * SIDE} + half * 8);" for n in range(self._steps)),
            *self._kept("right"),
            *self._brought("value", "begin"),
            *self._brought_next("right", "begin", 1),
            *self._queries(),
            *(f"var mixed_{n} = {RESULT}();" for n in range(self._wide)),
            f"var highest = {LOWEST};",
            f"var reference = {LOWEST};",
            "var sums = vec4<f32>();",
            f"for (var at = begin; at < end; at += {KEYS}) {{",
            *(f"  {line}" for line in self._tile()),
            "}",
            *self._ended_rows(),
        ):
            writer.line(line)
        comment = (
            f"Attention: each workgroup computes {rows} rows, each subgroup {SIDE}, over {KEYS} keys at a time.\n"
            "key_part and value_part have keys and values of a tile, as vectors of eight along them."
        )
        launch = self._text.launch(writer, comment, [*arguments_of(group), BUILTIN], self._invocations, grid)
        return dataclasses.replace(launch, grows=dict.fromkeys(self._caches, 1))

    # ------------------------------------------------ parts of the body

    def _queries(self) -> Iterable[str]:
        for step in range(self._steps):
            yield f"weight_part[part][of_row * {_OF_WEIGHTS} + half] = of_query_{step};"
            yield "workgroupBarrier();"
            yield f"let query_{step} = {factor_at('left', 'row', 'weight_part[subgroup]', 0, _OF_WEIGHTS)};"
            yield "workgroupBarrier();"

    def _shares(self, steps: int) -> int:
        """Vectors of a tile that an invocation brings: of so many matrices along a row."""
        return -(-KEYS * 2 * steps // self._invocations)

    def _share(self, steps: int, share: int) -> tuple[str, str, str]:
        """The number of a vector in the tile, the line before what an invocation does with it, and the one behind."""
        count = KEYS * 2 * steps
        place = f"(index + {share * self._invocations})" if share else "index"
        guarded = (share + 1) * self._invocations > count
        return place, f"if ({place} < {count}) {{ " if guarded else "", " }" if guarded else ""

    def _brought(self, name: str, at: str) -> Iterable[str]:
        """Reads the keys ("right") or the values of a tile."""
        into, _, steps = self._brings[name]
        for share in range(self._shares(steps)):
            place, before, behind = self._share(steps, share)
            given = f"batch, {at} + {place} / {2 * steps}, {place} % {2 * steps} * 8"
            yield f"{before}{into}_{share} = {name}8({given});{behind}"

    def _brought_next(self, name: str, at: str, tiles_on: int) -> Iterable[str]:
        """The same, of so many tiles on, where there is one."""
        then = f"{at} + {tiles_on * KEYS}"
        yield f"if ({then} < end) {{"
        yield from (f"  {line}" for line in self._brought(name, then))
        yield "}"

    def _kept(self, name: str) -> Iterable[str]:
        """Writes what was brought to workgroup memory."""
        brought, part, steps = self._brings[name]
        for share in range(self._shares(steps)):
            place, before, behind = self._share(steps, share)
            into = f"{part}[0][{place} / {2 * steps} * {self._stride} + {place} % {2 * steps}]"
            yield f"{before}{into} = {brought}_{share};{behind}"

    def _tile(self) -> Iterable[str]:
        """A barrier lies between what is written to workgroup memory and who reads it, and the other way round: keys of
        the next tile take the place of this one's when all scores are computed, values when all of the tile before are
        mixed, which is then."""
        over = KEYS // SIDE
        yield from (f"var score_{n} = {RESULT}();" for n in range(over))
        for step in range(self._steps):
            for n in range(over):
                offset = n * SIDE * self._stride + step * 2
                yield f"let key_{step}_{n} = {factor_at('right', 'col', 'key_part[0]', offset, self._stride)};"
                product = f"subgroupMatrixMultiplyAccumulate(query_{step}, key_{step}_{n}, score_{n})"
                yield f"score_{n} = {product};"
        yield from (stored(f"score_{n}", n) for n in range(over))
        yield "workgroupBarrier();"
        yield from self._kept("right")
        yield from self._kept("value")
        yield "// What the next tiles need is read meanwhile."
        yield from self._brought_next("right", "at", 2)
        yield from self._brought_next("value", "at", 1)
        yield from self._highest_of_tile()
        yield from self._weights_of_tile()
        yield "workgroupBarrier();"
        for n in range(over):
            for part in self._parts:
                yield f"let {part}_{n} = {factor_at('left', 'row', f'{part}[subgroup]', n * 2, _OF_WEIGHTS)};"
            for w in range(self._wide):
                offset = n * SIDE * self._stride + w * 2
                yield f"let value_{n}_{w} = {factor_at('right', 'row', 'value_part[0]', offset, self._stride)};"
                for part in self._parts:
                    product = f"subgroupMatrixMultiplyAccumulate({part}_{n}, value_{n}_{w}, mixed_{w})"
                    yield f"mixed_{w} = {product};"

    def _highest_of_tile(self) -> Iterable[str]:
        """Scores, and what refers to another one scaled, where the greatest of a row is far above that."""
        fours = range(_EACH // 4)
        yield f"let first = at + half * {_EACH};"
        for q in fours:
            yield f"let four_{q} = score_part[part][of_row * {_OF_SCORES} + half * {_EACH // 4} + {q}];"
            each = (f"score(batch, here, min(first + {4 * q + j}, end - 1), four_{q}[{j}])" for j in range(4))
            yield f"var found_{q} = vec4<f32>({', '.join(each)});"
        yield "// Only the last tile may have keys behind the end."
        yield f"if (at + {KEYS} > end) {{"
        yield from (f"  found_{q} = select(vec4<f32>({LOWEST}), found_{q}, {_seen(q)});" for q in fours)
        yield "}"
        yield f"let most = {all_combined('max', [f'found_{q}' for q in fours])};"
        yield "highest = max(highest, max(max(most.x, most.y), max(most.z, most.w)));"
        yield f"if (highest > reference + {_FAR}) {{"
        yield "  atomicStore(&far, u32(at + 1));"
        yield "}"
        yield "if (workgroupUniformLoad(&far) == u32(at + 1)) {"
        yield "  partial[index] = highest;"
        yield "  workgroupBarrier();"
        yield "  highest = max(highest, partial[index ^ 1]);"
        yield "  let factor = exp(reference - highest);"
        yield "  reference = highest;"
        yield "  sums *= factor;"
        for first in range(0, self._wide, KEYS // SIDE):
            these = range(first, min(first + KEYS // SIDE, self._wide))
            yield from (f"  {stored(f'mixed_{n}', n - first)}" for n in these)
            yield "  workgroupBarrier();"
            for q in fours:
                yield f"  score_part[part][of_row * {_OF_SCORES} + half * {_EACH // 4} + {q}] *= factor;"
            yield "  workgroupBarrier();"
            for n in these:
                place = f"&score_part[subgroup], {(n - first) * SIDE // 4}u, {_OF_SCORES}u"
                yield f"  mixed_{n} = subgroupMatrixLoad<{RESULT}, row_major>({place});"
            yield "  workgroupBarrier();"
        yield "}"

    def _weights_of_tile(self) -> Iterable[str]:
        fours = range(_EACH // 4)
        for q in fours:
            yield f"var weight_{q} = {_SCALE}.0 * exp(found_{q} - reference);"
        yield f"if (at + {KEYS} > end) {{"
        yield from (f"  weight_{q} = select(vec4<f32>(), weight_{q}, {_seen(q)});" for q in fours)
        yield "}"
        yield f"sums += {all_combined('add', [f'weight_{q}' for q in fours])};"
        names = {part: [f"weight_{q}" for q in fours] for part in self._parts}
        if len(self._parts) > 1:
            for q in fours:
                # Numbers of eleven bits, which a float16 has; a conversion and back would be left out by compilers.
                yield f"let high_{q} = bitcast<vec4<f32>>(bitcast<vec4<u32>>(weight_{q}) & vec4<u32>(0xffffe000u));"
            names = {
                "weight_part": [f"high_{q}" for q in fours],
                "rest_part": [f"(weight_{q} - high_{q})" for q in fours],
            }
        for part in self._parts:
            for e in range(_EACH // 8):
                pairs = [f"pack2x16float({names[part][2 * e + n // 2]}.{('xy', 'zw')[n % 2]})" for n in range(4)]
                place = f"{part}[part][of_row * {_OF_WEIGHTS} + half * {_EACH // 8} + {e}]"
                yield f"{place} = vec4<u32>({', '.join(pairs)});"

    def _ended_rows(self) -> Iterable[str]:
        yield "partial[index] = highest;"
        yield "workgroupBarrier();"
        yield "highest = max(highest, partial[index ^ 1]);"
        yield "workgroupBarrier();"
        yield "partial[index] = sums.x + sums.y + sums.z + sums.w;"
        yield "workgroupBarrier();"
        yield "if (half == 0) {"
        yield f"  let scale = exp(reference - highest) / {_SCALE}.0;"
        yield "  highest_part[own] = highest;"
        yield "  scale_part[own] = scale;"
        yield "  sum_part[own] = (partial[index] + partial[index + 1]) * scale;"
        yield "}"
        each = 1 if self._lane is None else 4
        function = "finish" if self._lane is None else "finish4"
        for first in range(0, self._wide, KEYS // SIDE):
            these = range(first, min(first + KEYS // SIDE, self._wide))
            yield from (stored(f"mixed_{n}", n - first) for n in these)
            yield "workgroupBarrier();"
            wide = len(these) * SIDE // each
            yield f"for (var e = index; e < {self._shape.rows * wide}; e += {self._invocations}) {{"
            yield f"  let r = e / {wide};"
            yield f"  let c = e % {wide}{f' * {each}' if each > 1 else ''};"
            yield f"  if (row + r < {self._rows} && {first * SIDE} + c < {self._width}) {{"
            component = "[c % 4]" if each == 1 else ""
            mixed = f"score_part[r / {SIDE}][r % {SIDE} * {_OF_SCORES} + c / 4]{component} * scale_part[r]"
            yield f"    {function}(batch, row + r, {first * SIDE} + c, highest_part[r], sum_part[r], {mixed});"
            yield "  }"
            yield "}"
            yield "workgroupBarrier();"


def _seen(four: int) -> str:
    """Which of four keys there are."""
    return f"vec4<i32>(first + {4 * four}) + vec4<i32>(0, 1, 2, 3) < vec4<i32>(end)"


def stored(matrix: str, number: int) -> str:
    """A result into the subgroup's part of what scores are in, `number` matrices from its begin."""
    place = f"&score_part[subgroup], {number * SIDE // 4}u, {matrix}, {_OF_SCORES}u"
    return f"subgroupMatrixStore<row_major>({place});"
