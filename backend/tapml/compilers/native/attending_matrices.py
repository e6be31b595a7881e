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
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape
from tapml.compilers.native.blocks import SUBGROUP
from tapml.compilers.native.eights import Eights, halves_of, narrowed
from tapml.compilers.native.factors import extents, last
from tapml.compilers.native.kernel import Launch, Text, ceildiv, grid_of, times
from tapml.compilers.native.matrices import BUILTIN, RESULT
from tapml.compilers.native.matrix_parts import SIDE, factor_at, odd
from tapml.compilers.native.product import arguments_of, numbered, tiles

KEYS = 32
"""Of a tile."""
_SUBGROUPS = LANES // SUBGROUP
ROWS = _SUBGROUPS * SIDE
"""Of a workgroup."""
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
    text: Text, made: Attended, sizes: tuple[int, int, int], caches: Sequence[str]
) -> AttendingMatrices | None:
    """Where subgroup matrices are for it. `sizes`: rows, length of queries, length of values."""
    rows, inner, width = sizes
    product, value = halves_of(made.scores), narrowed(made.value)
    if product is None or value is None or rows < LEAST_ROWS or max(inner, width) > MOST_WIDTH:
        return None
    made = dataclasses.replace(made, scores=product, value=value)
    return AttendingMatrices(text, made, Shape(ROWS, KEYS, 1, inner, 1), width, caches)


class AttendingMatrices(Eights, Attending):
    """Each invocation has half a row of scores, each subgroup 16 rows."""

    def __init__(self, text: Text, made: Attended, shape: Shape, width: int, caches: Sequence[str]) -> None:
        super().__init__(text, made, shape, width, caches)
        self._steps = -(-shape.inner // SIDE)
        """Of matrices, along queries and keys."""
        self._wide = -(-width // SIDE)
        self._stride = odd(2 * max(self._steps, self._wide))
        self._parts = ["weight_part"] if made.halved else ["weight_part", "rest_part"]

    def launch(self) -> Launch:
        product = self._made.scores
        row_tiles = ceildiv(times(*extents(product.rows)), ROWS)
        most = most_of(self._indices, product.batch) * -(-most_of(self._indices, product.rows) // ROWS)
        grid, group = grid_of(times(*extents(product.batch), row_tiles), most)
        functions = [self._vector(self._left, SIDE), self._vector(self._right, SIDE), self._vector(self._value, SIDE)]
        functions += [self._score(), *self._bounds(), self._finish()]
        self._text.declarations = [
            *(
                f"var<workgroup> {part} : array<array<vec4<u32>, {KEYS * self._stride}>, 1>;"
                for part in ("key_part", "value_part")
            ),
            f"var<workgroup> score_part : array<array<vec4<f32>, {SIDE * _OF_SCORES}>, {_SUBGROUPS}>;",
            *(
                f"var<workgroup> {part} : array<array<vec4<u32>, {SIDE * _OF_WEIGHTS}>, {_SUBGROUPS}>;"
                for part in self._parts
            ),
            f"var<workgroup> partial : array<f32, {LANES}>;",
            f"var<workgroup> highest_part : array<f32, {ROWS}>;",
            f"var<workgroup> sum_part : array<f32, {ROWS}>;",
            f"var<workgroup> scale_part : array<f32, {ROWS}>;",
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
            f"let row_tiles = {tiles(self._rows, ROWS)};",
            *numbered(group, times_text(self._batches, "row_tiles")),
            "let batch = tile / row_tiles;",
            f"let row = tile % row_tiles * {ROWS};",
            *self._range(),
            "",
            "let own = index / 2;",
            f"let here = min(row + own, {last(self._rows)});",
            "let half = index % 2;",
            f"let part = own / {SIDE};",
            f"let of_row = own % {SIDE};",
            *self._queries(),
            *(f"var mixed_{n} = {RESULT}();" for n in range(self._wide)),
            f"var highest = {LOWEST};",
            f"var reference = {LOWEST};",
            "var sum = 0.0;",
            *(f"var of_keys_{n} : vec4<u32>;" for n in range(self._shares(self._steps))),
            *(f"var of_values_{n} : vec4<u32>;" for n in range(self._shares(self._wide))),
            *self._brought("begin"),
            f"for (var at = begin; at < end; at += {KEYS}) {{",
            *(f"  {line}" for line in self._tile()),
            "}",
            *self._ended_rows(),
        ):
            writer.line(line)
        comment = (
            f"Attention: each workgroup computes {ROWS} rows, each subgroup {SIDE}, over {KEYS} keys at a time.\n"
            "key_part and value_part have keys and values of a tile, as vectors of eight along them."
        )
        launch = self._text.launch(writer, comment, [*arguments_of(group), BUILTIN], LANES, grid)
        return dataclasses.replace(launch, grows=dict.fromkeys(self._caches, 1))

    # ------------------------------------------------ parts of the body

    def _queries(self) -> Iterable[str]:
        for step in range(self._steps):
            place = f"weight_part[part][of_row * {_OF_WEIGHTS} + half]"
            yield f"{place} = left8(batch, here, {step * SIDE} + half * 8);"
            yield "workgroupBarrier();"
            yield f"let query_{step} = {factor_at('left', 'row', 'weight_part[subgroup]', 0, _OF_WEIGHTS)};"
            yield "workgroupBarrier();"

    def _shares(self, steps: int) -> int:
        """Vectors of a tile that an invocation brings: of so many matrices along a row."""
        return -(-KEYS * 2 * steps // LANES)

    def _share(self, steps: int, share: int) -> tuple[str, str, str]:
        """The number of a vector in the tile, the line before what an invocation does with it, and the one behind."""
        count = KEYS * 2 * steps
        place = f"(index + {share * LANES})" if share else "index"
        guarded = (share + 1) * LANES > count
        return place, f"if ({place} < {count}) {{ " if guarded else "", " }" if guarded else ""

    def _brought(self, at: str) -> Iterable[str]:
        """Reads the keys and the values of a tile."""
        for name, into, steps in (("right", "of_keys", self._steps), ("value", "of_values", self._wide)):
            for share in range(self._shares(steps)):
                place, before, behind = self._share(steps, share)
                given = f"batch, {at} + {place} / {2 * steps}, {place} % {2 * steps} * 8"
                yield f"{before}{into}_{share} = {name}8({given});{behind}"

    def _kept(self) -> Iterable[str]:
        for part, name, steps in (("key_part", "of_keys", self._steps), ("value_part", "of_values", self._wide)):
            for share in range(self._shares(steps)):
                place, before, behind = self._share(steps, share)
                into = f"{part}[0][{place} / {2 * steps} * {self._stride} + {place} % {2 * steps}]"
                yield f"{before}{into} = {name}_{share};{behind}"

    def _tile(self) -> Iterable[str]:
        over = KEYS // SIDE
        yield "workgroupBarrier();"
        yield from self._kept()
        yield "workgroupBarrier();"
        yield "// What the next tile needs is read meanwhile."
        yield f"if (at + {KEYS} < end) {{"
        yield from (f"  {line}" for line in self._brought(f"at + {KEYS}"))
        yield "}"
        yield from (f"var score_{n} = {RESULT}();" for n in range(over))
        for step in range(self._steps):
            for n in range(over):
                offset = n * SIDE * self._stride + step * 2
                yield f"let key_{step}_{n} = {factor_at('right', 'col', 'key_part[0]', offset, self._stride)};"
                product = f"subgroupMatrixMultiplyAccumulate(query_{step}, key_{step}_{n}, score_{n})"
                yield f"score_{n} = {product};"
        yield from (stored(f"score_{n}", n) for n in range(over))
        yield "workgroupBarrier();"
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
        """Scores, the greatest of a row, and what refers to another one scaled, where that is far below."""
        for q in range(_EACH // 4):
            yield f"let four_{q} = score_part[part][of_row * {_OF_SCORES} + half * {_EACH // 4} + {q}];"
        for j in range(_EACH):
            yield f"let key_{j} = at + half * {_EACH} + {j};"
            found = f"score(batch, here, min(key_{j}, end - 1), four_{j // 4}[{j % 4}])"
            yield f"let found_{j} = select({LOWEST}, {found}, key_{j} < end);"
        most = "found_0"
        for j in range(1, _EACH):
            most = f"max({most}, found_{j})" if j % 4 else f"{most}, found_{j}"
            if j % 4 == 0:
                most = f"max({most})"
        yield f"partial[index] = {most};"
        yield "workgroupBarrier();"
        yield "highest = max(highest, max(partial[index], partial[index ^ 1]));"
        yield f"if (highest > reference + {_FAR}) {{"
        yield "  atomicStore(&far, u32(at + 1));"
        yield "}"
        yield "if (workgroupUniformLoad(&far) == u32(at + 1)) {"
        yield "  let factor = exp(reference - highest);"
        yield "  reference = highest;"
        yield "  sum *= factor;"
        for first in range(0, self._wide, KEYS // SIDE):
            these = range(first, min(first + KEYS // SIDE, self._wide))
            yield from (f"  {stored(f'mixed_{n}', n - first)}" for n in these)
            yield "  workgroupBarrier();"
            for q in range(_EACH // 4):
                yield f"  score_part[part][of_row * {_OF_SCORES} + half * {_EACH // 4} + {q}] *= factor;"
            yield "  workgroupBarrier();"
            for n in these:
                place = f"&score_part[subgroup], {(n - first) * SIDE // 4}u, {_OF_SCORES}u"
                yield f"  mixed_{n} = subgroupMatrixLoad<{RESULT}, row_major>({place});"
            yield "  workgroupBarrier();"
        yield "}"

    def _weights_of_tile(self) -> Iterable[str]:
        for j in range(_EACH):
            yield f"let weight_{j} = select(0.0, {_SCALE}.0 * exp(found_{j} - reference), key_{j} < end);"
        yield f"sum += {' + '.join(f'weight_{j}' for j in range(_EACH))};"
        exact = len(self._parts) > 1
        for j in range(_EACH if exact else 0):
            # Numbers of eleven bits, which a float16 has; a conversion and back would be left out by compilers.
            yield f"let high_{j} = bitcast<f32>(bitcast<u32>(weight_{j}) & 0xffffe000u);"
        for part in self._parts:
            for e in range(_EACH // 8):
                pairs = []
                for j in range(e * 8, e * 8 + 8, 2):
                    numbers = [f"high_{i}" if exact else f"weight_{i}" for i in (j, j + 1)]
                    if part == "rest_part":
                        numbers = [f"weight_{i} - high_{i}" for i in (j, j + 1)]
                    pairs.append(f"pack2x16float(vec2<f32>({', '.join(numbers)}))")
                place = f"{part}[part][of_row * {_OF_WEIGHTS} + half * {_EACH // 8} + {e}]"
                yield f"{place} = vec4<u32>({', '.join(pairs)});"

    def _ended_rows(self) -> Iterable[str]:
        yield "partial[index] = sum;"
        yield "workgroupBarrier();"
        yield "if (half == 0) {"
        yield f"  let scale = exp(reference - highest) / {_SCALE}.0;"
        yield "  highest_part[own] = highest;"
        yield "  scale_part[own] = scale;"
        yield "  sum_part[own] = (partial[index] + partial[index + 1]) * scale;"
        yield "}"
        for first in range(0, self._wide, KEYS // SIDE):
            these = range(first, min(first + KEYS // SIDE, self._wide))
            yield from (stored(f"mixed_{n}", n - first) for n in these)
            yield "workgroupBarrier();"
            wide = len(these) * SIDE
            yield f"for (var e = index; e < {ROWS * wide}; e += {LANES}) {{"
            yield f"  let r = e / {wide};"
            yield f"  let c = e % {wide};"
            yield f"  if (row + r < {self._rows} && {first * SIDE} + c < {self._width}) {{"
            mixed = f"score_part[r / {SIDE}][r % {SIDE} * {_OF_SCORES} + c / 4][c % 4] * scale_part[r]"
            yield f"    finish(batch, row + r, {first * SIDE} + c, highest_part[r], sum_part[r], {mixed});"
            yield "  }"
            yield "}"
            yield "workgroupBarrier();"


def stored(matrix: str, number: int) -> str:
    """A result into the subgroup's part of what scores are in, `number` matrices from its begin."""
    place = f"&score_part[subgroup], {number * SIDE // 4}u, {matrix}, {_OF_SCORES}u"
    return f"subgroupMatrixStore<row_major>({place});"
