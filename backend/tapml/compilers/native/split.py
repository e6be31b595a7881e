"""Products whose inner axis workgroups share out, where there are too few elements for a large device: a second
dispatch adds up the parts of each, and does with the sum what follows."""

from __future__ import annotations

import dataclasses
from typing import Any

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.ending import Ending, Parts
from tapml.compilers.native.factors import extents
from tapml.compilers.native.kernel import Found, Launch, Text, ceildiv, grid_of, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, arguments_of

MOST = 16
"""Parts of a sum."""
MOST_BYTES = 2**27
"""Of all parts, which WebGPU's default limits let a kernel bind."""
_LANES = 256


def cost(elements: int, splits: int) -> float:
    """Of the parts, in nanoseconds of a large device: bytes that are written and read, and one more dispatch, which
    takes whoever records it time, too."""
    return elements * splits * 8 / 4000 + 9000 if splits > 1 else 0.0


def parts_of(found: Found, splits: int) -> Parts | None:
    return Parts(f"the parts of {found.entry_point}", splits) if splits > 1 else None


def merged(found: Found, made: Contraction, indices: Indices, parts: Parts, launch: Launch) -> list[Launch]:
    """The dispatch that leaves `parts`, and the one that adds them up."""
    own = dataclasses.replace(found, part=found.part + 1)
    merging = _Merging(Text(own, f"{found.entry_point}_sum", indices, OWN_NAMES), made).launch(parts)
    nbytes = times(*extents((*made.batch, *made.rows, *made.columns)), 4 * parts.count)
    return [dataclasses.replace(one, temporaries={**one.temporaries, parts.name: nbytes}) for one in (launch, merging)]


class _Merging(Ending):
    """Four elements an invocation, where these are a vector of the output, or one."""

    def launch(self, parts: Parts) -> Launch:
        found = self._found
        self._bind((), self._value)
        lane = self._four_columns()
        each = 1 if lane is None else 4
        parts.bind(self._text, write=False, fours=lane is not None)
        self._bind_end(lane)
        batches, rows, columns = (self._count(axes) for axes in (found.batch, found.rows, found.columns))
        count: Any = times(*extents((*found.batch, *found.rows, *found.columns)))
        most = self._indices.greatest(count)
        grid, group = grid_of(ceildiv(count, each * _LANES), -(-most // (each * _LANES)) + 1)
        self._text.declarations = ["", self._finish(lane)]
        writer = self._text.writer()
        writer.symbols.update(self.symbols)
        every = f"{rows} * {columns}"
        for line in (
            f"let index = i32({group} * {_LANES}u + number){'' if lane is None else ' * 4'};",
            f"if (index >= {batches} * {every}) {{",
            "  return;",
            "}",
            f"let batch = index / ({every});",
            f"let element = index % ({every});",
            f"var total = {'0.0' if lane is None else 'vec4<f32>()'};",
            f"for (var part = 0; part < {parts.count}; part++) {{",
            f"  total += parts[((batch * {parts.count} + part) * {every} + element){'' if lane is None else ' / 4'}];",
            "}",
            f"finish{'' if lane is None else '4'}(batch, element / {columns}, element % {columns}, total);",
        ):
            writer.line(line)
        what = "an element" if lane is None else "four elements"
        comment = f"The sums of a product, of {parts.count} parts each: each invocation computes {what}."
        return self._text.launch(writer, comment, arguments_of(group), _LANES, grid)
