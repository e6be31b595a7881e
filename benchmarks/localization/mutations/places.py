"""Mistakes about where things are read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Access, Code, Span


def index_off_by_one(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        if not re.fullmatch(r"\d+i", index):
            yield span, f"({index} + 1i)", f"index {shown(index)} plus 1"


def swapped_axes(code: Code) -> Iterator[Edit]:
    for span in code.indices:
        index = code[span]
        swapped = re.sub(r"\.([xy])\b", lambda axis: ".y" if axis[1] == "x" else ".x", index)
        if ".x" in index and ".y" in index and swapped != index:
            yield span, swapped, f"x and y swapped in index {shown(index)}"
    for outer in code.binaries:
        if outer.operator != "+" or not code.in_index(outer.whole.start):
            continue
        # (row * columns + column) becomes (column * columns + row)
        product = re.fullmatch(r"\((.+) \* (\d+i)\)", code[outer.left])
        column = code[outer.right]
        if product and not re.fullmatch(r"\d+i", column) and product[1] != column:
            swapped = f"(({column} * {product[2]}) + {product[1]})"
            yield outer.whole, swapped, f"row and column swapped in {shown(code[outer.whole])}"


def dropped_barrier(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"workgroupBarrier\(\);"):
        yield Span(match.start(), match.end()), "", "workgroupBarrier dropped"


def mirrored_index(code: Code) -> Iterator[Edit]:
    """The columns of a row are read from its end."""
    for row in _rows(code):
        whole, column = row.whole, code[row.column]
        # What is added to (row * columns) + column belongs to the column, too: TVM has a product for each loop.
        for outer in reversed(code.binaries):
            if outer.operator == "+" and outer.left == whole:
                whole, column = outer.whole, f"({column} + {code[outer.right]})"
        mirrored = f"(({code[row.row]} * {row.columns}i) + (({row.columns}i - 1i) - {column}))"
        yield whole, mirrored, f"columns of {row.columns} mirrored in {shown(code[row.access.whole])}"


def swapped_pairs(code: Code) -> Iterator[Edit]:
    """Each element is read in place of the one that it is paired with, as where rotary positions pair them wrongly."""
    for access in code.loads:
        if code.inputs[access.name] == "f32" and not re.fullmatch(r"\d+i", code[access.index]):
            text = f"({code[access.index]} ^ 1i)"
            yield access.index, text, f"neighbours swapped in {shown(code[access.whole])}"
    for row in _rows(code):
        half = row.columns // 2
        if half > 1 and half & (half - 1) == 0:
            text = f"({code[row.column]} ^ {half}i)"
            yield row.column, text, f"halves of {row.columns} swapped in {shown(code[row.access.whole])}"
    for call in code.calls("sin", "cos"):
        other = "cos" if call.name == "sin" else "sin"
        yield Span(call.whole.start, call.whole.start + 3), other, f"{call.name} became {other}"


def stale_rows(code: Code) -> Iterator[Edit]:
    """Every fourth row is computed of the row before, or is not written."""
    for row in _rows(code):
        number = code[row.row]
        if not re.fullmatch(r"\d+i", number):
            text = f"({number} - select(0i, 1i, (({number} & 3i) == 3i)))"
            yield row.row, text, f"every fourth row read from the one before in {shown(code[row.access.whole])}"
    for row in _rows(code, stores=True):
        statement = code.statement(row.access.whole.start)
        text = f"if (({code[row.row]} & 3i) != 3i) {{ {code[statement]} }}"
        yield statement, text, f"every fourth row of {row.access.name} not written"


@dataclass(frozen=True)
class _Row:
    """An access at `((row * columns) + column)`."""

    access: Access
    whole: Span
    row: Span
    columns: int
    column: Span


def _rows(code: Code, *, stores: bool = False) -> Iterator[_Row]:
    sums = [sum_ for sum_ in code.binaries if sum_.operator == "+" and not re.fullmatch(r"\d+i", code[sum_.right])]
    products = [(sum_, re.fullmatch(r"\((.+) \* (\d+)i\)", code[sum_.left])) for sum_ in sums]
    found = [(sum_, product) for sum_, product in products if product and int(product[2]) > 1]
    for access in code.accesses:
        if access.stores == stores and access.name in (code.outputs if stores else code.inputs):
            for sum_, product in found:
                if access.index.start <= sum_.whole.start < access.index.end:
                    start = sum_.left.start + 1
                    row = Span(start, start + len(product[1]))
                    yield _Row(access, sum_.whole, row, int(product[2]), sum_.right)
