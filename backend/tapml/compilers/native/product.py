"""A product of matrices as functions that the templates call (`factors.py`, `ending.py`), and what their texts have in
common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.ending import Ending, Parts
from tapml.compilers.native.factors import Factor, extents
from tapml.compilers.native.kernel import GROUP, GROUPS, Launch, Text, product
from tapml.compilers.native.stages import loads
from tapml.compilers.native.words import bare

ACCUMULATED = """\
fn accumulated(sum : f32, a : vec4<f32>, b : vec4<f32>) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
"""


@dataclass(frozen=True)
class Kind:
    """What sums and vectors of four are in a template's text, and the function that adds up the products of two
    vectors."""

    scalar: str
    zero: str
    vector: str
    accumulated: str


NUMBERS = Kind("f32", "0.0", "vec4<f32>", ACCUMULATED)

NUMBER = "@builtin(local_invocation_index) number : u32"

Count = Callable[[int, int], tuple[Any, int]]
"""How many tiles of so many rows and columns a product has, an expression, and at most."""

OWN_NAMES = (
    "left", "left4", "right", "right4", "low_four", "high_four", "finish", "finish4", "finish_at", "accumulated",
    "batch", "row", "column", "k", "total", "found", "left_part", "right_part", "group", "groups", "place", "number",
    "index", "x", "y", "tile", "row_tiles", "column_tiles", "read", "lane", "slot", "half", "left8", "right8", "low",
    "high", "line", "subgroup", "band", "banded", "sums_part", "own_row", "own_column", "block", "e", "to_row",
    "to_column", "from_row", "from_column", "left_fast", "left_slow", "next", "chosen", "first", "word", "words",
    "halved", "first_of", "past", "part", "parts", "share", "split", "begin", "end", "element",
    "right_fast", "right_slow", "right_word", "right_scale", "right_zero", "scale", "zero", "bits", "above", "places",
    "of", "left_rest", "left_rest8", "right_rest", "right_first", "left_rest_part", "right_rest_part", "point",
    "eight_of", "first_bits", "at", "dot4", "n", "first_four", "last_four", "eight", "even_two", "odd_two", "even",
    "odd", "eight_halves", "finished", "finished4", "finished_at", "stored", "stored4", "stored_at",
)  # fmt: skip
"""Those that the templates' texts have."""


@dataclass(frozen=True)
class Product:
    """What a template is made of. Counts are texts of i32: numbers, or of the sizes of a call."""

    batch: str
    rows: str
    columns: str
    inner: str
    endless: bool
    """Whether factors are zeros beyond the inner axis' end: where steps do not divide it. Otherwise nothing may be
    asked for there."""
    left_along: bool
    """Whether elements of the factor lie beside each other along the inner axis."""
    right_along: bool
    left_across: bool
    """Whether a vector of the factor is four lines beside each other at one point of the inner axis."""
    right_across: bool
    functions: str


@dataclass(frozen=True)
class Before:
    """Lines before those of a template, what workgroups share besides for them, and what the comment says of that."""

    shared: Sequence[str] = ()
    lines: Sequence[str] = ()
    comment: str = ""


class Hooks(Ending):
    """Writes a product's functions into a kernel's text. `fours`: whether the template takes vectors of four rows, and
    of four columns, where factors lie so. `parts`: by what `finish` is left to another dispatch (split.py), of so many
    sums of each element; a batch is one of these of a batch then. `four_columns`: whether the template has sums of
    four columns beside each other, which are finished at once (`finish4`) where the output allows it: None: where
    `right_across`."""

    stores_apart = False
    """Whether the template finishes several sums before it stores the first, where that reads memory."""

    def __init__(
        self,
        text: Text,
        found: Contraction,
        fours: tuple[bool, bool] = (False, False),
        parts: Parts | None = None,
        four_columns: bool | None = False,
    ) -> None:
        super().__init__(text, found)
        self._parts = parts
        self._left = self._factor("left", "row", found.left, found.rows, found.inner)
        self._right = self._factor("right", "column", found.right, found.columns, found.inner)
        self._rest: Factor | None = None
        if found.rest is not None:
            self._rest = self._factor("left_rest", "row", found.rest, found.rows, found.inner)
        if fours[0]:
            self._left = self._across(self._left)
            self._rest = self._rest and self._across(self._rest)
        if fours[1]:
            self._right = self._across(self._right)
        if four_columns is None:
            four_columns = self._right.across
        self._lane: str | None = None
        if four_columns and parts is None:
            self._lane = self._four_columns()
        elif four_columns and product(self._indices, extents(found.columns)).divisible(4):
            self._lane = ""
        self._bind(self._factors, *([self._value] if parts is None else []))
        if parts is None:
            factors = {str(load.value) for factor in self._factors for load in loads(factor.value)}
            self._bind_end(self._lane, factors)
        else:
            parts.bind(text, fours=self.by_four_columns)

    @property
    def _factors(self) -> Sequence[Factor]:
        return self._left, *([] if self._rest is None else [self._rest]), self._right

    @property
    def by_four_columns(self) -> bool:
        """Whether it is `finish4` that takes sums."""
        return self._lane is not None

    @property
    def finishes_apart(self) -> bool:
        """Whether `finished` and `stored` (or those of four) take sums, in place of `finish`."""
        return self.stores_apart and self._parts is None and self.reads

    @property
    def right_along(self) -> bool:
        return self._along(self._right)

    @property
    def right_across(self) -> bool:
        return self._right.across

    @property
    def right_gathered(self) -> bool:
        """Whether numbers of the right factor that follow each other are read one by one, each with where it is."""
        value = self._right.value
        return (value.operands[0] if value.kind == "cast" else value).kind == "if_then_else"

    @property
    def right_in_word(self) -> int:
        return self._in_word(self._right)

    def product(self, step: int) -> Product:
        """`step`: how far along the inner axis the template goes at a time: where that divides the axis, nobody asks
        for what lies beyond."""
        functions = [self._vector(factor, step) for factor in self._factors]
        if self._parts is not None:
            functions.append(self._kept(self._parts))
        else:
            functions.append(self._finish_apart(self._lane) if self.finishes_apart else self._finish(self._lane))
        found = self._found
        return Product(
            batch=self._count(found.batch),
            rows=self._count(found.rows),
            columns=self._count(found.columns),
            inner=self._count(found.inner),
            endless=not product(self._indices, extents(found.inner)).divisible(step),
            left_along=self._along(self._left),
            right_along=self.right_along,
            left_across=self._left.across,
            right_across=self.right_across,
            functions="\n".join(functions),
        )

    def _before(self, workgroup: int) -> Before:
        """What an entry point of so many invocations does before the template's lines."""
        return Before()

    def _kept(self, parts: Parts) -> str:
        rows, columns = self._count(self._found.rows), self._count(self._found.columns)
        return parts.kept(rows, columns, self.by_four_columns)

    def launch(
        self,
        product: Product,
        shared: Iterable[str],
        lines: Iterable[str],
        comment: str,
        grid: tuple[str, Sequence[Any]],
        workgroup: int,
        more_arguments: Sequence[str] = (),
        helpers: str = ACCUMULATED,
    ) -> Launch:
        """The dispatch of a text: what workgroups share, the functions, and the `lines` of its entry point. `grid`: the
        text of a workgroup's number, and how many there are (`grid_of`)."""
        group, workgroups = grid
        before = self._before(workgroup)
        self._text.declarations = [*shared, *before.shared, "", product.functions, helpers]
        writer = self._text.writer()
        writer.symbols.update(self.symbols)
        for line in (*before.lines, *lines):
            writer.line(line)
        return self._text.launch(
            writer, comment + before.comment, [*arguments_of(group), *more_arguments], workgroup, workgroups
        )


def tiles(count: str, size: int) -> str:
    """The text of how many tiles of a size there are."""
    return str(-(-int(count) // size)) if count.isdigit() else f"({count} + {size - 1}) / {size}"


def numbered(group: str, count: str) -> Iterable[str]:
    """Which of so many tiles a workgroup has, whose number is `group` (see `grid_of`): where a grid is folded there are
    workgroups without any."""
    yield f"let tile = i32({bare(group)});"
    if "groups" in group:
        yield f"if (tile >= {count}) {{"
        yield "  return;"
        yield "}"


def last_step(end: str, depth: int) -> str:
    """The text of where the last step begins."""
    return str((int(end) - 1) // depth * depth) if end.isdigit() else f"({end} - 1) / {depth} * {depth}"


def shared_out(inner: str, depth: int, splits: int) -> Iterable[str]:
    """Which part of the inner axis a workgroup has of those that share it out: all but the last are of whole steps of
    `depth`."""
    if splits > 1:
        yield f"let part = tile % {splits};"
        yield f"let share = ({inner} + {splits * depth - 1}) / {splits * depth} * {depth};"
        yield "let begin = part * share;"
        yield f"let end = min(begin + share, {inner});"


def arguments_of(group: str) -> list[str]:
    """Of an entry point."""
    return [GROUP, GROUPS, NUMBER] if "groups" in group else [GROUP, NUMBER]
