"""The factors of a product as float16, eight at once: what subgroup matrices are made of.

A vector of eight is a `vec4<u32>`, two numbers a word: eight points along the inner axis, or, where a factor lies in
memory across it, eight lines (rows or columns) at one point of it. Lines beyond the last are read as the last, points
beyond the end of the inner axis are 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.kernel import Text, product
from tapml.compilers.native.names import Names
from tapml.compilers.native.product import Factor, Factors, Hooks, extents, last
from tapml.compilers.native.stages import loads
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare, tight
from tapml.operators.program import Expression


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


class Eights(Factors):
    """Writes functions of factors into a kernel's text: `left8` where others have `left4`."""

    def _across(self, factor: Factor) -> Factor:
        """With vectors of lines, where those that follow each other lie beside each other in memory."""
        places = [self._place(load) for load in loads(factor.value)]
        across = any(self._step(place, factor.own) == 1 for place in places)
        along = any(self._step(place, factor.inner) == 1 for place in places)
        return dataclasses.replace(factor, across=across and not along)

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        """All buffers: by eights those that are only ever read so, by fours those that are in whole vectors."""
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
        place = self._place(load)
        if factor.lane is not None and count.divisible(8) and factor.value is load and self._in_rows(factor):
            step = place.coefficient(factor.lane)
            rest = place.without(factor.lane)
            one = step is not None and step.constant == 1 and not self._indices.depends(rest, factor.lane)
            if one and rest.divisible(8):
                return 8
        if factor.lane is None or not count.divisible(4):
            return 1
        return 4 if Writer(self._indices, {}, Names(), factor.lane).in_a_row(place) else 1

    def _in_rows(self, factor: Factor) -> bool:
        """Whether its vectors do not reach over the end of the last of their axes."""
        axis = (factor.own if factor.across else factor.inner)[-1]
        return isinstance(axis.extent, int) and axis.extent % 8 == 0

    def _vector(self, factor: Factor, step: int) -> str:
        """The function of eight; with one of four or of a single number before it, where it needs that."""
        direct = factor.value.kind == "load" and self._text.accesses[str(factor.value.value)].width == 8
        size = product(self._indices, extents(factor.inner))
        inner = self._count(factor.inner)
        ended = [] if size.divisible(step) else [f"if (k >= {inner}) {{", "  return vec4<u32>();", "}"]
        head = f"fn {factor.name}8(batch : i32, {factor.line} : i32, k : i32) -> vec4<u32> {{"
        own = self._count(factor.own)
        if direct:
            lines = [*ended, *self._direct(factor, own)]
            return "\n".join([head, *(f"  {line}" for line in lines), "}\n"])
        if factor.lane is not None:
            return self._of_fours(factor, head, ended, own, inner)
        return self._of_ones(factor, head, ended, own, inner)

    def _direct(self, factor: Factor, own: str) -> Iterable[str]:
        writer = self._writer(factor.lane)
        assert factor.lane is not None
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, f"min({factor.line}, {last(own, 8 if factor.across else 1)})")
        self._decoded(writer, factor.inner, "k")
        place = self._place(factor.value).without(factor.lane)
        whole = bare(writer.polynomial(place.divided(8)))
        lane = f"{writer.variables[factor.lane]} / 8"
        access = self._text.accesses[str(factor.value.value)]
        self.symbols.update(writer.symbols)
        lines = [line.strip() for line in writer.lines]
        return [*lines, f"return {access.name}[{lane if whole == '0' else f'{whole} + {lane}'}];"]

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


class ProductOfHalves(Eights, Hooks):
    """The functions of a product."""

    def __init__(self, text: Text, found: Contraction) -> None:
        super().__init__(text, found, (True, True))
