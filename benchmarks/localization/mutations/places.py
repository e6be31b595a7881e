"""Mistakes about where things are read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Access, Code, RowSum, Span


def index_off_by_one(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        if not code.is_integer(index):
            yield span, f"({index} + {code.integer(1)})", f"index {shown(index)} plus 1"


def swapped_axes(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        swapped = re.sub(r"\.([xy])\b", lambda axis: ".y" if axis[1] == "x" else ".x", index)
        if ".x" in index and ".y" in index and swapped != index:
            yield span, swapped, f"x and y swapped in index {shown(index)}"
    for sum_ in code.row_sums:
        # (row * columns + column) becomes (column * columns + row)
        row, column = code.operand(sum_.row), code.operand(sum_.column)
        if code.in_index(sum_.whole.start) and row != column:
            swapped = f"(({column} * {code.integer(sum_.columns)}) + {row})"
            yield sum_.whole, swapped, f"row and column swapped in {shown(code[sum_.whole])}"


def dropped_barrier(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"workgroupBarrier\(\);"):
        yield Span(match.start(), match.end()), "", "workgroupBarrier dropped"


def mirrored_index(code: Code) -> Iterator[Edit]:
    """The columns of a row are read from its end."""
    for row in _rows(code):
        whole, column = row.sum.whole, code.operand(row.sum.column)
        # What is added to (row * columns) + column belongs to the column, too: TVM has a product for each loop.
        for outer in reversed(code.binaries):
            if outer.operator == "+" and outer.left == whole:
                whole, column = outer.whole, f"({column} + {code[outer.right]})"
        columns = code.integer(row.sum.columns)
        mirrored = f"(({code.operand(row.sum.row)} * {columns}) + (({columns} - {code.integer(1)}) - {column}))"
        yield whole, mirrored, f"columns of {row.sum.columns} mirrored in {shown(code[row.access.whole])}"


def swapped_pairs(code: Code) -> Iterator[Edit]:
    """Each element is read in place of the one that it is paired with, as where rotary positions pair them wrongly."""
    for access in code.loads:
        description = f"neighbours swapped in {shown(code[access.whole])}"
        if code.kind(access) == "vec4<f32>":
            yield access.whole, f"{code[access.whole]}.yxwz", description
        elif code.kind(access) == "f32" and not code.is_integer(code[access.index]):
            yield access.index, f"({code.operand(access.index)} ^ {code.integer(1)})", description
    for row in _rows(code):
        columns = row.sum.columns
        half = columns // 2
        if half > 1 and half & (half - 1) == 0:
            text = f"({code.operand(row.sum.column)} ^ {code.integer(half)})"
            yield row.sum.column, text, f"halves of {columns} swapped in {shown(code[row.access.whole])}"
    for call in code.calls("sin", "cos"):
        other = "cos" if call.name == "sin" else "sin"
        yield Span(call.whole.start, call.whole.start + 3), other, f"{call.name} became {other}"


def stale_rows(code: Code) -> Iterator[Edit]:
    """Every fourth row is computed of the row before, or is not written."""
    for row in _rows(code):
        number, (zero, one, three) = code.operand(row.sum.row), map(code.integer, (0, 1, 3))
        if not code.is_integer(number):
            text = f"({number} - select({zero}, {one}, (({number} & {three}) == {three})))"
            yield row.sum.row, text, f"every fourth row read from the one before in {shown(code[row.access.whole])}"
    for row in _rows(code, stores=True):
        statement = code.statement(row.access.whole.start)
        three = code.integer(3)
        text = f"if (({code.operand(row.sum.row)} & {three}) != {three}) {{ {code[statement]} }}"
        yield statement, text, f"every fourth row of {row.access.name} not written"


@dataclass(frozen=True)
class _Row:
    """An access at a row's start and a place in it."""

    access: Access
    sum: RowSum


def _rows(code: Code, *, stores: bool = False) -> Iterator[_Row]:
    for access in code.accesses:
        if access.stores == stores and access.name in (code.outputs if stores else code.inputs):
            for sum_ in code.row_sums:
                if access.index.start <= sum_.whole.start < access.index.end and sum_.columns > 1:
                    yield _Row(access, sum_)
