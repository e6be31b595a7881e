"""The functions of a product whose factors, or the larger one of them, are read eight float16 at once."""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compilers.halves import in_halves
from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.eights import Eights
from tapml.compilers.native.ending import Parts
from tapml.compilers.native.factors import Factor, Factors, extents, last
from tapml.compilers.native.integers import FOURS, Integers, OfIntegers
from tapml.compilers.native.kernel import Text, product
from tapml.compilers.native.product import Hooks
from tapml.compilers.native.stages import loads
from tapml.operators.program import Expression

NUMBERS = """\
// Eight numbers as float16, two to a word.
fn eight_of(low : vec4<f32>, high : vec4<f32>) -> vec4<u32> {
  return vec4<u32>(bitcast<vec2<u32>>(vec4<f16>(low)), bitcast<vec2<u32>>(vec4<f16>(high)));
}
"""
_EIGHT_HALVES = """\
// The eight integers of a word, less {zero}, times a scale. Behind the bits of 1024 (or, four places further up, behind
// those of 64) an integer's are the float16 that is their sum.
fn eight_halves(word : u32, scale : vec2<f16>) -> vec4<u32> {{
  let next = word >> 8u;
{pairs}
  let low = vec2<u32>(bitcast<u32>(vec2<f16>(a.x, b.x)), bitcast<u32>(vec2<f16>(c.x, d.x)));
  let high = vec2<u32>(bitcast<u32>(vec2<f16>(a.y, b.y)), bitcast<u32>(vec2<f16>(c.y, d.y)));
  return vec4<u32>(low, high);
}}
"""
FIRST_BITS = """\
// What float16 holds of numbers, without rounding.
fn first_bits(four : vec4<f32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(four) & vec4<u32>(0xffffe000u));
}
"""


FOUR_WORDS = """\
// Words of integers, and the bits of the scale and the zero point that they share.
struct FourWords { words : vec4<u32>, of_group : vec2<u32> }
"""


def pairs_of_integers(zero: int, scales: Sequence[str]) -> str:
    """Lines that make a, b, c and d of `word` and `next`, that without its lowest two integers: each of two integers,
    four places apart, less the zero point and times one of `scales`."""
    kinds = (("0x000f000fu", "0x64006400u", 1024), ("0x00f000f0u", "0x54005400u", 64))
    words = ("word", "word", "next", "next")
    lines = []
    for name, word, (mask, bits, above), scale in zip("abcd", words, kinds * 2, scales, strict=True):
        pair = f"bitcast<vec2<f16>>(({word} & {mask}) | {bits}) - vec2<f16>({above + zero}.0h)"
        lines.append(f"  let {name} = ({pair}) * {scale};")
    return "\n".join(lines)


class ProductOfHalves(Eights, Hooks):
    """The functions of a product."""

    by_whole_steps = True
    stores_apart = True

    def __init__(self, text: Text, found: Contraction, tile: tuple[int, int] = (0, 0), parts: Parts | None = None):
        self.tile = tile
        super().__init__(text, found, (True, True), parts, four_columns=True)

    @property
    def across(self) -> tuple[bool, bool]:
        """Whether vectors of the left and of the right factor are of lines."""
        return self._left.across, self._right.across

    @property
    def lefts(self) -> int:
        """Of how many float16 a number of the left factor is the sum."""
        return 1 if self._rest is None else 2

    @property
    def made(self) -> tuple[str, ...]:
        """Functions that make each float16 that a number of the right factor is the sum of; "": it is one as it is."""
        return ("",)

    @property
    def eights(self) -> tuple[str, ...]:
        """Where several vectors of the right factor are read at once, the text of each, of what is read."""
        return ()

    @property
    def read_as(self) -> str:
        """The type of what is read of the right factor."""
        return "vec4<u32>"

    @property
    def products(self) -> int:
        """Of float16, for each of the program."""
        return self.lefts + len(self.made) - 1

    @property
    def ways(self) -> dict[str, str]:
        """Of both factors."""
        return {factor.name: self.way(factor) for factor in (self._left, self._right)}


class HalvesOfRight(Eights, Hooks):
    """The functions of a product of which only the right factor is by eights: `left4`, `right8`."""

    def __init__(self, text: Text, found: Contraction) -> None:
        super().__init__(text, found, (False, True), four_columns=None)

    @property
    def runs(self) -> bool:
        """Whether eight numbers of the right factor lie beside each other, and nothing else reads its buffer."""
        run = self._run(self._right)
        return run is not None and self._text.accesses[str(run.load.value)].width in (2, 8)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        left, right = factors
        Factors._bind(self, (left,), *others)
        bound = set(self._text.accesses)
        for load in loads(right.value):
            name = str(load.value)
            self._text.bind(name, 1 if name in bound else self._elements(right, load))

    def _vector(self, factor: Factor, step: int) -> str:
        way = Factors if factor.name == "left" else Eights
        return way._vector(self, factor, step)


class HalvesOfIntegers(OfIntegers, ProductOfHalves):
    """The functions of a product whose right factor is of integers, by eights: `right8` reads what eight numbers are
    made of, or of four words; `right_first` and `right_rest` make them. `fours`: four words are read at once where they
    can be."""

    def __init__(
        self,
        text: Text,
        found: Contraction,
        tile: tuple[int, int] = (0, 0),
        parts: Parts | None = None,
        fours: bool = False,
    ):
        self._wants_fours = fours
        super().__init__(text, found, tile, parts)

    @property
    def eights(self) -> tuple[str, ...]:
        if self.at_once == 1:
            return ()
        words = (
            [f"{{0}}.words.{c}, 0u" for c in "xyzw"] if self.integers.bits == 4 else ["{0}.words.xy", "{0}.words.zw"]
        )
        return tuple(f"vec4<u32>({two}, {{0}}.of_group)" for two in words)

    @property
    def read_as(self) -> str:
        return "FourWords" if self.at_once > 1 else super().read_as

    @property
    def made(self) -> tuple[str, ...]:
        """The functions of the float16 that a number of the right factor is the sum of."""
        exact = self._rest is None or self.integers.scale.kind == "constant"
        return ("right_first",) if exact else ("right_first", "right_rest")

    def way(self, factor: Factor) -> str:
        return "whole" if factor.name == "right" else super().way(factor)

    def _across(self, factor: Factor) -> Factor:
        return factor if factor.name == "right" else super()._across(factor)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        *rest, right = factors
        super()._bind(rest, *others)
        self._bind_words(right)

    def _vector(self, factor: Factor, step: int) -> str:
        if factor.name != "right":
            return super()._vector(factor, step)
        found = self._integers(factor)
        self.helpers |= {"fours": FOURS[found.bits], "eight_of": NUMBERS}
        made = [self._of_integers(factor), self._read(factor, step)]
        scale = "" if found.scale.kind == "constant" else " * bitcast<f32>(read.z)"
        lines = [f"let {name} = {text}{scale};" for name, text in zip(("low", "high"), self._fours(found), strict=True)]
        # A word of the next step is made float16 when this one's products are done: a branch would wait for it.
        self.works = True
        first = rest = ("low", "high")
        if len(self.made) > 1:
            self.helpers["first_bits"] = FIRST_BITS
            first = "first_bits(low)", "first_bits(high)"
            rest = "low - first_bits(low)", "high - first_bits(high)"
            made.append(_function("right_rest", lines, rest))
        else:
            lines = [*self._in_halves(found), *lines]
        made.append(_function("right_first", lines, first))
        return "\n".join(made)

    def _in_halves(self, found: Integers) -> Sequence[str]:
        """Where scales are float16, products with integers are computed in that, two at once: each is the float16 next
        to the product, as it is by way of float32. No lines where that is not known to be so."""
        load = found.load_of_scale
        if found.bits != 4 or not found.zero_is_whole or load is None:
            return ()
        zero = int(found.zero.value or 0)
        self.helpers["eight_halves"] = _EIGHT_HALVES.format(zero=zero, pairs=pairs_of_integers(zero, ["scale"] * 4))
        product = "return eight_halves(read.x, vec2<f16>(f16(bitcast<f32>(read.z))));"
        if found.has_half_scales():
            return [product]
        known, self.helpers["in halves"] = in_halves(self._text.accesses[str(load.value)].name)
        return [f"if ({known}) {{", f"  {product}", "}"]

    @staticmethod
    def _fours(found: Integers) -> Sequence[str]:
        zero = found.constant_or(found.zero, "bitcast<f32>(read.w)")
        second = "high_four(read.x" if found.bits == 4 else "low_four(read.y"
        return f"low_four(read.x, {zero})", f"{second}, {zero})"

    def _read(self, factor: Factor, step: int) -> str:
        found, own, inner = self._integers(factor), self._count(factor.own), self._count(factor.inner)
        whole = product(self._indices, extents(factor.inner)).divisible(step)
        k, width = "k" if whole else "point", self.tile[1]
        inside = own.isdigit() and width and int(own) % width == 0
        lines = [f"let line = {factor.line if inside else f'min({factor.line}, {last(own)})'};"]
        if not whole:
            lines.append(f"let point = min(k, {last(inner)});")
        of_group = ["0u" if found.scale.kind == "constant" else f"bitcast<u32>(right_scale(batch, line, {k}))"]
        of_group.append("0u" if found.zero.kind == "constant" else f"bitcast<u32>(right_zero(batch, line, {k}))")
        if self.at_once > 1:
            self.helpers["four words"] = FOUR_WORDS
            words = f"right_words(batch, line, {k} / {4 * found.each})"
            lines.append(f"return FourWords({words}, vec2<u32>({', '.join(of_group)}));")
        else:
            given = [f"right_word(batch, line, {k} / {found.each})"]
            more = f"{k} / {found.each} + 1"
            more = more if whole else f"min({more}, {last(self._words(factor))})"
            given.append(f"right_word(batch, line, {more})" if found.bits == 8 else "0u")
            lines.append(f"return vec4<u32>({', '.join([*given, *of_group])});")
        head = self._head(factor).replace("-> vec4<u32>", f"-> {self.read_as}")
        return "\n".join([head, *(f"  {line}" for line in lines), "}\n"])


def _function(name: str, lines: Sequence[str], halves: tuple[str, str]) -> str:
    return "\n".join(
        [
            f"fn {name}(read : vec4<u32>) -> vec4<u32> {{",
            *(f"  {line}" for line in lines),
            f"  return eight_of({', '.join(halves)});",
            "}\n",
        ]
    )
