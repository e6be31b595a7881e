"""The text of attention to few rows, as when a token is decoded: keys and values are read once, many at a time.

Invocations beside each other have vectors beside each other of a key, of several keys; the parts of a score go through
workgroup memory, and of each tile's values what an invocation mixes is read before the scores are known. Keys and
values of float16 are read eight numbers at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tapml.compilers.native.attended import Attended
from tapml.compilers.native.attending import MIXED_OF, Attending
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape
from tapml.compilers.native.eights import Eights, halves_of, narrowed
from tapml.compilers.native.factors import last
from tapml.compilers.native.kernel import Text
from tapml.compilers.native.skinny import WIDENED

MOST_ROWS = 8
_MOST_BESIDE = 16
"""Invocations that have a key together."""
_MOST_VECTORS = 4
"""Of a key, that an invocation has."""
_SCORES = 128
"""Of a tile, of all rows; more where the keys of a turn are more."""


def _beside(vectors: int) -> int:
    """Invocations that have a key together, which has so many vectors."""
    return min(_MOST_BESIDE, 1 << (vectors - 1).bit_length())


def takes(rows: int, inner: int) -> bool:
    """Whether the text is for so many rows of queries of this length."""
    return rows <= MOST_ROWS and -(-inner // 4) <= _MOST_VECTORS * _MOST_BESIDE


def decoding(text: Text, made: Attended, shape: Shape, width: int, keys: int, caches: Sequence[str]) -> Attending:
    """The text for such rows and so many keys. `shape`: of `shape_of`."""
    found = _by_eights(text, made, shape, width, keys, caches)
    return found or Decoding(text, made, _tiled(shape, keys), width, caches)


def _tiled(shape: Shape, keys: int) -> Shape:
    """With as many keys as a tile has."""
    least = LANES // _beside(-(-shape.inner // shape.wide))
    most = min(_SCORES // shape.rows, 1 << (keys - 1).bit_length())
    return dataclasses.replace(shape, keys=max(least, most))


class Decoding(Attending):
    """`shape` has as many keys as a tile has of its rows and length."""

    _shape: Shape

    @property
    def _length(self) -> int:
        """Vectors of a key."""
        return -(-self._shape.inner // self._shape.wide)

    @property
    def _beside(self) -> int:
        return _beside(self._length)

    @property
    def _vectors(self) -> int:
        """Of a key, that an invocation has."""
        return -(-self._length // self._beside)

    @property
    def _at_once(self) -> int:
        """Keys that an invocation has of a tile, a vector of each."""
        return self._shape.keys * self._beside // LANES

    def _factors(self) -> Iterable[str]:
        reach = self._shape.wide * self._beside * self._vectors
        yield self._vector(self._left, reach)
        yield self._vector(self._right, reach)
        yield self._vector(self._value, self._shape.wide * self._shape.fours)

    def _memory(self) -> Iterable[str]:
        scores = self._shape.rows * self._shape.keys
        yield f"var<workgroup> partial : array<f32, {scores * (self._beside + 1)}>;"
        yield f"var<workgroup> score_part : array<vec4<f32>, {scores // 4}>;"

    def _read(self, factor: str, given: str) -> str:
        """A vector of a factor."""
        return f"{factor}{self._shape.wide}({given})"

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
                yield f"let query_{r}_{v} = {self._read('left', f'batch, {line}, {self._along_key(v)}')};"

    def _along_key(self, v: int) -> str:
        return f"(place + {v * self._beside}) * {self._shape.wide}"

    def _tile(self) -> Iterable[str]:
        shape = self._shape
        groups = LANES // self._beside
        for c in range(self._at_once):
            yield f"let key_{c} = group_of_keys + {c * groups};"
            for v in range(self._vectors):
                given = f"batch, min(at + key_{c}, end - 1), {self._along_key(v)}"
                yield f"let key_{c}_{v} = {self._read('right', given)};"
        turns = -(-shape.keys // shape.parts)
        for c in range(turns):
            yield f"let mixed_key_{c} = part + {c * shape.parts};"
            given = f"batch, min(at + mixed_key_{c}, end - 1), lane * {shape.wide}"
            yield f"let value_{c} = {self._read('value', given)};"
        for c in range(self._at_once):
            for r in range(shape.rows):
                total = "0.0"
                for v in range(self._vectors):
                    for query, key in zip(self._fours(f"query_{r}_{v}"), self._fours(f"key_{c}_{v}"), strict=True):
                        total = f"accumulated({total}, {query}, {key})"
                number = f"({r * shape.keys} + key_{c})" if r else f"key_{c}"
                yield f"partial[{number} * {self._beside + 1} + place] = {total};"
        yield "workgroupBarrier();"
        yield from self._scored()
        yield "workgroupBarrier();"
        for r in range(shape.rows):
            yield from self._added(r, turns)

    def _fours(self, name: str) -> Sequence[str]:
        """Vectors of four that a vector with a name is."""
        return (name,) if self._shape.wide == 4 else (f"first_four({name})", f"last_four({name})")

    def _scored(self) -> Iterable[str]:
        """Each score, from the parts that several invocations have of it."""
        shape = self._shape
        one = [f"partial[n * {self._beside + 1} + {p}]" for p in range(self._beside)]
        lines = (
            f"let key = n % {shape.keys};",
            f"let r = n / {shape.keys};",
            f"score_part[n / 4][n % 4] = {LOWEST};",
            f"if (at + key < end && row + r < {self._rows}) {{",
            f"  score_part[n / 4][n % 4] = score(batch, row + r, at + key, {' + '.join(one)});",
            "}",
        )
        yield f"for (var n = index; n < {shape.rows * shape.keys}; n += {LANES}) {{"
        yield from (f"  {line}" for line in lines)
        yield "}"

    def _added(self, r: int, turns: int) -> Iterable[str]:
        """What an invocation has of a row, with the tile's."""
        shape = self._shape
        first, names = r * shape.keys, [f"{name}_{r}" for name in MIXED_OF[shape.wide]]
        yield f"var four_{r} = score_part[{first // 4}];"
        yield f"for (var n = {first // 4 + 1}; n < {(first + shape.keys) // 4}; n++) {{"
        yield f"  four_{r} = max(four_{r}, score_part[n]);"
        yield "}"
        yield f"let two_{r} = max(four_{r}.xy, four_{r}.zw);"
        yield f"let most_{r} = max(max(two_{r}.x, two_{r}.y), highest[{r}]);"
        yield f"let scale_{r} = exp(highest[{r}] - most_{r});"
        yield f"highest[{r}] = most_{r};"
        yield from (f"{name} *= scale_{r};" for name in names)
        yield f"sum_{r} *= scale_{r};"
        for c in range(turns):
            inside = f"at + mixed_key_{c} < end"
            place = f"mixed_key_{c}"
            if (c + 1) * shape.parts > shape.keys:
                inside = f"{place} < {shape.keys} && {inside}"
                place = f"min({place}, {shape.keys - 1})"
            number = f"({first} + {place})" if first else place
            score = f"score_part[{number} / 4][{number} % 4]"
            yield f"let weight_{r}_{c} = select(0.0, exp({score} - most_{r}), {inside});"
            for name, four in zip(names, self._fours(f"value_{c}"), strict=True):
                yield f"{name} = fma(vec4<f32>(weight_{r}_{c}), {four}, {name});"
            yield f"sum_{r} += weight_{r}_{c};"


class DecodingEights(Eights, Decoding):
    """The same of float16 that lie in whole vectors of eight."""

    tile = (1, 1)
    """Nobody asks for lines beyond the last."""

    @property
    def fits(self) -> bool:
        """Whether they do."""
        return all(self.way(factor) == "whole" for factor in (self._left, self._right, self._value))

    def _helpers(self) -> Iterable[str]:
        return (*super()._helpers(), *self.helpers.values(), WIDENED)


def _by_eights(
    text: Text, made: Attended, shape: Shape, width: int, keys: int, caches: Sequence[str]
) -> DecodingEights | None:
    """None where keys, values or queries are something else, or keys so few that half of a tile would be none."""
    product, value = halves_of(made.scores), narrowed(made.value)
    if product is None or value is None or shape.inner % 8 or width % 8:
        return None
    made = dataclasses.replace(made, scores=product, value=value)
    shape = _tiled(dataclasses.replace(shape, fours=1 << (width // 8 - 1).bit_length(), wide=8), keys)
    if shape.keys >= 2 * keys:
        return None
    text = dataclasses.replace(text, accesses={}, written=set(), given={})
    found = DecodingEights(text, made, shape, width, caches)
    return found if found.fits else None
