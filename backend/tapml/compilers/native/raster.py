"""The raster kernel: all regions of an operator in one dispatch (tapml.regions, docs/kernels.md#regions).

Invocations are shared out to the regions one after the other, by how many elements each has. An invocation writes four
elements that lie in a row wherever every region can be written so, and reads them as one vec4 where they lie in a row
there, too. Nothing is asked of an element: which region it is of is known by the invocation's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tapml.compilers.native.elementwise import decompose
from tapml.compilers.native.kernel import GROUP, GROUPS, LOCAL, Found, Launch, Text, ceildiv, check_counts, grid_of
from tapml.compilers.native.polynomials import Polynomial, number
from tapml.compilers.native.stages import Index
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare, literal, wgsl_type
from tapml.operators.program import Expression
from tapml.regions.forms import Form, Size, expression, sized
from tapml.regions.read import regions_of
from tapml.regions.region import Region, View

_LETTERS = ("i", "j", "k", "l", "m", "n", "o", "p")
_OWN = ("at", "nth", "group", "groups", "local")


def raster(found: Found) -> list[Launch] | None:
    """A dispatch for all outputs of an operator that only moves elements; None for others, and for a part of one."""
    if found.part or any(stage.combine for stage in found.stages):
        return None
    symbols = {symbol.name: (symbol.minimum, symbol.maximum) for symbol in found.operator.symbols}
    outputs = regions_of(found.program, symbols)
    if outputs is None or not all(outputs.values()):
        return None
    return [
        _Raster(found, [(output, region) for output, all_of_it in outputs.items() for region in all_of_it]).launch()
    ]


class _Raster:
    def __init__(self, found: Found, regions: Sequence[tuple[str, Region]]) -> None:
        self._found, self._regions = found, regions
        self._indices = found.indices([])
        outputs = {output for output, _ in regions}
        self._four = all(map(self._is_whole, outputs)) and all(_by_fours(region.write, region) for _, region in regions)

    def launch(self) -> Launch:
        found, indices = self._found, self._indices
        text = Text(found, found.entry_point, indices, taken=(*_OWN, *_LETTERS))
        sources = {region.source for _, region in self._regions} - {None}
        for buffer in sorted(map(str, sources), key=[*found.buffers].index):
            text.bind(buffer, 4 if self._four and self._in_fours(buffer) else 1)
        for output in dict.fromkeys(output for output, _ in self._regions):
            text.bind(output, 4 if self._four else 1, write=True)
        for buffer in text.accesses:
            check_counts(indices, found.buffers[buffer].shape)
        counts = [self._invocations(region) for _, region in self._regions]
        lanes = min(found.threads, 256)
        count = sum(counts, Form.of(0))
        whole = _expression(count)
        grid, group = grid_of(ceildiv(whole, lanes), -(-check_counts(indices, [whole]) // lanes))
        writer = text.writer()
        writer.line(f"let at = i32({group} * {lanes}u + local);")
        begin, ahead = Form.of(0), ""
        for place, ((output, region), own) in enumerate(zip(self._regions, counts, strict=True)):
            writer.line(f"{ahead}if (at < {bare(writer.polynomial(_polynomial(begin + own)))}) {{")
            with writer.scope():
                self._move(text, writer, output, region, place, begin)
            begin, ahead = begin + own, "} else "
        writer.line("}")
        arguments = [GROUP, GROUPS, LOCAL] if grid[1] != 1 else [GROUP, LOCAL]
        regions = "one region" if len(self._regions) == 1 else f"{len(self._regions)} regions"
        comment = f"{found.operator.name}: {regions}, {'four elements' if self._four else 'an element'} an invocation."
        return text.launch(writer, comment, arguments, lanes, grid)

    def _invocations(self, region: Region) -> Form:
        return Form.of(region.elements) * Fraction(1, 4 if self._four else 1)

    def _move(self, text: Text, writer: Writer, output: str, region: Region, place: int, begin: Form) -> None:
        axes = [Index(f"{axis} of {place}", expression(size)) for axis, size in enumerate(region.sizes)]
        for axis in axes:
            self._indices.declare(axis.variable, axis.extent)
        first = "at"
        if begin.terms and axes:
            first = "nth"
            writer.line(f"let nth = at - {writer.polynomial(_polynomial(begin))};")
        if axes:
            decompose(writer, axes, 4 if self._four else 1, first)
        writer.lane = axes[-1].variable if axes and self._four else None
        lanes = "all" if self._four else None
        written = writer.at(text.accesses[output], self._place(region.write, axes), lanes)
        writer.line(f"{written} = {self._value(text, writer, region, axes, text.accesses[output].dtype)};")

    def _value(self, text: Text, writer: Writer, region: Region, axes: Sequence[Index], dtype: str) -> str:
        kind = wgsl_type(dtype)
        if region.source is None:
            constant = literal(Expression("constant", dtype, (), region.value))
            return f"vec4<{kind}>({bare(constant)})" if self._four else bare(constant)
        access, read = text.accesses[region.source], self._place(region.read, axes)
        if not self._four:
            return writer.at(access, read)
        if access.width == 4:
            return writer.at(access, read, "all")
        each = [bare(writer.at(access, read, lane)) for lane in range(4)]
        return f"vec4<{kind}>({', '.join(each)})"

    def _place(self, view: View, axes: Sequence[Index]) -> Polynomial:
        found = _polynomial(view.offset)
        for stride, axis in zip(view.strides, axes, strict=True):
            found += _polynomial(stride) * Polynomial({(axis.variable,): 1})
        return found

    def _is_whole(self, buffer: str) -> bool:
        """Is it of whole vectors?"""
        count = number(1)
        for extent in self._found.buffers[buffer].shape:
            count = count * self._indices.size(extent)
        return count.divisible(4)

    def _in_fours(self, buffer: str) -> bool:
        return self._is_whole(buffer) and all(
            _by_fours(region.read, region) for _, region in self._regions if region.source == buffer
        )


def _by_fours(view: View, region: Region) -> bool:
    """Do rows of the region begin at whole vectors, and have whole ones?"""
    if not region.sizes or view.strides[-1] != 1:
        return False
    return all(Form.of(size).divisible(4) for size in (view.offset, *view.strides[:-1], region.sizes[-1]))


def _expression(form: Form) -> Any:
    found = sized(form)
    assert found is not None, "counts are sizes"
    return expression(found)


def _polynomial(size: Size) -> Polynomial:
    return Polynomial({tuple(map(str, product)): int(c) for product, c in Form.of(size).terms.items()})
