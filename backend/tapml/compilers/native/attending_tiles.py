"""The text of attention to many rows: several rows and keys an invocation, so that little is read for what is
multiplied.

Queries are read where they lie: what invocations of a subgroup read of them is the same.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from tapml.compilers.native.attended import Attended
from tapml.compilers.native.attending import Attending, guarded
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape
from tapml.compilers.native.factors import last

_BRANCHES = re.compile(r"&&|\|\||\b(if|for|while)\b")

_ROWS, _ROWS_OF_A_MASK = 64, 32
"""Of a workgroup; and where some rows see fewer keys than others, so that workgroups take longer than others."""
_KEYS = 32
"""Of a tile."""
_EACH = 4
"""Keys of an invocation."""
_DEPTH = 32
"""How far along keys a step goes."""
_FILLED = 250
"""Workgroups that fill a large device twice over."""
_MOST_ROWS = 1.5
"""Times the rows that there are that workgroups have at most."""


def tiles_of(shape: Shape, made: Attended, rows: int, batch: int) -> Shape | None:
    """For so many rows and batches: None where they are too few, where too many of a workgroup's rows would be none, or
    where more is done with queries than to read them.
    Of 24 heads of 1,024 rows and keys of 128 it takes an H200 633 us, with 16 rows a workgroup 1,100; where no row sees
    those behind it 393, with 64 rows 559, with 16 622; with fewer workgroups than fill it, it takes longer."""
    query = made.scores.left
    while query.kind == "cast":
        (query,) = query.operands
    most = _ROWS_OF_A_MASK if made.first or made.last else _ROWS
    groups = -(-rows // most)
    if batch * groups < _FILLED or groups * most > _MOST_ROWS * rows or query.kind != "load":
        return None
    found = dataclasses.replace(shape, rows=most, keys=_KEYS)
    return found if found.parts == 1 else None  # there is no memory to put parts together


class Tiles(Attending):
    """`shape`: of `tiles_of`."""

    @property
    def _beside(self) -> int:
        """Keys that invocations beside each other have."""
        return self._shape.keys // _EACH

    @property
    def _depth(self) -> int:
        return min(_DEPTH, max(4, 1 << (self._shape.inner - 1).bit_length()))

    @property
    def _stride(self) -> int:
        """Vectors of a row of scores."""
        return self._shape.keys // 4 + 1

    def _memory(self) -> Iterable[str]:
        shape = self._shape
        yield f"var<workgroup> key_part : array<vec4<f32>, {shape.keys * (self._depth // 4 + 1)}>;"
        yield f"var<workgroup> score_part : array<vec4<f32>, {shape.rows * self._stride}>;"
        yield f"var<workgroup> partial : array<f32, {LANES}>;"
        yield f"var<workgroup> highest : array<f32, {shape.rows}>;"
        yield f"var<workgroup> factor : array<f32, {shape.rows}>;"

    def _placed(self) -> Iterable[str]:
        if not self._made.last:
            yield from super()._placed()
            return
        yield "// The last rows, which see the most keys, come first: those that end last are short."
        yield f"let batch = row_tile % ({self._batches});"
        yield f"let row = (row_tiles - 1 - row_tile / ({self._batches})) * {self._shape.rows};"

    def _begun(self) -> Iterable[str]:
        shape = self._shape
        yield f"if (index < {shape.rows}) {{"
        yield f"  highest[index] = {LOWEST};"
        yield "}"
        yield from self._lanes()
        yield f"let key = index % {self._beside};"
        yield f"let r = index / {self._beside};"
        for c, row in enumerate(self._rows_of_scores):
            yield f"let row_{c} = min(row + {row}, {last(self._rows)});"
        yield "workgroupBarrier();"

    @property
    def _rows_of_scores(self) -> list[str]:
        step = LANES // self._beside
        return [f"r + {c * step}" if c else "r" for c in range(self._shape.rows // step)]

    def _scores(self) -> Iterable[str]:
        shape, depth, vectors = self._shape, self._depth, self._depth // 4
        rows, keys = range(len(self._rows_of_scores)), range(_EACH)
        stride = vectors + 1
        yield from (f"var found_{c}_{j} = 0.0;" for c in rows for j in keys)
        yield f"for (var k = 0; k < {shape.inner}; k += {depth}) {{"
        yield from (f"  {line}" for line in self._keys_brought())
        yield "  workgroupBarrier();"
        # A loop: written one by one they are a text that software takes minutes to compile.
        end = f"min({vectors}, {self._query} - k / 4)" if self._query % vectors else f"{vectors}"
        yield f"  for (var n = 0; n < {end}; n++) {{"
        yield from (f"    let b_{j} = key_part[{self._key(j)} * {stride} + n];" for j in keys)
        for c in rows:
            yield f"    let a_{c} = left4(batch, row_{c}, k + n * 4);"
            yield from (f"    found_{c}_{j} = accumulated(found_{c}_{j}, a_{c}, b_{j});" for j in keys)
        yield "  }"
        yield "  workgroupBarrier();"
        yield "}"
        yield from self._in_a_loop() if _BRANCHES.search(self._score()) else self._one_by_one()
        yield "workgroupBarrier();"

    def _one_by_one(self) -> Iterable[str]:
        """What becomes of each score."""
        keys = range(_EACH)
        for j in keys:
            yield f"let key_{j} = at + {self._key(j)};"
            yield f"let seen_{j} = min(key_{j}, end - 1);"
            for c, row in enumerate(self._rows_of_scores):
                found = f"score(batch, row_{c}, seen_{j}, found_{c}_{j})"
                inside = f"(row + {row} < {self._rows}) & (key_{j} < end)"
                yield f"{self._own_score(row, j)} = select({LOWEST}, {found}, {inside});"

    def _in_a_loop(self) -> Iterable[str]:
        """What may take branches: with sixteen of them software compiles for minutes."""
        shape, keys = self._shape, range(_EACH)
        for c, row in enumerate(self._rows_of_scores):
            for j in keys:
                yield f"{self._own_score(row, j)} = found_{c}_{j};"
        yield "workgroupBarrier();"
        own = f"score_part[line * {self._stride} + j / 4][j % 4]"
        seen = f"score(batch, min(row + line, {last(self._rows)}), min(at + j, end - 1), {own})"
        yield f"for (var n = index; n < {shape.rows * shape.keys}; n += {LANES}) {{"
        yield f"  let line = n / {shape.keys};"
        yield f"  let j = n % {shape.keys};"
        yield f"  {own} = select({LOWEST}, {seen}, row + line < {self._rows} && at + j < end);"
        yield "}"

    def _own_score(self, row: str, j: int) -> str:
        """Of a score of the invocation's."""
        return f"score_part[({row}) * {self._stride} + {self._key(j)} / 4][{self._key(j)} % 4]"

    def _key(self, j: int) -> str:
        return f"(key + {j * self._beside})" if j else "key"

    def _weights(self) -> Iterable[str]:
        shape = self._shape
        each = LANES // shape.rows
        turn = f"for (var j = place; j < {shape.keys // 4}; j += {each}) {{"
        yield f"let line = index / {each};"
        yield f"let place = index % {each};"
        yield f"var most = vec4<f32>({LOWEST});"
        yield turn
        yield f"  most = max(most, score_part[line * {self._stride} + j]);"
        yield "}"
        yield from self._now(each, "max(max(most.x, most.y), max(most.z, most.w))")
        yield turn
        yield f"  let n = line * {self._stride} + j;"
        yield "  let seen = vec4<i32>(at + j * 4) + vec4<i32>(0, 1, 2, 3) < vec4<i32>(end);"
        yield "  score_part[n] = select(vec4<f32>(), exp(score_part[n] - now), seen);"
        yield "}"
        yield "workgroupBarrier();"

    def _mixed(self) -> Iterable[str]:
        """Four keys at a time."""
        shape = self._shape
        yield from self._scaled()
        yield f"for (var j = part; j < min({shape.keys}, end - at + 3) / 4; j += {shape.parts}) {{"
        for n in range(4):
            yield f"  let v_{n} = value4(batch, min(at + j * 4{f' + {n}' if n else ''}, end - 1), lane * 4);"
        for c, row in enumerate(self._own_rows):
            yield f"  let p_{c} = score_part[({row}) * {self._stride} + j];"
            for n, component in enumerate("xyzw"):
                yield f"  mixed_{c} = fma(vec4<f32>(p_{c}.{component}), v_{n}, mixed_{c});"
            yield f"  sum_{c} += (p_{c}.x + p_{c}.y) + (p_{c}.z + p_{c}.w);"
        yield "}"

    def _stored(self) -> Iterable[str]:
        """In a loop over rows, once: sums are put into arrays for that."""
        shape, count = self._shape, self._shape.own_rows
        for name, kind, of in (("mixed", "vec4<f32>", "mixed"), ("sums", "f32", "sum")):
            yield f"var {name} = array<{kind}, {count}>({', '.join(f'{of}_{c}' for c in range(count))});"
        yield f"for (var c = 0; c < {count}; c++) {{"
        yield f"  let line = own + c * {shape.row_groups};"
        yield f"  if (row + line < {self._rows}) {{"
        for n, component in enumerate("xyzw"):
            column = f"lane * 4{f' + {n}' if n else ''}"
            given = f"batch, row + line, {column}, highest[line], sums[c], mixed[c].{component}"
            guard = "" if self._width == 4 * shape.fours else f"{column} < {self._width}"
            yield from guarded(guard, [f"finish({given});"], "    ")
        yield "  }"
        yield "}"
