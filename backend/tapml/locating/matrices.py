"""What subgroup matrices read and write of workgroup memory (WGSL's chromium_experimental_subgroup_matrix):
subgroupMatrixLoad and subgroupMatrixStore take the rectangle of an array that a matrix lies in, for all invocations of
a subgroup together, and nothing says which of them touches which element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tapml.locating.formula.work import Work
from tapml.locating.invocations import Range, Value, Where

SUBGROUP = 32
"""Invocations of a subgroup, in texts with matrices: their kernels ask for devices that have no others."""

_FUNCTIONS = {"subgroupMatrixLoad": False, "subgroupMatrixStore": True}
"""Name -> whether it writes."""
_TYPES = ("subgroup_matrix_left", "subgroup_matrix_right", "subgroup_matrix_result")
_MOST_TEMPLATE = 16
"""Tokens between a function's name and what it is given."""
_MOST_GIVEN = 60

_BYTES = {"f16": 2, "f32": 4, "i32": 4, "u32": 4, "i8": 1, "u8": 1}
_LENGTHS = {"vec2": 2, "vec3": 4, "vec4": 4}
_MOST_LINES = 64
"""Of a matrix, and elements of one."""


@dataclass(frozen=True)
class Matrix:
    """A type of matrices, by the bytes of a component."""

    nbytes: int
    columns: int
    rows: int


@dataclass(frozen=True)
class Rectangle:
    """`lines` times `each` elements of an array that follow on each other, from `offset` on, every `stride` of them."""

    offset: Range
    stride: Range
    lines: int
    each: int

    def touched(self, where: Where, offset: Value, stride: Value, work: Work) -> Where:
        """Its elements. `where`: the array that has them, and `offset` and `stride` of each invocation."""
        values = [*where.indices, offset, stride]
        known = [value[where.done].astype(np.int64) for value in values if value is not None and value.dtype != bool]
        if len(known) < len(values):
            return Where([*where.indices, None], where.done, where.exact, together=True)
        size = self.lines * self.each
        different = np.unique(np.stack(known), axis=1)
        work.add(different.size + different.shape[1] * size * len(values))
        line, place = np.divmod(np.arange(size), self.each)
        places = different[-2][:, None] + different[-1][:, None] * line + place
        indices = [*(np.repeat(one, size) for one in different[:-2]), places.ravel()]
        return Where(indices, np.ones(places.size, bool), where.exact, together=True)


@dataclass(frozen=True)
class Use:
    """A call that takes the address of an array. `rectangle`: None where it is not known."""

    writes: bool
    rectangle: Rectangle | None
    given: Range
    """What stands behind the address."""


def uses_matrices(texts: Sequence[str]) -> bool:
    """Whether a text is for devices with subgroup matrices alone."""
    return any(text in _FUNCTIONS for text in texts)


def first_matrix(texts: Sequence[str], start: int, end: int) -> Matrix | None:
    """The first type of matrices that these tokens name."""
    for number in range(start, min(end, start + _MOST_TEMPLATE)):
        if texts[number] in _TYPES:
            return _matrix(texts, number)
    return None


def element_bytes(declared: Sequence[str]) -> int | None:
    """Of what the innermost array holds that is declared as these tokens, `array<array<vec4<u32>, 8>, 4>`."""
    names = [text for text in declared if text in _BYTES or text in _LENGTHS]
    if not names or names[-1] not in _BYTES:
        return None
    length = 1
    for name in names[:-1]:
        if name not in _LENGTHS:
            return None
        length *= _LENGTHS[name]
    return length * _BYTES[names[-1]]


def use(
    texts: Sequence[str], address: int, end: int, element: int | None, named: dict[str, Matrix | None]
) -> Use | None:
    """The call of which the tokens from `address` (an &) to `end` are the first argument; None where it is no function
    of matrices. `element`: bytes of the array's elements; `named`: of values the types."""
    begin = _function(texts, address)
    if begin is None:
        return None
    writes = _FUNCTIONS[texts[begin]]
    parts = list(_given(texts, end + 1))
    given = (end + 1, parts[-1][1] if parts else end + 1)
    order = texts[address - 3]
    matrix = None
    if writes and len(parts) == 3:
        matrix = named.get(texts[parts[1][0]])
    elif not writes and len(parts) == 2:
        matrix = first_matrix(texts, begin, address)
    if matrix is None or element is None or order not in ("row_major", "col_major"):
        return Use(writes, None, given)
    lines, across = (matrix.rows, matrix.columns) if order == "row_major" else (matrix.columns, matrix.rows)
    each = -(-across * matrix.nbytes // element)
    return Use(writes, Rectangle(parts[0], parts[-1], lines, each), given)


def _matrix(texts: Sequence[str], at: int) -> Matrix | None:
    component, columns, rows = texts[at + 2 : at + 7 : 2] if texts[at + 1] == "<" else ("", "", "")
    sizes = [size.rstrip("iu") for size in (columns, rows)]
    if component not in _BYTES or not all(size.isdigit() and 0 < int(size) <= _MOST_LINES for size in sizes):
        return None
    return Matrix(_BYTES[component], int(sizes[0]), int(sizes[1]))


def _function(texts: Sequence[str], address: int) -> int | None:
    """The place of its name."""
    if texts[address - 1] != "(" or texts[address - 2] != ">":
        return None
    for begin in range(address - 3, max(0, address - 3 - _MOST_TEMPLATE), -1):
        if texts[begin] in _FUNCTIONS:
            return begin
    return None


def _given(texts: Sequence[str], start: int) -> Iterator[Range]:
    """Arguments from the comma at `start` on, up to the bracket that ends the call."""
    depth, begin = 0, start + 1
    if texts[start] != ",":
        return
    for number in range(start + 1, min(start + _MOST_GIVEN, len(texts) - 1)):
        text = texts[number]
        if depth == 0 and text in (",", ")"):
            yield begin, number
            begin = number + 1
            if text == ")":
                return
        depth += (text in ("(", "[")) - (text in (")", "]"))
