"""Products of 8-bit integers in words with weights that are 4-bit integers in words (docs/quantise.md): sums of whole
numbers of each group of a row, times the group's scale, added up in float32.

The left factor is read as in products of words (dots.py). A word of the right one has eight integers: it becomes two
words of four bytes, less what stands for 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.contraction import Contraction, contraction, factors_of, used
from tapml.compilers.native.dots import DOTS, EACH, ProductOfWords, words_of
from tapml.compilers.native.factors import Factor, Factors
from tapml.compilers.native.integers import codes_of
from tapml.compilers.native.kernel import Found
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, Kind
from tapml.compilers.native.stages import Index, Stage, at_element, loads, rewritten, variable, variables_of
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression

GROUP = 32
"""Integers of a group, which the templates' steps are whole ones of."""

OF_GROUP = GROUP // EACH
"""Words of four bytes of a group."""

_BITS = 4
_WORDS = GROUP * _BITS // 32
"""Words of the right factor of a group."""

OWN_NAMES_OF_GROUPS = (
    *OWN_NAMES, "right_words", "bytes_of", "bytes_of_two", "pairs", "bytes", "second", "four", "two", "group_of",
    "scale_part",
)  # fmt: skip
"""Those that the templates' texts have."""

_BYTES = """\
// The integers of half a word of eight as the bytes of a word, less what stands for 0.
fn bytes_of(half : u32) -> u32 {{
  let pairs = (half | (half << 8u)) & 0x00ff00ffu;
  let bytes = (pairs | (pairs << 4u)) & 0x0f0f0f0fu;
  return ((bytes | 0x80808080u) - {zeros}u) ^ 0x80808080u;
}}

// Those of two words as four.
fn bytes_of_two(first : u32, second : u32) -> vec4<u32> {{
  return vec4<u32>(
    bytes_of(first & 0xffffu), bytes_of(first >> 16u), bytes_of(second & 0xffffu), bytes_of(second >> 16u)
  );
}}
"""


def kind_of(dots: bool) -> Kind:
    """What the templates' texts have in place of numbers: vectors of words, and sums of float32."""
    return dataclasses.replace(DOTS[dots], scalar="f32", zero="0.0")


def by_groups(stages: Sequence[Stage]) -> tuple[list[Stage], Index] | None:
    """The stages with one sum over all of the inner axis in place of those of groups, of products of integers times the
    scale of the group that they are in, and the axis of groups. None where there is no sum of such sums."""
    sums = [stage for stage in stages if stage.combine == "add"]
    if len(sums) != 2 or [*map(len, (sums[0].reduction, sums[1].reduction))] != [1, 1]:
        return None
    (terms, total), value = sums, sums[1].value
    (own,), (group,) = terms.reduction, total.reduction
    if own.extent != GROUP or not isinstance(group.extent, int) or (value.kind, value.dtype) != ("mul", "float32"):
        return None
    start, rest = terms.start, [stage.value for stage in stages if stage not in sums]
    if terms.value.dtype != "int32" or start is None or start.kind != "constant" or start.value != 0:
        return None
    if any(load.value == terms.buffer for load in loads(*rest)):
        return None
    term = next((pair for pair in (value.operands, value.operands[::-1]) if _cast_of(pair[0], terms.buffer)), None)
    if term is None or not terms.covers:
        return None
    cast, scale = term
    (load,) = cast.operands
    point = f"{group.variable}_{own.variable}"
    summed = _of_points(at_element(terms, load.operands), group.variable, own.variable, point)
    factors = factors_of(summed)
    if factors is None or variables_of(summed) & {group.variable, own.variable}:
        return None
    unfilled = [_unfilled(factor, point, GROUP * group.extent) for factor in factors]
    (left, inner), (right, same) = unfilled
    if inner != same or -(-inner // GROUP) != group.extent:
        return None
    product = dataclasses.replace(cast, operands=(Expression("mul", "int32", (left, right)),))
    value = dataclasses.replace(value, operands=(product, scale))
    made = dataclasses.replace(total, value=value, reduction=(Index(point, inner),))
    return [made if stage is total else stage for stage in stages if stage is not terms], group


def _cast_of(value: Expression, buffer: str) -> bool:
    """Whether it is an element of the buffer, as a number of float32."""
    return (
        (value.kind, value.dtype) == ("cast", "float32")
        and value.operands[0].kind == "load"
        and value.operands[0].value == buffer
    )


def _of_points(root: Expression, group: str, own: str, point: str) -> Expression:
    """Written in the number of a point of the inner axis, in place of that of its group and that within it."""

    def change(part: Expression) -> Expression | None:
        match part:
            case Expression(
                "add", _, (Expression("mul", _, (Expression("variable", _, _, first), size)), Expression() as second)
            ) if first == group and size.kind == "constant" and size.value == GROUP:
                return variable(point) if second.kind == "variable" and second.value == own else None
        return None

    return rewritten(root, change)


def _unfilled(factor: Expression, point: str, filled: int) -> tuple[Expression, int]:
    """Without the zeros behind the end of the inner axis, and how long that is."""
    match factor:
        case Expression("if_then_else", _, (Expression("lt", _, (at, end)), value, rest)):
            at_point = at.kind == "variable" and at.value == point and end.kind == "constant"
            if at_point and rest.kind == "constant" and rest.value == 0:
                return value, int(end.value or 0)
    return factor, filled


def grouped(found: Found) -> tuple[Found, Indices, Contraction] | None:
    """The operator with one sum in place of those of groups, and the product that it is; None for others."""
    known = by_groups(found.stages)
    if known is None or found.textures:
        return None
    stages, group = known
    found = dataclasses.replace(found, stages=stages)
    indices = found.own_indices()
    indices.declare(group.variable, group.extent)
    made = contraction(found, indices, group)
    return None if made is None or not of_groups(found, indices, made) else (found, indices, made)


def of_groups(found: Found, indices: Indices, made: Contraction, *, right_alone: bool = False) -> bool:
    """Whether the factors of a product are 8-bit and 4-bit integers in words, and scales those of columns;
    `right_alone`: whatever the left one is."""
    assert made.groups is not None
    if nibbles_of(indices, found.buffers, made.right, made.inner) is None:
        return False
    if not right_alone and words_of(indices, found.buffers, made.left, made.inner) is None:
        return False
    columns = {axis.variable for axis in (*made.batch, *made.columns)}
    return used(found, indices, made.groups.scale) <= {*columns, made.groups.axis.variable}


def nibbles_of(
    indices: Indices, buffers: Any, value: Expression, inner: Sequence[Index]
) -> tuple[Expression, int] | None:
    """The load of the words whose integers a factor is, and what stands for 0."""
    if len(inner) != 1 or value.kind != "sub" or value.dtype != "int32":
        return None
    codes, zero = value.operands
    known = codes_of(indices, buffers, codes, inner[0].variable)
    if known is None or known[1] != _BITS or zero.kind != "constant" or not 0 <= int(zero.value or 0) < 2**_BITS:
        return None
    return known[0], int(zero.value or 0)


class ProductOfGroups(ProductOfWords):
    """The functions of such a product: `left4` is four words of signed bytes along the inner axis, which is counted in
    such words, and `right4` the same of the right factor; `right_words` is all of a group of that, as it lies, and
    `right_scale` the group's scale."""

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        if name == "right":
            groups = self._found.groups
            assert groups is not None
            self._scale = Factors._factor(self, "right_scale", line, groups.scale, own, [groups.axis])
        return super()._factor(name, line, value, own, inner)

    def _nibbles(self) -> tuple[Expression, int]:
        found = nibbles_of(self._indices, self._buffers, self._right.value, self._right.inner)
        assert found is not None
        return found

    @property
    def groups(self) -> int:
        """How many a row has."""
        return int(self._scale.inner[0].extent)

    @property
    def helpers(self) -> str:
        """The functions that make bytes of words."""
        return _BYTES.format(zeros=hex(0x01010101 * self._nibbles()[1]))

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        super()._bind([factor for factor in factors if factor.name != "right"], *others)
        if any(factor.name == "right" for factor in factors):
            self._text.bind(str(self._nibbles()[0].value), 4 if self._of_whole_groups else 1)
            Factors._bind(self, (), self._scale.value)

    @property
    def _place_of_right(self) -> Any:
        """Where a row of the right factor begins, in its words."""
        return self._words_before(self._nibbles()[0], self._right.inner[0].variable, 2 * EACH)

    @property
    def _words_of_right(self) -> int:
        return -(-self._inner()[0] // (2 * EACH))

    @property
    def _of_whole_groups(self) -> bool:
        """Whether the words of a group are always a vector of their buffer."""
        return self._words_of_right % _WORDS == 0 and bool(self._place_of_right.divisible(_WORDS))

    def _vector(self, factor: Factor, step: int) -> str:
        if factor.name != "right":
            return super()._vector(factor, step)
        return "\n".join([self._group(), self._four(), self._scale_of_group()])

    def _group(self) -> str:
        """`right_words`, of the number of a group; beyond the last word there are zeros."""
        writer = self._writer()
        writer.lines.append("fn right_words(batch : i32, column : i32, group_of : i32) -> vec4<u32> {")
        self._decoded(writer, self._right.batch, "batch")
        self._decoded(writer, self._right.own, "column")
        access, begin, words = self._text.accesses[str(self._nibbles()[0].value)], self._place_of_right, _WORDS
        if access.width == words:
            text = bare(writer.polynomial(begin.divided(words)))
            writer.line(f"return {access.name}[{'group_of' if text == '0' else f'{text} + group_of'}];")
        else:
            text, count = bare(writer.polynomial(begin)), self._words_of_right
            where = "" if text == "0" else f"{text} + "
            writer.line("var found = vec4<u32>();")
            end = f"min({words}, {count} - group_of * {words})" if count % words else str(words)
            writer.line(f"for (var n = 0; n < {end}; n++) {{")
            writer.line(f"  found[n] = {access.name}[{where}group_of * {words} + n];")
            writer.line("}")
            writer.line("return found;")
        writer.lines.append("}\n")
        return self._ended(writer)

    def _four(self) -> str:
        """`right4`, of half a group."""
        lines = [
            "fn right4(batch : i32, column : i32, k : i32) -> vec4<u32> {",
            f"  let four = right_words(batch, column, min(k / {OF_GROUP}, {self.groups - 1}));",
            f"  let two = select(four.xy, four.zw, k % {OF_GROUP} != 0);",
            "  return bytes_of_two(two.x, two.y);",
            "}\n",
        ]
        return "\n".join(lines)

    def _scale_of_group(self) -> str:
        writer, factor = self._writer(), self._scale
        writer.lines.append("fn right_scale(batch : i32, column : i32, group_of : i32) -> f32 {")
        self._decoded(writer, factor.batch, "batch")
        self._decoded(writer, factor.own, "column")
        self._decoded(writer, factor.inner, "group_of")
        writer.line(f"return {bare(writer.value(factor.value))};")
        writer.lines.append("}\n")
        return self._ended(writer)
