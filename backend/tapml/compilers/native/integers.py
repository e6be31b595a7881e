"""Factors of products that are small integers in words, less a zero point, times a scale (docs/quantise.md): told from
what a program computes, and read a word at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.factors import Factor, Factors, last
from tapml.compilers.native.kernel import Text, product
from tapml.compilers.native.polynomials import Indices, Polynomial
from tapml.compilers.native.product import Hooks
from tapml.compilers.native.stages import Index, loads, parts, rewritten, variables_of
from tapml.compilers.native.words import bare
from tapml.operators.program import FLOATS, Expression

_WORD = 32

# The bits of an integer below 2^23 behind those of 2^23 are the float32 that is their sum. An integer that stands
# further up in its word comes out as many times as large: so it is brought down, before the zero point is taken off.
_FOUR_OF_EIGHT = """\
// The first four integers of a word of eight, less a zero point.
fn low_four(word : u32, zero : f32) -> vec4<f32> {
  let bits = (vec4<u32>(word) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
  let above = vec4<f32>(8388608.0, 524288.0, 32768.0, 2048.0) + vec4<f32>(zero);
  return fma(bitcast<vec4<f32>>(bits), vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625), -above);
}

fn high_four(word : u32, zero : f32) -> vec4<f32> {
  return low_four(word >> 16u, zero);
}
"""
_FOUR_OF_FOUR = """\
// The four integers of a word, less a zero point.
fn low_four(word : u32, zero : f32) -> vec4<f32> {
  let high = word >> 16u;
  let places = vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u);
  let bits = (vec4<u32>(word, word, high, high) & places) | vec4<u32>(0x4b000000u);
  let above = vec4<f32>(8388608.0, 32768.0, 8388608.0, 32768.0) + vec4<f32>(zero);
  return fma(bitcast<vec4<f32>>(bits), vec4<f32>(1.0, 0.00390625, 1.0, 0.00390625), -above);
}
"""
FOURS = {4: _FOUR_OF_EIGHT, 8: _FOUR_OF_FOUR}
"""Functions of a word's integers as float32, by their bits."""

# The same, two at a time: behind the bits of the float16 that is 1024 an integer of up to ten bits is added to it, and
# behind those of 64 one that stands four bits further up. All of that is exact on every device.
_BY_TWOS = """\
// Of a word of eight integers the first and the fifth, less a zero point.
fn even_two(word : u32, zero : f32) -> vec2<f32> {
  return EVEN;
}

// The second and the sixth.
fn odd_two(word : u32, zero : f32) -> vec2<f32> {
  return ODD;
}

// The first four.
fn low_four(word : u32, zero : f32) -> vec4<f32> {
  let even = vec2<f32>(even_two(word, zero).x, even_two(word >> 8u, zero).x);
  let odd = vec2<f32>(odd_two(word, zero).x, odd_two(word >> 8u, zero).x);
  return vec4<f32>(even.x, odd.x, even.y, odd.y);
}

// The last four.
fn high_four(word : u32, zero : f32) -> vec4<f32> {
  let even = vec2<f32>(even_two(word, zero).y, even_two(word >> 8u, zero).y);
  let odd = vec2<f32>(odd_two(word, zero).y, odd_two(word >> 8u, zero).y);
  return vec4<f32>(even.x, odd.x, even.y, odd.y);
}
"""
_EVEN, _ODD = "(word & 0x000f000fu) | 0x64006400u", "(word & 0x00f000f0u) | 0x54005400u"
FOURS_BY_TWOS = _BY_TWOS.replace("EVEN", f"unpack2x16float({_EVEN}) - vec2<f32>(1024.0 + zero)").replace(
    "ODD", f"unpack2x16float({_ODD}) - vec2<f32>(64.0 + zero)"
)
"""The same functions of eight, for `Integers.zero_is_whole`: faster where four words are read at once."""
FOURS_BY_HALVES = _BY_TWOS.replace(
    "EVEN", f"vec2<f32>(vec2<f16>(unpack2x16float({_EVEN})) - vec2<f16>(f16(1024.0 + zero)))"
).replace("ODD", f"vec2<f32>(vec2<f16>(unpack2x16float({_ODD})) - vec2<f16>(f16(64.0 + zero)))")
"""The same where a kernel has float16 anyway: a GPU takes both numbers less the zero point at once. (Firefox takes the
`bitcast` of a word to two float16 for one to float32.)"""


@dataclass(frozen=True)
class Integers:
    """A factor that is `(integer - zero) * scale`, of integers of `bits`, the first in the lowest of a word. `words`
    loads them; `variable`: along which they follow each other."""

    codes: Expression
    """The integers, as float32."""
    words: Expression
    bits: int
    zero: Expression
    scale: Expression
    variable: str
    group: int | None
    """How many of them share scale and zero point: all but the last of a line a multiple of eight. None: all of a
    line."""

    @property
    def each(self) -> int:
        """Integers of a word."""
        return _WORD // self.bits

    def constant_or(self, value: Expression, text: str) -> str:
        """The text of a scale or zero point: that of a constant, or `text`."""
        return repr(float(value.value or 0)) if value.kind == "constant" else text

    @property
    def zero_is_whole(self) -> bool:
        """Whether the zero point is one integer, of as many bits as the others."""
        zero = float(self.zero.value or 0) if self.zero.kind == "constant" else -1.0
        return zero.is_integer() and 0 <= zero < 2**self.bits

    @property
    def load_of_scale(self) -> Expression | None:
        """What a scale is but for casts; None where it is no load."""
        found = self.scale
        while found.kind == "cast":
            (found,) = found.operands
        return found if found.kind == "load" else None

    def has_half_scales(self, stored: Collection[str] = ()) -> bool:
        """Whether scales are of float16: in the program, or in memory, where `stored` has their buffer."""
        load = self.load_of_scale
        half = any(part.dtype == "float16" for part in parts(self.scale))
        return load is not None and (half or str(load.value) in stored)

    @property
    def by_lines(self) -> bool:
        """Whether a line has one scale and one zero point."""
        return self.group is None


def integers_of(indices: Indices, buffers: Any, value: Expression, inner: Sequence[Index]) -> Integers | None:
    """What a factor is, where it is of integers that follow each other along the one inner axis, and the eight from
    each multiple of eight on share scale and zero point. None for all others."""
    if len(inner) != 1 or value.dtype not in FLOATS:
        return None
    (axis,) = inner
    while value.kind == "cast" and value.operands[0].dtype in FLOATS:
        (value,) = value.operands
    one = Expression("constant", value.dtype, (), 1.0)
    pairs = (value.operands, value.operands[::-1]) if value.kind == "mul" else ((value, one),)
    for codes, scale in pairs:
        zero = Expression("constant", codes.dtype, (), 0.0)
        if codes.kind == "sub":
            codes, zero = codes.operands
        found = codes_of(indices, buffers, codes, axis.variable)
        groups = [_groups(indices, buffers, part, axis.variable) for part in (scale, zero)]
        if found is not None and None not in groups:
            known = {group for part in groups if part is not None for group in part}
            group = math.gcd(*known) if known else None
            return Integers(codes, *found, zero, scale, axis.variable, group)
    return None


def codes_of(indices: Indices, buffers: Any, value: Expression, variable: str) -> tuple[Expression, int] | None:
    """The load of the words whose integers these are, and their bits."""
    if value.kind != "cast" or value.operands[0].kind != "bitwise_and":
        return None
    shifted, mask = value.operands[0].operands
    bits = {15: 4, 255: 8}.get(int(mask.value or 0)) if mask.kind == "constant" else None
    if bits is None or shifted.kind != "shift_right":
        return None
    load, by = shifted.operands
    by = by.operands[0] if by.kind == "cast" else by
    if load.kind != "load" or load.dtype != "uint32":
        return None
    each = _WORD // bits
    place = indices.flat(load.operands, buffers[str(load.value)].shape)
    word, shift = divided(variable, "floordiv", each), divided(variable, "floormod", each)
    known = place - indices(word), indices(by) - indices(Expression("mul", "int64", (shift, _integer(bits))))
    if indices.depends(known[0], variable) or known[1].terms:
        return None
    return load, bits


def _groups(indices: Indices, buffers: Any, value: Expression, variable: str) -> set[int] | None:
    """How many numbers along a variable share each of the loads of a value, where they do not share all; each a
    multiple of eight. None for a value that is another number for each of eight."""
    places = [indices.flat(load.operands, buffers[str(load.value)].shape) for load in loads(value)]
    elsewhere = rewritten(value, lambda part: replace(part, operands=()) if part.kind == "load" else None)
    if variable in variables_of(elsewhere):
        return None
    found: set[int] = set()
    for atom in {atom for place in places for atom in place.atoms()}:
        part = indices.opaque[atom] if isinstance(atom, int) else None
        if part is None and atom != variable:
            continue
        if part is not None and variable not in variables_of(part):
            continue
        divisor = indices(part.operands[1]).constant if part is not None and part.kind == "floordiv" else None
        if part is None or divisor is None or divisor % 8 or indices(part.operands[0]).terms != {(variable,): 1}:
            return None
        found.add(divisor)
    return found


def divided(variable: str, kind: str, by: int) -> Expression:
    return Expression(kind, "int64", (Expression("variable", "int64", (), variable), _integer(by)))


def _integer(value: int) -> Expression:
    return Expression("constant", "int64", (), value)


class OfWords(Factors):
    """What factors in words have in common, each of several integers that follow each other along the inner axis."""

    def _of_words(
        self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]
    ) -> Factor:
        """Words are told by the inner axis as it is."""
        (merged,), (batch, own_axes) = self._merged([value], [self._batch, own])
        return Factor(name, line, merged, batch, own_axes, list(inner))

    def _words_before(self, words: Expression, variable: str, each: int) -> Polynomial:
        """Where a line begins, in words, which have `each` integers along the variable: `words` loads them."""
        return self._place(words) - self._indices(divided(variable, "floordiv", each))


class OfIntegers(OfWords):
    """Writes the functions of a right factor that is of integers: `right_word`, of the number of a word in its line
    (or `right_words`, of four words), `right_scale` and `right_zero`, of a point of the inner axis."""

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        made = self._of_words if name == "right" else super()._factor
        return made(name, line, value, own, inner)

    _right: Factor
    _wants_fours = False
    """Whether four words are read at once where they can be."""

    def _integers(self, factor: Factor) -> Integers:
        found = integers_of(self._indices, self._buffers, factor.value, factor.inner)
        assert found is not None
        return found

    def _words(self, factor: Factor) -> str:
        """How many words a line has."""
        each, inner = self._integers(factor).each, self._count(factor.inner)
        return str(-(-int(inner) // each)) if inner.isdigit() else f"({inner} + {each - 1}) / {each}"

    @property
    def integers(self) -> Integers:
        return self._integers(self._right)

    @property
    def by_four_words(self) -> bool:
        """Whether four words beside each other can be read at once, and share scale and zero point."""
        found, words = self.integers, self._words(self._right)
        if not words.isdigit() or int(words) % 4 or (found.group or 0) % (4 * found.each):
            return False
        whole = product(self._indices, self._buffers[str(found.words.value)].shape)
        return whole.divisible(4) and self._before_words(self._right).divisible(4)

    @property
    def at_once(self) -> int:
        """Words that are read at once."""
        return 4 if self._wants_fours and self.by_four_words else 1

    def _before_words(self, factor: Factor) -> Polynomial:
        """Where a line begins, in words."""
        found, (axis,) = self._integers(factor), factor.inner
        return self._words_before(found.words, axis.variable, found.each)

    def _bind_words(self, factor: Factor) -> None:
        """What its functions read, one by one, or four words at once."""
        read = {str(load.value) for load in loads(factor.value)}
        words = str(self._integers(factor).words.value)
        for name in self._buffers:
            if name in read:
                self._text.bind(name, self.at_once if name == words else 1)

    def _of_integers(self, factor: Factor) -> str:
        found = self._integers(factor)
        fours = self._text.accesses[str(found.words.value)].width == 4
        kind = ("words", "four : i32", "vec4<u32>") if fours else ("word", "word : i32", "u32")
        made = [self._of_point(factor, *kind, found.words)]
        for name, value in (("scale", found.scale), ("zero", found.zero)):
            if value.kind != "constant":
                made.append(self._of_point(factor, name, "k : i32", "f32", value))
        return "\n".join(made)

    def _of_point(self, factor: Factor, name: str, argument: str, kind: str, value: Expression) -> str:
        writer = self._writer()
        writer.lines.append(f"fn {factor.name}_{name}(batch : i32, {factor.line} : i32, {argument}) -> {kind} {{")
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, factor.line)
        if value is self._integers(factor).words:
            access = self._text.accesses[str(value.value)]
            number = argument.split()[0]
            begin = bare(writer.polynomial(self._before_words(factor).divided(access.width)))
            text = f"{access.name}[{number if begin == '0' else f'{begin} + {number}'}]"
        else:
            self._decoded(writer, factor.inner, "k")
            text = bare(writer.value(value))
            text = text if value.dtype == "float32" else f"f32({text})"
        writer.line(f"return {text};")
        writer.lines.append("}\n")
        return self._ended(writer)


class ProductOfIntegers(OfIntegers, Hooks):
    """The functions of a product whose right factor is of integers: `left4`, `right_word` and so on. `fours`: four
    words are read at once where they can be, by `right_words`."""

    def __init__(self, text: Text, found: Contraction, four_columns: bool, fours: bool = False) -> None:
        self._wants_fours = fours
        super().__init__(text, found, four_columns=four_columns)

    @property
    def words(self) -> str:
        """How many words a line has."""
        return self._words(self._right)

    @property
    def fours(self) -> str:
        """The functions that make numbers of a word's integers."""
        if self.at_once == 1 or self.integers.bits != 4 or not self.integers.zero_is_whole:
            return FOURS[self.integers.bits]
        halves = any(buffer.dtype == "float16" for buffer in self._buffers.values())
        return FOURS_BY_HALVES if halves else FOURS_BY_TWOS

    @property
    def last_column(self) -> str:
        return last(self._count(self._found.columns))

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        left, right = factors
        super()._bind((left,), *others)
        self._bind_words(right)

    def _vector(self, factor: Factor, step: int) -> str:
        return self._of_integers(factor) if factor.name == "right" else super()._vector(factor, step)


def with_integers(found: Contraction, indices: Indices, buffers: Any) -> Integers | None:
    """Of a product's right factor."""
    return integers_of(indices, buffers, found.right, found.inner)
