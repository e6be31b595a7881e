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
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape, splits_of
from tapml.compilers.native.factors import last
from tapml.compilers.native.matrix_parts import odd
from tapml.compilers.native.words import tight

_BRANCHES = re.compile(r"&&|\|\||\b(if|for|while)\b")

_ROWS, _FEW_ROWS = 64, 32
"""Of a workgroup; and where with more of them workgroups would be too few, or some rows see fewer keys than others, so
that workgroups take longer than others."""
_KEYS = 32
"""Of a tile."""
_BESIDE = _KEYS // 4
"""Invocations beside each other, each of which has four keys of the same rows."""
_ROWS_AT_ONCE = LANES // _BESIDE
_STRIDE = _BESIDE + 1
"""Vectors of a row of scores."""
_DEPTH = 4
"""Vectors of a key that are brought at once: with eight an H200 takes up to a third longer, most of the time."""
_FILLED, _NEARLY = 380, 190
"""Workgroups that fill a large device, where keys are shared out until there are as many; and the least of them."""
_FILLED_UNSHARED = 250
"""The same where keys are not shared out, as rows see different ones, or values are long."""
_MOST_WIDTH = 96
"""Of a row of values, where keys are shared out: of 32 heads of 512 rows and keys of 128 an H200 takes 238 us without
that, and 310."""
_MOST_SPLITS = 16
_MOST_ROWS = 1.5
"""Times the rows that there are that workgroups have at most."""


def tiles_of(shape: Shape, made: Attended, rows: int, batch: int, keys: int, width: int) -> Shape | None:
    """For so many rows, batches and keys: None where they are too few, where too many of a workgroup's rows would be
    none, or where more is done with queries than to read them.
    Of 8 heads of 4,096 rows and keys of 40 an H200 takes 1,150 us so, with 16 rows a workgroup 2,560; of 12 heads of
    256 of 64, for which eight workgroups of 64 rows share out keys, or four of 32, 20 and 37; of 12 of 512 of 32, 31
    and 75."""
    query = made.scores.left
    while query.kind == "cast":
        (query,) = query.operands
    if query.kind != "load":
        return None
    unshared = bool(made.first or made.last) or width > _MOST_WIDTH
    choices = [
        (most, 1 if unshared else splits_of(batch * -(-rows // most), _FILLED, min(keys // least, _MOST_SPLITS)))
        for most, least in ((_ROWS, 2 * _KEYS), (_FEW_ROWS, _KEYS))[bool(made.first or made.last) :]
        if -(-rows // most) * most <= _MOST_ROWS * rows
    ]
    for filled in (_FILLED_UNSHARED,) if unshared else (_FILLED, _NEARLY):
        for most, splits in choices:
            if batch * -(-rows // most) * splits >= filled:
                found = dataclasses.replace(shape, rows=most, keys=_KEYS, fours=-(-width // 4), splits=splits)
                return found if found.parts == 1 else None  # there is no memory to put parts together
    return None


class Tiles(Attending):
    """`shape`: of `tiles_of`. An invocation has four keys of some rows while there are scores, and four columns of
    others while values are mixed: scores, then weights, go from one to the other through workgroup memory, and what
    sums are scaled by."""

    def _over_keys(self) -> Iterable[str]:
        keys, splits = self._keys_of_all, self._shape.splits
        if keys is None or splits == 1:
            yield from super()._over_keys()
            return
        share = -(-keys // splits)
        # In the last turn of the last share there may be no key.
        yield f"for (var turn = 0; turn < {-(-share // _KEYS)}; turn++) {{"
        yield f"  let at = begin + turn * {_KEYS};"

    @property
    def _depth(self) -> int:
        return 4 * min(self._query, _DEPTH)

    def _memory(self) -> Iterable[str]:
        rows = self._shape.rows
        # The greatest scores of invocations beside each other lie where keys were.
        yield f"var<workgroup> key_part : array<vec4<f32>, {max(_KEYS * odd(self._depth // 4), 2 * rows)}>;"
        yield f"var<workgroup> score_part : array<vec4<f32>, {rows * _STRIDE}>;"
        yield f"var<workgroup> factor : array<f32, {rows}>;"

    def _placed(self) -> Iterable[str]:
        if not self._made.last:
            yield from super()._placed()
            return
        yield "// The last rows, which see the most keys, come first: those that end last are short."
        yield f"let batch = row_tile % ({self._batches});"
        yield f"let row = (row_tiles - 1 - row_tile / ({self._batches})) * {self._shape.rows};"

    def _begun(self) -> Iterable[str]:
        shape = self._shape
        yield f"let lane = index % {shape.fours};"
        yield f"let own = index / {shape.fours};"
        yield from (f"var mixed_{c} = vec4<f32>();" for c in range(shape.own_rows))
        yield f"let key = index % {_BESIDE};"
        yield f"let r = index / {_BESIDE};"
        for c, row in enumerate(self._rows_of_scores):
            yield f"let row_{c} = min(row + {row}, {last(self._rows)});"
            yield f"var most_{c} = {LOWEST};"
            yield f"var sum_{c} = 0.0;"

    @property
    def _rows_of_scores(self) -> list[str]:
        return [f"r + {step}" if step else "r" for step in range(0, self._shape.rows, _ROWS_AT_ONCE)]

    @property
    def _own_rows(self) -> list[str]:
        """Where the last groups of lanes have fewer rows, and the last lanes none, they have others' once more."""
        shape = self._shape
        highest = (LANES - 1) // shape.fours
        steps = range(0, shape.own_rows * shape.row_groups, shape.row_groups)
        return [f"min(own + {n}, {shape.rows - 1})" if highest + n >= shape.rows else f"own + {n}" for n in steps]

    def _keys_brought(self) -> Iterable[str]:
        """Four beside each other lie apart, so that what invocations beside each other read lies in other banks."""
        vectors = self._depth // 4
        stride = odd(vectors)
        yield f"for (var n = index; n < {_KEYS * vectors}; n += {LANES}) {{"
        yield f"  let j = n / {vectors};"
        yield f"  let part = n % {vectors};"
        brought = "right4(batch, min(at + j, end - 1), k + part * 4)"
        yield f"  key_part[(j % 4 * {_BESIDE} + j / 4) * {stride} + part] = {brought};"
        yield "}"

    def _scores(self) -> Iterable[str]:
        shape, vectors = self._shape, self._depth // 4
        rows, keys = range(len(self._rows_of_scores)), range(4)
        stride = odd(vectors)
        yield from (f"var found_{c}_{j} = 0.0;" for c in rows for j in keys)
        yield f"for (var k = 0; k < {shape.inner}; k += {self._depth}) {{"
        yield from (f"  {line}" for line in self._keys_brought())
        yield "  workgroupBarrier();"
        # A loop: written one by one they are a text that software takes minutes to compile.
        end = f"min({vectors}, {self._query} - k / 4)" if self._query % vectors else f"{vectors}"
        yield f"  for (var n = 0; n < {end}; n++) {{"
        for j in keys:
            yield f"    let b_{j} = key_part[(key{f' + {j * _BESIDE}' if j else ''}) * {stride} + n];"
        for c in rows:
            yield f"    let a_{c} = left4(batch, row_{c}, k + n * 4);"
            yield from (f"    found_{c}_{j} = accumulated(found_{c}_{j}, a_{c}, b_{j});" for j in keys)
        yield "  }"
        yield "  workgroupBarrier();"
        yield "}"
        for c in rows:
            yield f"var of_row_{c} = vec4<f32>({', '.join(f'found_{c}_{j}' for j in keys)});"
        yield from self._in_a_loop() if _BRANCHES.search(self._score()) else self._one_by_one()

    def _one_by_one(self) -> Iterable[str]:
        """What becomes of each score."""
        yield from (f"let seen_{j} = min(at + key * 4{f' + {j}' if j else ''}, end - 1);" for j in range(4))
        for c in range(len(self._rows_of_scores)):
            found = (f"score(batch, row_{c}, seen_{j}, of_row_{c}.{component})" for j, component in enumerate("xyzw"))
            yield f"of_row_{c} = vec4<f32>({', '.join(found)});"

    def _in_a_loop(self) -> Iterable[str]:
        """What may take branches: with sixteen of them software compiles for minutes."""
        shape = self._shape
        for c, row in enumerate(self._rows_of_scores):
            yield f"score_part[{tight(row)} * {_STRIDE} + key] = of_row_{c};"
        yield "workgroupBarrier();"
        own = f"score_part[line * {_STRIDE} + j / 4][j % 4]"
        seen = f"score(batch, min(row + line, {last(self._rows)}), min(at + j, end - 1), {own})"
        yield f"for (var n = index; n < {shape.rows * _KEYS}; n += {LANES}) {{"
        yield f"  let line = n / {_KEYS};"
        yield f"  let j = n % {_KEYS};"
        yield f"  {own} = {seen};"
        yield "}"
        yield "workgroupBarrier();"
        for c, row in enumerate(self._rows_of_scores):
            yield f"of_row_{c} = score_part[{tight(row)} * {_STRIDE} + key];"

    def _weights(self) -> Iterable[str]:
        rows = self._rows_of_scores
        yield "let seen = vec4<i32>(at + key * 4) + vec4<i32>(0, 1, 2, 3) < vec4<i32>(end);"
        for c, row in enumerate(rows):
            yield f"of_row_{c} = select(vec4<f32>({LOWEST}), of_row_{c}, seen);"
            most = f"max(max(of_row_{c}.x, of_row_{c}.y), max(of_row_{c}.z, of_row_{c}.w))"
            yield f"key_part[{tight(row)} * 2 + key / 4][key % 4] = {most};"
        yield "workgroupBarrier();"
        for c, row in enumerate(rows):
            yield f"let four_{c} = max(key_part[{tight(row)} * 2], key_part[{tight(row)} * 2 + 1]);"
            yield f"let now_{c} = max(most_{c}, max(max(four_{c}.x, four_{c}.y), max(four_{c}.z, four_{c}.w)));"
            yield f"let scale_{c} = exp(most_{c} - now_{c});"
            yield f"most_{c} = now_{c};"
            yield f"of_row_{c} = select(vec4<f32>(), exp(of_row_{c} - now_{c}), seen);"
            yield f"sum_{c} = sum_{c} * scale_{c} + ((of_row_{c}.x + of_row_{c}.y) + (of_row_{c}.z + of_row_{c}.w));"
            yield f"score_part[{tight(row)} * {_STRIDE} + key] = of_row_{c};"
        yield "if (key == 0) {"
        yield from (f"  factor[{row}] = scale_{c};" for c, row in enumerate(rows))
        yield "}"
        yield "workgroupBarrier();"

    def _mixed(self) -> Iterable[str]:
        """Four keys at a time."""
        yield from (f"mixed_{c} *= factor[{row}];" for c, row in enumerate(self._own_rows))
        yield f"for (var j = 0; j < min({_KEYS}, end - at + 3) / 4; j++) {{"
        for n in range(4):
            yield f"  let v_{n} = value4(batch, min(at + j * 4{f' + {n}' if n else ''}, end - 1), lane * 4);"
        for c, row in enumerate(self._own_rows):
            yield f"  let p_{c} = score_part[{tight(row)} * {_STRIDE} + j];"
            for n, component in enumerate("xyzw"):
                yield f"  mixed_{c} = fma(vec4<f32>(p_{c}.{component}), v_{n}, mixed_{c});"
        yield "}"

    def _stored(self) -> Iterable[str]:
        """In a loop over rows, once: sums are put into arrays for that."""
        shape = self._shape
        rows = self._rows_of_scores
        yield "workgroupBarrier();"
        for c, row in enumerate(rows):
            yield f"score_part[{tight(row)} * {_STRIDE} + key].x = sum_{c};"
        yield "if (key == 0) {"
        yield from (f"  factor[{row}] = most_{c};" for c, row in enumerate(rows))
        yield "}"
        yield "workgroupBarrier();"
        count = shape.own_rows
        yield f"var mixed = array<vec4<f32>, {count}>({', '.join(f'mixed_{c}' for c in range(count))});"
        yield f"for (var c = 0; c < {count}; c++) {{"
        yield f"  let line = own + c * {shape.row_groups};"
        guards = [f"row + line < {self._rows}"]
        guards += [f"own < {shape.row_groups}"] if (LANES - 1) // shape.fours >= shape.row_groups else []
        guards += [f"line < {shape.rows}"] if shape.rows % shape.row_groups else []
        yield f"  if ({' && '.join(guards)}) {{"
        yield "    var sum = 0.0;"
        yield f"    for (var n = 0; n < {_BESIDE}; n++) {{"
        yield f"      sum += score_part[line * {_STRIDE} + n].x;"
        yield "    }"
        if not self._whole:
            yield from (f"    {line}" for line in self._part_begun("line", "factor[line]", "sum"))
        for n, component in enumerate("xyzw"):
            column = f"lane * 4{f' + {n}' if n else ''}"
            value = f"mixed[c].{component}"
            line = f"finish(batch, row + line, {column}, factor[line], sum, {value});"
            line = line if self._whole else f"parts[own_part + {2 + n} + lane * 4] = {value};"
            guard = "" if self._width == 4 * shape.fours else f"{column} < {self._width}"
            yield from guarded(guard, [line], "    ")
        yield "  }"
        yield "}"
