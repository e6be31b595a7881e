"""The text of attention to few rows, as when a token is decoded: keys and values are read once, many at a time.

Invocations beside each other have vectors beside each other of a key, of several keys; the parts of a score go through
workgroup memory, and of each tile's values what an invocation mixes is read before the scores are known.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapml.compilers.native.attending import Attending
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape
from tapml.compilers.native.factors import last

MOST_ROWS = 8
_MOST_BESIDE = 16
"""Invocations that have a key together."""
_MOST_VECTORS = 4
"""Of a key, that an invocation has."""
_SCORES = 64
"""Of a tile, of all rows; more where the keys of a turn are more."""


def beside(inner: int) -> int:
    """Invocations that have a key together, whose length is `inner`."""
    return min(_MOST_BESIDE, 1 << (-(-inner // 4) - 1).bit_length())


def takes(rows: int, inner: int) -> bool:
    """Whether the text is for so many rows of queries of this length."""
    return rows <= MOST_ROWS and -(-inner // 4) <= _MOST_VECTORS * _MOST_BESIDE


def keys_of(rows: int, inner: int) -> int:
    """Of a tile."""
    return max(_SCORES // rows, LANES // beside(inner))


class Decoding(Attending):
    """`shape` has `keys_of` its rows and length."""

    _shape: Shape

    @property
    def _beside(self) -> int:
        return beside(self._shape.inner)

    @property
    def _vectors(self) -> int:
        """Of a key, that an invocation has."""
        return -(-self._query // self._beside)

    @property
    def _at_once(self) -> int:
        """Keys that an invocation has of a tile, a vector of each."""
        return self._shape.keys * self._beside // LANES

    def _factors(self) -> Iterable[str]:
        reach = 4 * self._beside * self._vectors
        yield self._vector(self._left, reach)
        yield self._vector(self._right, reach)
        yield self._vector(self._value, 4 * self._shape.fours)

    def _memory(self) -> Iterable[str]:
        scores = self._shape.rows * self._shape.keys
        yield f"var<workgroup> partial : array<f32, {scores * (self._beside + 1)}>;"
        yield f"var<workgroup> score_part : array<f32, {scores}>;"

    def _begun(self) -> Iterable[str]:
        shape = self._shape
        yield from self._lanes()
        yield f"var highest = array<f32, {shape.rows}>();"
        yield f"let place = index % {self._beside};"
        yield f"let group_of_keys = index / {self._beside};"
        for r in range(shape.rows):
            yield f"highest[{r}] = {LOWEST};"
            for v in range(self._vectors):
                line = f"min(row + {r}, {last(self._rows)})" if r else "row"
                yield f"let query_{r}_{v} = left4(batch, {line}, (place + {v * self._beside}) * 4);"

    def _tile(self) -> Iterable[str]:
        shape = self._shape
        groups = LANES // self._beside
        for c in range(self._at_once):
            yield f"let key_{c} = group_of_keys + {c * groups};"
            for v in range(self._vectors):
                given = f"batch, min(at + key_{c}, end - 1), (place + {v * self._beside}) * 4"
                yield f"let key_{c}_{v} = right4({given});"
        turns = -(-shape.keys // shape.parts)
        for c in range(turns):
            yield f"let mixed_key_{c} = part + {c * shape.parts};"
            yield f"let value_{c} = value4(batch, min(at + mixed_key_{c}, end - 1), lane * 4);"
        for c in range(self._at_once):
            for r in range(shape.rows):
                total = "0.0"
                for v in range(self._vectors):
                    total = f"accumulated({total}, query_{r}_{v}, key_{c}_{v})"
                number = f"({r * shape.keys} + key_{c})" if r else f"key_{c}"
                yield f"partial[{number} * {self._beside + 1} + place] = {total};"
        yield "workgroupBarrier();"
        yield from self._scored()
        yield "workgroupBarrier();"
        for r in range(shape.rows):
            yield from self._added(r, turns)

    def _scored(self) -> Iterable[str]:
        """Each score, from the parts that several invocations have of it."""
        shape = self._shape
        one = [f"partial[n * {self._beside + 1} + {p}]" for p in range(self._beside)]
        lines = (
            f"let key = n % {shape.keys};",
            f"let r = n / {shape.keys};",
            f"score_part[n] = {LOWEST};",
            f"if (at + key < end && row + r < {self._rows}) {{",
            f"  score_part[n] = score(batch, row + r, at + key, {' + '.join(one)});",
            "}",
        )
        yield f"for (var n = index; n < {shape.rows * shape.keys}; n += {LANES}) {{"
        yield from (f"  {line}" for line in lines)
        yield "}"

    def _added(self, r: int, turns: int) -> Iterable[str]:
        """What an invocation has of a row, with the tile's."""
        shape = self._shape
        first = r * shape.keys
        yield f"var most_{r} = highest[{r}];"
        yield f"for (var n = {first}; n < {first + shape.keys}; n++) {{"
        yield f"  most_{r} = max(most_{r}, score_part[n]);"
        yield "}"
        yield f"let scale_{r} = exp(highest[{r}] - most_{r});"
        yield f"highest[{r}] = most_{r};"
        yield f"mixed_{r} *= scale_{r};"
        yield f"sum_{r} *= scale_{r};"
        for c in range(turns):
            inside = f"at + mixed_key_{c} < end"
            place = f"mixed_key_{c}"
            if (c + 1) * shape.parts > shape.keys:
                inside = f"{place} < {shape.keys} && {inside}"
                place = f"min({place}, {shape.keys - 1})"
            number = f"{first} + {place}" if first else place
            yield f"let weight_{r}_{c} = select(0.0, exp(score_part[{number}] - most_{r}), {inside});"
            yield f"mixed_{r} = fma(vec4<f32>(weight_{r}_{c}), value_{c}, mixed_{r});"
            yield f"sum_{r} += weight_{r}_{c};"
