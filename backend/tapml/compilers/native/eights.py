"""The factors of a product as float16, eight at once: what subgroup matrices are made of.

A vector of eight is a `vec4<u32>`, two numbers a word: eight points along the inner axis, or, where a factor lies in
memory across it, eight lines (rows or columns) at one point of it. Lines beyond the last are read as another one,
points beyond the end of the inner axis are 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.factors import Factor, Factors, extents, last
from tapml.compilers.native.kernel import product
from tapml.compilers.native.names import Names
from tapml.compilers.native.stages import loads, variables_of
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare, tight
from tapml.operators.program import Expression

HALVED = """\
// Eight numbers of five words: without the first number where `past` is odd.
fn halved(words : vec4<u32>, more : u32, past : u32) -> vec4<u32> {
  let turned = (words >> vec4<u32>(16u)) | (vec4<u32>(words.yzw, more) << vec4<u32>(16u));
  return select(words, turned, (past & 1u) != 0u);
}
"""
FIRST_OF = """\
// The first `count` of eight numbers, and 0 for the others.
fn first_of(found : vec4<u32>, count : i32) -> vec4<u32> {
  let left = vec4<i32>(count) - vec4<i32>(0, 2, 4, 6);
  let one = select(vec4<u32>(), found & vec4<u32>(0xffffu), left > vec4<i32>(0));
  return select(one, found, left > vec4<i32>(1));
}
"""


def halves_of(found: Contraction) -> Contraction | None:
    """The product with factors in float16; None where one of them is a float32 that is no float16."""
    factors = [narrowed(factor) for factor in (found.left, found.right)]
    if factors[0] is None or factors[1] is None:
        return None
    return dataclasses.replace(found, left=factors[0], right=factors[1])


def narrowed(factor: Expression) -> Expression | None:
    """A factor in float16; None for a float32 that is no float16."""
    while factor.kind == "cast" and factor.dtype == "float32":
        factor = factor.operands[0]
    return factor if factor.dtype == "float16" else None


@dataclass(frozen=True)
class _Run:
    """Eight numbers of a factor that lie beside each other in a buffer: all of them `load`, or 0 where `condition` is
    not given."""

    load: Expression
    condition: Expression | None
    lane: str
    aligned: bool
    """Whether they are a vector of the buffer."""
    ends: bool
    """Whether some of the eight may lie beyond the end of the inner axis."""


class Eights(Factors):
    """Writes functions of factors into a kernel's text: `left8` where others have `left4`."""

    by_whole_steps = False
    """Whether the template has another way for the last step."""
    tile: tuple[int, int] = (0, 0)
    """Rows and columns of a workgroup: where they divide those of the product, nobody asks for lines beyond.
    """

    def __init__(self, *given: object, **named: object) -> None:
        self.helpers: dict[str, str] = {}
        """Functions that those of the factors call."""
        self.works = False
        """Whether a function of a factor does something with what it has read, so that it waits for it."""
        self.whole: set[str] = set()
        """Factors that have a second function, of steps that are whole: `left8_whole`."""
        super().__init__(*given, **named)  # type: ignore[arg-type]

    def _across(self, factor: Factor) -> Factor:
        """With vectors of lines, where those that follow each other lie beside each other in memory."""
        places = [self._place(load) for load in loads(factor.value)]
        across = any(self._step(place, factor.own) == 1 for place in places)
        along = any(self._step(place, factor.inner) == 1 for place in places)
        if across and along:  # an image: along the inner axis there are as many as the kernel is wide
            width = factor.inner[-1].extent
            along = not isinstance(width, int) or width >= 8
        return dataclasses.replace(factor, across=across and not along)

    def way(self, factor: Factor) -> str:
        """How its vectors are read: "whole", "shifted", of two "fours" or of "ones"."""
        run = self._run(factor)
        if run is not None and self._text.accesses[str(run.load.value)].width in (2, 8):
            return "whole" if run.aligned else "shifted"
        fours = all(self._text.accesses[str(load.value)].width == 4 for load in loads(factor.value))
        return "fours" if fours and factor.lane is not None else "ones"

    def _run(self, factor: Factor) -> _Run | None:
        load, condition = factor.value, None
        if load.kind == "if_then_else" and _is_zero(load.operands[2]):
            condition, load = load.operands[:2]
        axes = factor.own if factor.across else factor.inner
        if load.kind != "load" or not axes:
            return None
        lane = axes[-1].variable
        place = self._place(load)
        step, rest = place.coefficient(lane), place.without(lane)
        if step is None or step.constant != 1 or self._indices.depends(rest, lane):
            return None
        if condition is not None and lane in variables_of(condition):
            return None
        buffer = str(load.value)
        padded = buffer in self._text.found.padded
        whole = isinstance(axes[-1].extent, int) and axes[-1].extent % 8 == 0
        if not whole and len(axes) > 1:
            return None
        count = product(self._indices, self._buffers[buffer].shape)
        aligned = rest.divisible(8) and count.divisible(8) and (whole or padded)
        return _Run(load, condition, lane, aligned, not (whole or padded or factor.across))

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        """All buffers: by eights those that are only ever read so, by words those that are read so from any number on,
        by fours those that are in whole vectors."""
        width: dict[str, int] = {str(load.value): 1 for load in loads(*others)}
        for factor in factors:
            for load in loads(factor.value):
                name = str(load.value)
                width[name] = min(width.get(name, 8), self._elements(factor, load))
        for name in self._buffers:
            if name in width:
                self._text.bind(name, width[name])

    def _elements(self, factor: Factor, load: Expression) -> int:
        """How many elements of a buffer a vector has beside each other, as one number of the buffer's."""
        count = product(self._indices, self._buffers[str(load.value)].shape)
        if (run := self._run(factor)) is not None:
            return 8 if run.aligned else 2
        place = self._place(load)
        if factor.lane is None or not count.divisible(4):
            return 1
        return 4 if Writer(self._indices, {}, Names(), factor.lane).in_a_row(place) else 1

    def _vector(self, factor: Factor, step: int) -> str:
        """The function of eight; with one of four or of a single number before it, where it needs that."""
        run = self._run(factor)
        if run is not None and self._text.accesses[str(run.load.value)].width in (2, 8):
            if not self.by_whole_steps or not run.aligned or run.condition or self._divides(factor, step):
                return self._of_run(factor, run, self._divides(factor, step))
            # In whole steps nothing is beyond the end of the inner axis.
            self.whole.add(factor.name)
            works, both = self.works, [self._of_run(factor, run, True), self._of_run(factor, run, False)]
            self.works = works
            return "\n".join(both)
        size = product(self._indices, extents(factor.inner))
        inner = self._count(factor.inner)
        ended = [] if size.divisible(step) else [f"if (k >= {inner}) {{", "  return vec4<u32>();", "}"]
        head = self._head(factor)
        own = self._count(factor.own)
        if factor.lane is not None:
            return self._of_fours(factor, head, ended, own, inner)
        return self._of_ones(factor, head, ended, own, inner)

    def _divides(self, factor: Factor, step: int) -> bool:
        """Whether steps of that length make up the inner axis, with the zeros behind it."""
        padded = any(str(load.value) in self._text.found.padded for load in loads(factor.value))
        return product(self._indices, extents(factor.inner)).divisible(step) or (padded and not factor.across)

    @staticmethod
    def _head(factor: Factor, suffix: str = "") -> str:
        return f"fn {factor.name}8{suffix}(batch : i32, {factor.line} : i32, k : i32) -> vec4<u32> {{"

    def _of_run(self, factor: Factor, run: _Run, whole: bool) -> str:
        """`whole`: whether nobody asks for what is beyond the end of the inner axis."""
        writer = self._writer(run.lane)
        access = self._text.accesses[str(run.load.value)]
        writer.lines.append(self._head(factor, "_whole" if whole and factor.name in self.whole else ""))
        own, inner = self._count(factor.own), self._count(factor.inner)
        tile = self.tile[factor.name == "right"]
        line, k, given = factor.line, "k", []
        if not (own.isdigit() and tile and int(own) % tile == 0):
            if not factor.across:
                end = last(own)
            else:
                end = str((int(own) - 1) // 8 * 8) if own.isdigit() else f"({own} - 1) / 8 * 8"
            line = f"min({line}, {end})"
        if not whole:
            k = f"min(k, {last(inner, 1 if run.ends or factor.across else 8)})"
            given = [] if run.ends else [f"(k < {inner})"]
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, line)
        self._decoded(writer, factor.inner, k)
        if run.condition is not None:
            given.append(tight(writer.value(run.condition)))
        if given:
            writer.line(f"let chosen = {' & '.join(given)};")
        place = self._place(run.load)
        if run.aligned and access.width == 8:
            begin = bare(writer.polynomial(place.without(run.lane).divided(8)))
            lane = f"{tight(writer.variables[run.lane])} / 8"
            at = lane if begin == "0" else f"{begin} + {lane}"
            at = f"select(0, {at}, chosen)" if run.condition is not None else at
            found = f"{access.name}[{at}]"
        else:
            at = bare(writer.polynomial(place))
            at = f"select(0, {at}, chosen)" if run.condition is not None else at
            writer.line(f"let first = u32({at});")
            self.helpers["halved"] = HALVED
            writer.line("let word = first / 2u;")
            words = (f"{access.name}[word{f' + {n}u' if n else ''}]" for n in range(4))
            writer.line(f"let words = vec4<u32>({', '.join(words)});")
            found = f"halved(words, {access.name}[word + 4u], first)"
        if run.ends and not whole:
            self.helpers["first_of"] = FIRST_OF
            found = f"first_of({found}, {inner} - k)"
        if given:
            found = f"select(vec4<u32>(), {found}, chosen)"
        self.works |= found != f"{access.name}[{at}]"
        writer.line(f"return {found};")
        writer.lines.append("}\n")
        return self._ended(writer)

    def _of_fours(self, factor: Factor, head: str, ended: Sequence[str], own: str, inner: str) -> str:
        """Of two vectors of four, each of which lies in one row of the last of its axes."""
        writer = self._writer(factor.lane)
        writer.lines.append(f"fn {factor.name}4(batch : i32, {factor.line} : i32, k : i32) -> vec2<u32> {{")
        if not factor.across and ended:
            for line in (f"if (k >= {inner}) {{", "  return vec2<u32>();", "}"):
                writer.line(line)
        self._decode(writer, factor)
        assert factor.lane is not None
        writer.quad = f"{tight(writer.variables[factor.lane])} / 4"
        writer.line(f"return bitcast<vec2<u32>>({bare(writer.vector(factor.value))});")
        writer.lines += ["}", "", head]
        if factor.across:
            lines = [*ended, f"let low = min({factor.line}, {last(own, 4)});"]
            lines += [f"let high = min({factor.line} + 4, {last(own, 4)});"]
            lines += [f"return vec4<u32>({factor.name}4(batch, low, k), {factor.name}4(batch, high, k));"]
        else:
            lines = [f"let line = min({factor.line}, {last(own)});"]
            lines += [f"return vec4<u32>({factor.name}4(batch, line, k), {factor.name}4(batch, line, k + 4));"]
        writer.lines += [*(f"  {line}" for line in lines), "}\n"]
        return self._ended(writer)

    def _of_ones(self, factor: Factor, head: str, ended: Sequence[str], own: str, inner: str) -> str:
        """Of eight numbers, each by itself."""
        self.works = True
        writer = self._writer()
        writer.lines.append(f"fn {factor.name}(batch : i32, {factor.line} : i32, k : i32) -> f16 {{")
        self._decode(writer, factor)
        writer.line(f"return {bare(writer.value(factor.value))};")
        writer.lines += ["}", "", head]
        lines = [*ended] if factor.across else []
        parts = []
        if not factor.across:
            lines.append(f"let line = min({factor.line}, {last(own)});")
        for number in range(8):
            more = f" + {number}" if number else ""
            if factor.across:
                given = f"batch, min({factor.line}{more}, {last(own)}), k"
            else:
                given = f"batch, line, min(k{more}, {last(inner)})"
            part = f"{factor.name}({given})"
            if not factor.across and ended:
                part = f"select(0.0h, {part}, k{more} < {inner})"
            lines.append(f"let part_{number} = {part};")
            parts.append(f"part_{number}")
        low, high = (", ".join(parts[at : at + 4]) for at in (0, 4))
        lines.append(f"let low = bitcast<vec2<u32>>(vec4<f16>({low}));")
        lines.append(f"let high = bitcast<vec2<u32>>(vec4<f16>({high}));")
        writer.lines += [*(f"  {line}" for line in [*lines, "return vec4<u32>(low, high);"]), "}\n"]
        return self._ended(writer)


def _is_zero(found: Expression) -> bool:
    return found.kind == "constant" and found.value == 0
