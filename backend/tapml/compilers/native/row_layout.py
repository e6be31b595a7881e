"""How an operator's rows are shared out: how many invocations a row has, what each of them takes at once, and what it
keeps in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapml.compilers.native.elementwise import bind
from tapml.compilers.native.kernel import Found, Text, check_counts, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.row_steps import SHORT, Step, length_of
from tapml.compilers.native.stages import Numbering, loads
from tapml.operators.program import Expression

_KEPT_FOURS = 8
"""Registers of four numbers that an invocation keeps of its row."""

AT_ONCE = 8
"""Turns of a long row whose loads are on their way together."""

_LONG = 4096
"""Elements of a row that one invocation goes over where they are strided."""

_SHORTEST = 32
"""Invocations of a row that takes each of them four turns at most."""

_MANY = 132
"""Rows that fill a large device."""

_COLUMNS, _FEW_COLUMNS = 32, 4
"""Rows beside each other whose elements lie beside each other, of a workgroup; and where there are few, and long, of
them."""

_WINDOW, _WINDOWS = 64, 4096
"""Elements of a window that an invocation goes over by itself, where there are so many windows."""

_SOME = 256
"""Of such rows, that are gone over by columns however long they are."""

_FILLED = 65536
"""Invocations that fill a large device."""

_FEWEST, _ALONE = 64, 256
"""Invocations of a workgroup, below which several rows share one; and of rows of one invocation each that fill a large
device so."""

OUTER = ("i", "j", "k", "l")
INNER = ("x", "y", "z", "w")
_OWN = ("row", "rows", "at", "lane", "inside", "group", "groups", "local", "n", "partial", "other", *OUTER, *INNER)


class RowLayout:
    """`along`: the elements of a row lie beside each other; else those of neighbouring rows do, or none. `_turned`:
    invocations beside each other have rows beside each other, and those that share a row are farther apart."""

    def __init__(
        self, found: Found, indices: Indices, steps: Sequence[Step], along: bool, lanes: int | None = None
    ) -> None:
        self._found = found
        self._indices = indices
        self._steps = steps
        first = next(step for step in steps if step.inner)
        self._count = times(*(index.extent for index in steps[0].outer))
        self._length = length_of(first)
        # Steps may write rows of another length, as words of several numbers are.
        alike = all(length_of(step) == self._length for step in steps if step.inner)
        check_counts(indices, [self._count, self._length])
        self._text = Text(found, found.entry_point, indices, taken=_OWN)
        self._outputs = [step for step in steps if step.stage.buffer in found.outputs]
        self._reads = self._bind()
        most = indices.greatest(self._length)
        # A row an invocation, where rows are short, or neighbours read neighbours only so.
        alone = most <= SHORT or (not along and (most <= _LONG or indices.greatest(self._count) >= _SOME))
        self._per = 1 if not alike or (alone and not along) else self._bind_wide()
        longest = -(-min(most, 2**20) // self._per)
        self._lanes = min(lanes or self._own_lanes(longest), 1 << int(math.log2(found.threads)))
        if alone:
            self._lanes = 1
        several = _ALONE if alone and indices.greatest(self._count) >= _MANY * _ALONE else _FEWEST
        self._together = max(1, min(several, found.threads) // self._lanes)
        self._turned = False
        by_columns = alone and not along and most > SHORT
        self._takes_lanes = by_columns or not alone
        columns, shared = _COLUMNS, (lanes or self._lanes_of_columns(most, len(first.inner))) if by_columns else 1
        if by_columns and lanes is None and self._are_few(most):
            columns, shared = _FEW_COLUMNS, found.threads // _FEW_COLUMNS
        if 1 < shared <= found.threads // columns:
            self._turned, self._lanes, self._together = True, shared, columns
        self._turns = -(-longest // self._lanes)
        fixed = isinstance(self._length, int)
        self._keeps = fixed and alike and self._turns <= (_KEPT_FOURS if self._per == 4 else 2 * _KEPT_FOURS)
        self._even = fixed and longest % self._lanes == 0
        self._numbers = Numbering()
        self._arrays: dict[int, str] = {}
        self._writer = self._text.writer()

    def _lanes_of_columns(self, most: int, axes: int) -> int:
        """For a row whose elements lie in as many places, beside those of other rows. Loops over several short axes are
        unrolled where one invocation goes over them."""
        count, lanes = self._indices.greatest(self._count), 1
        if axes > 1 and most < _WINDOW and count >= _WINDOWS:
            return 1
        while lanes < 8 and count * lanes < _FILLED and most >= 16 * lanes:
            lanes *= 2
        return lanes

    def _are_few(self, most: int) -> bool:
        """Whether so few rows lie beside each other, each so long, that four of them are enough for a workgroup: on an
        H200 softmax of 256 rows of 2,048 numbers takes 9.2 us so, and 28.2 by 32 rows and 8 invocations of each."""
        return most >= 512 and 8 * self._indices.greatest(self._count) <= _FILLED // 4

    def _own_lanes(self, longest: int) -> int:
        """For a row of so many parts. Measured on an H200: each halving of a sum is a barrier, which costs more than
        another turn does, while a lane keeps what it has read; but few rows leave most of the device idle."""
        if longest <= 4 * _SHORTEST:
            return min(1 << (longest - 1).bit_length(), _SHORTEST)
        kept = _KEPT_FOURS if self._per == 4 else 2 * _KEPT_FOURS
        many = self._indices.greatest(self._count) >= _MANY
        most = 128 if many and longest <= 128 * kept else 256
        return min(1 << (longest - 1).bit_length(), most)

    def _bind(self) -> list[tuple[Sequence[Expression], str | None]]:
        """Bind what is read and written."""
        reads: list[tuple[Sequence[Expression], str | None]] = []
        for step in self._steps:
            reads.append(([step.value], step.inner[-1].variable if step.inner else None))
        for values, _ in reads:
            bind(self._text, values, None)
        for step in self._outputs:
            self._text.bind(step.stage.buffer, write=True)
        return reads

    def _bind_wide(self) -> int:
        """Bind as vec4 what can be; elements that a lane takes at once."""
        text, steps, outputs = self._text, self._steps, self._outputs
        per = 4
        for step in steps:
            if step.inner and not self._indices.size(step.inner[-1].extent).divisible(4):
                per = 1
        if per == 4:
            for step in outputs:
                if step.inner and not step.stage.combine:
                    writer = text.writer(step.inner[-1].variable)
                    fours = text.found.by_fours(str(step.stored.value))
                    if not fours or not writer.in_a_row(writer.flat(step.stored)):
                        per = 1
        if per == 4:
            self._widen(self._reads)
            for step in outputs:
                if step.inner and not step.stage.combine:
                    text.bind(step.stage.buffer, 4, write=True)
        return per

    def _widen(self, reads: Sequence[tuple[Sequence[Expression], str | None]]) -> None:
        """As vec4 what every step reads by fours in a row."""
        wide: dict[str, bool] = {}
        for values, lane in reads:
            writer = self._text.writer(lane)
            for load in loads(*values):
                fits = lane is not None and writer.by_fours(load)
                wide[str(load.value)] = wide.get(str(load.value), True) and fits
        for buffer, fits in wide.items():
            if fits:
                self._text.bind(buffer, 4)
