"""Words of eight 4-bit integers, which follow each other along the inner axis of a product, written by a dispatch
before it as words of eight columns at one point of that axis, and their scales with columns beside each other, too.

A product by subgroup matrices that reads them so takes as long as one of float16: an invocation makes four points of
eight columns from two vectors, one of them the scales that all of these share, and what it makes goes to workgroup
memory in the order in which matrices are loaded fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native.blocks import BLOCKS, fits
from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.ending import Parts
from tapml.compilers.native.factors import Factor, extents, last
from tapml.compilers.native.halves import ProductOfHalves, pairs_of_integers
from tapml.compilers.native.integers import Integers, OfIntegers, divided
from tapml.compilers.native.kernel import Found, Launch, Text, grid_of, product, times
from tapml.compilers.native.packed import MOST_BYTES
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, arguments_of
from tapml.compilers.native.stages import Index, variable
from tapml.compilers.native.words import bare
from tapml.operators.program import Buffer, Expression, integer

EACH = 8
"""Integers of a word."""

TOGETHER = 4
"""Words that are read at once: points of the inner axis."""

BLOCKS_OF_TURNED = tuple(
    blocks for blocks in BLOCKS if fits(blocks.width, blocks.depth // TOGETHER, blocks.invocations, across=True)
)
"""Those of which all invocations bring equally many."""

_BESIDE = 16
"""Words along the inner axis, and eights of columns, that a workgroup has: what it reads and writes are whole sectors
of memory."""

_OF_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column of each integer of a word: two at a time are masked out of it, which are beside each other then."""

_SWAPPED = """\
// Of two words the parts that `mask` says, and those `by` bits above them.
fn swapped(a : u32, b : u32, by : u32, mask : u32) -> vec2<u32> {
  return vec2<u32>((a & mask) | ((b & mask) << by), ((a >> by) & mask) | (b & ~mask));
}
"""
_EIGHT_COLUMNS = """\
// Words of eight columns' integers at four points of the inner axis, and the scales that these share, as float16.
struct EightColumns { words : vec4<u32>, scales : vec4<u32> }
"""
_MADE = """\
// The eight integers of a word, less {zero}, times their scales. Behind the bits of 1024 (or, four places further up,
// behind those of 64) an integer's are the float16 that is their sum.
fn right_first(word : u32, scales : vec4<u32>) -> vec4<u32> {{
  let next = word >> 8u;
{pairs}
  return vec4<u32>(bitcast<vec2<u32>>(vec4<f16>(a, b)), bitcast<vec2<u32>>(vec4<f16>(c, d)));
}}
"""

_VISIT, _TURNED, _DISPATCH = 0.15, 0.3, 2e6
"""Picoseconds on an H200: what a number gains each time a workgroup reads it, what turning it takes, and the dispatch
that does: a product of 512 x 4096 x 4096 takes 62.3 us in place of 72.4, the dispatch before it 7.0. (Of packed.py's
8 us for a dispatch, the most is recording it, which a GPU that has 60 us to do does not wait for.)"""


def turning_pays(rows: int, columns: int, inner: int, height: int) -> bool:
    """Whether it is estimated to. `height`: rows of a workgroup."""
    elements = columns * inner
    return elements * -(-rows // height) * _VISIT > elements * _TURNED + _DISPATCH


@dataclass(frozen=True)
class Turned:
    """The temporaries' names, and of what integers they are made."""

    words: str
    scales: str
    of: Integers
    group: int
    """How many points of the inner axis share a scale."""


def turned(
    found: Found, made: Contraction, indices: Indices, integers: Integers
) -> tuple[Launch, Found, Contraction, Turned] | None:
    """The dispatch that turns the words of the right factor, and what is left of the product after it. None where not
    all of it is whole words of 4-bit integers with scales of float16 and one zero point, in the same places for all
    batches."""
    inner, columns = made.inner[0].extent, times(*extents(made.columns))
    if integers.bits != 4 or not integers.zero_is_whole or not integers.has_half_scales(found.stored):
        return None
    if made.batch or not isinstance(inner, int) or not isinstance(columns, int) or inner % EACH or columns % EACH:
        return None
    if columns * inner // 2 > MOST_BYTES:
        return None
    group = integers.group or inner
    names = Turned(f"words of {found.entry_point}", f"scales of {found.entry_point}", integers, group)
    shape = -(-inner // group), columns
    buffers = (
        Buffer(names.words, "uint32", (inner // TOGETHER, columns // EACH, TOGETHER)),
        Buffer(names.scales, "float16", shape),
    )
    program = replace(found.program, temporaries=(*found.program.temporaries, *buffers))
    with_buffers = replace(found, program=program)
    launch = _Turning(Text(with_buffers, found.entry_point, indices.copy(), _OWN_NAMES), made, names).dispatch()
    rest = replace(with_buffers, part=found.part + 1)
    return launch, rest, replace(made, right=_number(made, names)), names


def _number(made: Contraction, names: Turned) -> Expression:
    """The factor, of what lies in the temporaries."""
    column = integer(0)
    for axis in made.columns:
        behind = Expression("mul", "int64", (column, integer(axis.extent)))
        column = Expression("add", "int64", (behind, variable(axis.variable)))
    k = made.inner[0].variable

    def of_column(kind: str, by: int, value: Expression = column) -> Expression:
        return Expression(kind, "int64", (value, integer(by)))

    place = divided(k, "floordiv", TOGETHER), of_column("floordiv", EACH), divided(k, "floormod", TOGETHER)
    word = Expression("load", "uint32", place, names.words)
    in_eight = of_column("floormod", EACH)
    odd = Expression("mul", "int64", (of_column("floormod", 2, in_eight), integer(4)))
    shift = Expression("add", "int64", (of_column("floordiv", 2, in_eight), odd))
    bits = Expression("cast", "uint32", (Expression("mul", "int64", (shift, integer(4))),))
    masked = Expression(
        "bitwise_and", "uint32", (Expression("shift_right", "uint32", (word, bits)), integer(15, "uint32"))
    )
    zero = Expression("constant", "float16", (), float(names.of.zero.value or 0))
    codes = Expression("sub", "float16", (Expression("cast", "float16", (masked,)), zero))
    scale = Expression("load", "float16", (divided(k, "floordiv", names.group), column), names.scales)
    return Expression("mul", "float16", (codes, scale))


_OWN_NAMES = (*OWN_NAMES, "swapped")


class _Turning(OfIntegers):
    """The text of the dispatch."""

    def __init__(self, text: Text, made: Contraction, names: Turned) -> None:
        super().__init__(text, ())
        self._names = names
        self._right = self._factor("right", "column", made.right, made.columns, made.inner)
        self._bind_words(self._right)
        for name in (names.words, names.scales):
            text.bind(name, 4, write=True)

    def dispatch(self) -> Launch:
        factor, group = self._right, self._names.group
        words, columns = int(self._words(factor)), int(self._count(factor.own))
        eights, beside = columns // EACH, -(-words // _BESIDE)
        workgroups = beside * -(-eights // _BESIDE)
        grid, number = grid_of(workgroups, workgroups)
        text = self._text
        into = [text.accesses[name].name for name in (self._names.words, self._names.scales)]
        functions = self._of_integers(factor)
        writer = text.writer()
        writer.symbols.update(self.symbols)
        writer.line(f"let place = i32({bare(number)});")
        writer.line(f"let word = place % {beside} * {_BESIDE} + i32(number) % {_BESIDE};")
        writer.line(f"let eight = place / {beside} * {_BESIDE} + i32(number) / {_BESIDE};")
        if words % _BESIDE or eights % _BESIDE or "groups" in number:
            with writer.block(f"if (word >= {words} || eight >= {eights}) {{"):
                writer.line("return;")
        writer.line(f"let column = eight * {EACH};")
        for column in range(EACH):
            writer.line(f"let c{column} = right_word(0, {_plus('column', column)}, word);")
        writer.line("// Words of columns become words of points: four integers are swapped, then two, then one.")
        rows = [f"c{column}" for column in _OF_COLUMNS]
        for turn, (by, mask) in enumerate(((4, 0x0000FFFF), (2, 0x00FF00FF), (1, 0x0F0F0F0F))):
            for row in range(EACH):
                if row & by:
                    continue
                pair = f"s{turn}_{row}"
                writer.line(f"let {pair} = swapped({rows[row]}, {rows[row + by]}, {4 * by}u, 0x{mask:08x}u);")
                rows[row], rows[row + by] = f"{pair}.x", f"{pair}.y"
        per_word = EACH // TOGETHER
        for half in range(per_word):
            at = f"({_plus(f'word * {per_word}', half)}) * {eights} + eight"
            made = ", ".join(rows[half * TOGETHER : (half + 1) * TOGETHER])
            writer.line(f"{into[0]}[{at}] = vec4<u32>({made});")
        with writer.block(f"if (word % {group // EACH} == 0) {{"):
            for column in range(EACH):
                writer.line(f"let scale_{column} = f16(right_scale(0, {_plus('column', column)}, word * {EACH}));")
            writer.line(f"let first = (word / {group // EACH} * {eights} + eight) * 2;")
            for half in range(2):
                four = ", ".join(f"scale_{4 * half + n}" for n in range(4))
                writer.line(f"{into[1]}[{_plus('first', half)}] = vec4<f16>({four});")
        text.declarations = ["", functions, _SWAPPED]
        comment = (
            "An invocation turns eight words, of eight integers along the inner axis each, into eight words of as\n"
            "many columns, and writes the scales of these columns beside each other."
        )
        return text.launch(writer, comment, arguments_of(number), _BESIDE**2, grid)


def _plus(text: str, number: int) -> str:
    return f"{text} + {number}" if number else text


class HalvesOfTurned(ProductOfHalves):
    """The functions of a product whose right factor is of words that are turned: `right8` reads four of them and their
    scales, `right_first` makes eight numbers of float16 of each."""

    made = ("right_first",)
    read_as = "EightColumns"
    eights = tuple(f"{{0}}.words.{c}, {{0}}.scales" for c in "xyzw")

    def __init__(
        self, text: Text, found: Contraction, names: Turned, tile: tuple[int, int] = (0, 0), parts: Parts | None = None
    ) -> None:
        self._names = names
        super().__init__(text, found, tile, parts)

    def way(self, factor: Factor) -> str:
        return "whole" if factor.name == "right" else super().way(factor)

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        if name != "right":
            return super()._factor(name, line, value, own, inner)
        return Factor(name, line, value, self._batch, own, inner, across=True)

    def _across(self, factor: Factor) -> Factor:
        return factor if factor.name == "right" else super()._across(factor)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        super()._bind(factors[:-1], *others)
        self._text.bind(self._names.words, 4)
        self._text.bind(self._names.scales, EACH)

    def _vector(self, factor: Factor, step: int) -> str:
        if factor.name != "right":
            return super()._vector(factor, step)
        zero = int(self._names.of.zero.value or 0)
        made = _MADE.format(
            zero=zero, pairs=pairs_of_integers(zero, [f"bitcast<vec2<f16>>(scales.{c})" for c in "xyzw"])
        )
        self.helpers |= {"eight columns": _EIGHT_COLUMNS, "made": made}
        own, inner = self._count(factor.own), self._count(factor.inner)
        words, scales = (self._text.accesses[name].name for name in (self._names.words, self._names.scales))
        whole = product(self._indices, extents(factor.inner)).divisible(step)
        inside = self.tile[1] and int(own) % self.tile[1] == 0
        column = "column" if inside else f"min(column, {last(own, EACH)})"
        lines = [f"let eight = {column} / {EACH};"]
        if not whole:
            lines.append(f"let point = min(k, {last(inner, TOGETHER)});")
        k, eights = "k" if whole else "point", int(own) // EACH
        at = f"{k} / {TOGETHER} * {eights} + eight", f"{k} / {self._names.group} * {eights} + eight"
        lines.append(f"return {self.read_as}({words}[{at[0]}], {scales}[{at[1]}]);")
        head = self._head(factor).replace("-> vec4<u32>", f"-> {self.read_as}")
        return "\n".join([head, *(f"  {line}" for line in lines), "}\n"])
