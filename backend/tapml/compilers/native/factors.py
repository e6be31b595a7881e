"""The factors of a product as functions of a kernel's text: a vector of either, at a line and a place along the inner
axis. What the operator's program has before the product (a cast, a dequantisation, zeros around an image) stands in
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.axes import Axes
from tapml.compilers.native.kernel import Text, product
from tapml.compilers.native.names import Names
from tapml.compilers.native.polynomials import Polynomial
from tapml.compilers.native.stages import Index, loads
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression

_WORD = 8
"""Numbers that a word of something packed has at most."""


@dataclass(frozen=True)
class Factor:
    """One factor as its function sees it: axes that lie behind each other in memory are one."""

    name: str
    line: str
    """What its function calls the number of a point of its own axes."""
    value: Expression
    batch: Sequence[Index]
    own: Sequence[Index]
    inner: Sequence[Index]
    across: bool = False
    """Whether its vectors are of four lines beside each other, not of four points along the inner axis."""

    @property
    def lane(self) -> str | None:
        """The last axis of those that vectors lie along, where vectors of four do not reach over its end."""
        axes = self.own if self.across else self.inner
        last = axes[-1] if axes else None
        return last.variable if last and isinstance(last.extent, int) and last.extent % 4 == 0 else None


class Factors:
    """Writes functions of factors into a kernel's text. Its batch is what all of them depend on."""

    def __init__(self, text: Text, batch: Sequence[Index]) -> None:
        self._text, self._indices, self._batch = text, text.indices, batch
        self._buffers = text.found.buffers
        self.symbols: dict[str, None] = {}
        """That the functions have."""

    # ------------------------------------------------ axes

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        (merged,), (batch, own_axes, inner_axes) = self._merged([value], [self._batch, own, inner])
        return Factor(name, line, merged, batch, own_axes, inner_axes)

    def _merged(
        self, values: Sequence[Expression], groups: Sequence[Sequence[Index]]
    ) -> tuple[list[Expression], list[list[Index]]]:
        """The values with axes that lie behind each other in memory made one, and the axes."""
        objects = *values, *groups
        return self._text.found.memory.of(self._indices, "merged", objects, lambda: self._made_one(values, groups))

    def _made_one(
        self, values: Sequence[Expression], groups: Sequence[Sequence[Index]]
    ) -> tuple[list[Expression], list[list[Index]]]:
        found, axes = list(values), list[list[Index]]()
        for group in groups:
            arranged = Axes(self._indices, group, found, self._buffers)
            arranged.arrange(flat=bool(axes))
            found = arranged.roots
            axes.append(arranged.axes)
        return found, axes

    def _place(self, load: Expression) -> Polynomial:
        """Where it reads, in elements."""
        return self._indices.flat(load.operands, self._buffers[str(load.value)].shape)

    def _in_fours(self, axis: Index | None, stored: Expression) -> str | None:
        """The variable of the axis, where four points of it are always four elements of an output beside each other."""
        output = str(stored.value)
        if axis is None or not isinstance(axis.extent, int) or axis.extent % 4:
            return None
        if not self._text.found.by_fours(output):
            return None
        if not product(self._indices, self._buffers[output].shape).divisible(4):
            return None
        whole = Writer(self._indices, {}, Names(), axis.variable).in_a_row(self._place(stored))
        return axis.variable if whole else None

    def _along(self, factor: Factor) -> bool:
        for load in loads(factor.value):
            place = self._place(load)
            along, across = (self._step(place, axes) == 1 for axes in (factor.inner, factor.own))
            if along and not across:
                return True
        return False

    def _step(self, place: Polynomial, axes: Sequence[Index]) -> int | None:
        """What lies between elements that follow each other along the last of the axes that a place depends on: of
        numbers packed into words, along that of the words."""
        for axis in reversed(axes):
            if place.atoms() & {axis.variable}:
                step = place.coefficient(axis.variable)
                return None if step is None else step.constant
        return None

    def _in_word(self, factor: Factor) -> int:
        """Vectors along the inner axis that are in one word of something packed."""
        last = factor.inner[-1] if factor.inner else None
        if last is None or factor.lane != last.variable or not isinstance(last.extent, int):
            return 1
        places = [self._place(load) for load in loads(factor.value)]
        words = [place for place in places if not self._indices.depends(place, last.variable)]
        return last.extent // 4 if last.extent <= _WORD and any(self._step(p, factor.inner) for p in words) else 1

    def _across(self, factor: Factor) -> Factor:
        """With vectors of lines, where the four of each lie beside each other in memory."""
        turned = dataclasses.replace(factor, across=True)
        if turned.lane is None or self._along(factor):
            return factor
        writer = Writer(self._indices, {}, Names(), turned.lane)
        varying = [load for load in loads(factor.value) if writer.varies(load)]
        return turned if varying and all(self._in_line(turned, load) for load in varying) else factor

    def _in_line(self, factor: Factor, load: Expression) -> bool:
        """Whether the four elements of its vectors lie beside each other, wherever the first of them is."""
        assert factor.lane is not None
        place = self._place(load)
        step = place.coefficient(factor.lane)
        return (
            step is not None
            and step.constant == 1
            and not self._indices.depends(place.without(factor.lane), factor.lane)
        )

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        """All buffers: as vec4 those that are only ever read in the whole vectors of a factor."""
        wide: dict[str, bool] = {}
        for load in loads(*others):
            wide[str(load.value)] = False
        for factor in factors:
            for load in loads(factor.value):
                name = str(load.value)
                if factor.lane is None or not product(self._indices, self._buffers[name].shape).divisible(4):
                    wide[name] = False
                    continue
                wide.setdefault(name, True)
                row = Writer(self._indices, {}, Names(), factor.lane).in_a_row(self._place(load))
                wide[name] = wide[name] and row
        for name in self._buffers:
            if name in wide:
                self._text.bind(name, 4 if wide[name] else 1)

    # ------------------------------------------------ texts

    def _writer(self, lane: str | None = None) -> Writer:
        accesses = self._text.accesses
        names = Names({*self._text.taken, "size", *(access.name for access in accesses.values())})
        writer = Writer(self._indices, accesses, names, lane)
        writer.variables.update(self._text.given)
        return writer

    def _ended(self, writer: Writer) -> str:
        self.symbols.update(writer.symbols)
        return "\n".join(writer.lines)

    def _count(self, axes: Iterable[Index]) -> str:
        """How many points they have."""
        writer = self._writer()
        text = writer.polynomial(product(self._indices, extents(axes)))
        self._ended(writer)
        return text

    def _decoded(self, writer: Writer, axes: Sequence[Index], name: str) -> None:
        """Each axis, from the number of a point."""
        for place, axis in enumerate(axes):
            if len(axes) == 1:
                text = name
            else:
                behind = product(self._indices, extents(axes[place + 1 :]))
                text = name if behind.constant == 1 else f"{name} / {writer.polynomial(behind)}"
                if place:
                    text = f"{text} % {writer.polynomial(self._indices.size(axis.extent))}"
                text = writer.let(axis.variable, text)
            writer.variables[axis.variable] = text

    def _vector(self, factor: Factor, step: int) -> str:
        """The function of four elements along the inner axis, or of four lines; beyond the inner axis' end they are
        0."""
        inner, name = self._count(factor.inner), factor.name
        size = product(self._indices, extents(factor.inner))
        head = f"(batch : i32, {factor.line} : i32, k : i32)"
        writer = self._writer(factor.lane)
        if factor.lane is not None:
            writer.lines.append(f"fn {name}4{head} -> vec4<f32> {{")
            if not size.divisible(step):
                writer.line(f"if (k >= {inner}) {{")
                writer.line("  return vec4<f32>();")
                writer.line("}")
            self._decode(writer, factor)
            writer.quad = f"{writer.variables[factor.lane]} / 4"
            writer.line(f"return {bare(writer.vector(factor.value))};")
            writer.lines.append("}\n")
            return self._ended(writer)
        self._single(writer, factor)
        writer.lines.append(f"fn {name}4{head} -> vec4<f32> {{")
        writer.line("var found = vec4<f32>();")
        writer.line("for (var lane = 0; lane < 4; lane++) {")
        one = f"found[lane] = {name}(batch, {factor.line}, k + lane);"
        if size.divisible(step):
            writer.line(f"  {one}")
        else:
            writer.line(f"  if (k + lane < {inner}) {{")
            writer.line(f"    {one}")
            writer.line("  }")
        writer.line("}")
        writer.line("return found;")
        writer.lines.append("}\n")
        return self._ended(writer)

    def _single(self, writer: Writer, factor: Factor) -> None:
        """The function of one element."""
        writer.lines.append(f"fn {factor.name}(batch : i32, {factor.line} : i32, k : i32) -> f32 {{")
        self._decode(writer, factor)
        writer.line(f"return {bare(writer.value(factor.value))};")
        writer.lines += ["}", ""]

    def _decode(self, writer: Writer, factor: Factor) -> None:
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, factor.line)
        self._decoded(writer, factor.inner, "k")


def extents(axes: Iterable[Index]) -> list[Any]:
    """Integers, or expressions over symbols."""
    return [axis.extent for axis in axes]


def last(count: str, each: int = 1) -> str:
    """The text of the last of so many, or of where the last `each` of them begin."""
    return str(int(count) - each) if count.isdigit() else f"{count} - {each}"
