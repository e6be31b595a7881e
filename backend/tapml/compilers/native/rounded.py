"""Products of one row that is rounded to 8-bit integers, as of a token (docs/quantise.md): each workgroup rounds the
row itself, to words in workgroup memory, and multiplies these as products of words do (dots.py).

A row has one scale, of its greatest absolute value. As an operator of its own rounding would be a dispatch more, which
takes longer to start than the row takes to read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tapml.compilers.native.combining import all_combined
from tapml.compilers.native.contraction import Contraction, contraction, factors_of
from tapml.compilers.native.dots import DOTS, EACH, ProductOfWords, words_of
from tapml.compilers.native.factors import Factor, Factors, extents
from tapml.compilers.native.grouped import OWN_NAMES_OF_GROUPS, ProductOfGroups, by_groups, kind_of, of_groups
from tapml.compilers.native.kernel import WORKGROUP_MEMORY, Found, Launch, Text, ceildiv, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import OWN_NAMES, Before, Product
from tapml.compilers.native.skinny import INVOCATIONS, Split, skinny, split_of
from tapml.compilers.native.skinny_groups import skinny_groups, split_of_groups
from tapml.compilers.native.stages import Index, Numbering, Stage, rewritten, substituted, variable
from tapml.operators.program import Expression

_LARGEST = 127
"""That a rounded number may be: a byte with a sign holds it."""

_VECTOR = 16
"""Numbers of four words, and the bytes that these are of."""

_BESIDE = 2 * 4 * INVOCATIONS
"""Bytes of workgroup memory that are no words: sums, and what each invocation has found to be the greatest."""

_TOGETHER = 16
"""Invocations that put together what all have found."""

_ENOUGH = 1024
"""Workgroups that fill a large device: each rounds the row, and more of them would only do so more often."""

_ENOUGH_OF_GROUPS = 256
"""The same of weights of 4 bits in groups, of which there is half as much to read."""

_MOST_GROUPS = 8
"""That are read at a time."""

_GREATEST = "greatest"
"""The variable that stands for the greatest absolute value of the row."""

_OWN_NAMES = (
    *OWN_NAMES, _GREATEST, "greatest_part", "absolute", "absolute4", "nearest", "nearest4", "rounded_word",
    "rounded_part", "bytes", "four", "most",
)  # fmt: skip

_FUNCTIONS = """\
// Four numbers of the row, rounded, as the bytes of a word.
fn rounded_word(k : i32) -> u32 {
  let bytes = bitcast<vec4<u32>>(vec4<i32>(nearest4(0, 0, k))) & vec4<u32>(0xffu);
  return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}
"""


def rounded(found: Found, chosen: Split | None = None) -> list[Launch] | None:
    """One dispatch for a product of integers of which the left factor is one row that is rounded. None for what is
    none, or where the row has no room in workgroup memory. `chosen`: how it is shared out, as in `matmul`."""
    if len(found.stages) < 2 or found.threads < INVOCATIONS or found.textures:
        return None
    first, *others = found.stages
    if first.combine != "max" or first.spatial or len(first.reduction) != 1 or first.buffer in found.outputs:
        return None
    others = [_without(stage, first.buffer) for stage in others]
    others, group = by_groups(others) or (others, None)
    if not _rounds(others, first, group is not None):
        return None
    found = dataclasses.replace(found, stages=others)
    indices = found.own_indices()
    if group is not None:
        indices.declare(group.variable, group.extent)
    made = found.memory.of(indices, "contraction", (), lambda: contraction(found, indices, group))
    if made is None or made.batch or made.rows or not _of_words(found, indices, made):
        return None
    inner, columns = int(made.inner[0].extent), times(*extents(made.columns))
    words = -(-inner // EACH)
    if not isinstance(columns, int) or -(-inner // _VECTOR) * _VECTOR + _BESIDE > WORKGROUP_MEMORY:
        return None

    def count(_: int, wide: int) -> tuple[int, int]:
        return ceildiv(columns, wide), ceildiv(columns, wide)

    given = {_GREATEST: _GREATEST}
    if group is not None:
        text = Text(found, found.entry_point, indices, (*_OWN_NAMES, *OWN_NAMES_OF_GROUPS), given=given)
        by_groups_of = _RoundedGroups(text, made)
        split = chosen or _split_of_groups(by_groups_of.groups, columns)
        return [skinny_groups(by_groups_of, 1, split, count, kind_of(found.dots))]
    hooks = _Rounded(Text(found, found.entry_point, indices, _OWN_NAMES, given=given), made)
    split = chosen or _fewer(split_of(columns, words, 1, along=True), columns, _ENOUGH)
    return [skinny(hooks, 1, split, count, DOTS[found.dots])]


def _of_words(found: Found, indices: Indices, made: Contraction) -> bool:
    """Whether the right factor is integers in words."""
    if made.groups is not None:
        return of_groups(found, indices, made, right_alone=True)
    return words_of(indices, found.buffers, made.right, made.inner) is not None


def _without(stage: Stage, buffer: str) -> Stage:
    """The stage, in which a variable stands for the one element of the buffer."""
    known = variable(_GREATEST, "float32")

    def change(part: Expression) -> Expression | None:
        return known if part.kind == "load" and part.value == buffer else None

    return dataclasses.replace(stage, value=rewritten(stage.value, change))


def _rounds(stages: Sequence[Stage], first: Stage, grouped: bool) -> bool:
    """Whether the sum among the stages is one of what is rounded by the greatest absolute value of the row, that the
    first stage tells: such numbers are bytes. `grouped`: whether it is as `by_groups` makes it."""
    sums = [stage for stage in stages if stage.combine == "add" and len(stage.reduction) == 1]
    term = sums[0].value if len(sums) == 1 else None
    if term is not None and grouped:
        (term,) = term.operands[0].operands
    factors = factors_of(term) if term is not None else None
    given = next((row for factor in factors or () if (row := _rounded_of(factor)) is not None), None)
    if given is None or sums[0].reduction[0].extent != first.reduction[0].extent:
        return False
    numbers, absolute = Numbering(), Expression("call", "float32", (given,), "fabs")
    along = {first.reduction[0].variable: variable(sums[0].reduction[0].variable)}
    return numbers(substituted(first.value, along)) == numbers(absolute)


def _rounded_of(factor: Expression) -> Expression | None:
    """What a factor is, `integer(floor(given * (largest / max(greatest, least)) + 0.5))`: `given`."""
    match factor:
        case Expression(
            "cast", "int32", (Expression("call", "float32", (Expression("add", _, (scaled, half)),), "floor"),)
        ):
            pass
        case _:
            return None
    match scaled:
        case Expression("mul", _, (given, Expression("div", _, (largest, Expression("max", _, (greatest, least)))))):
            pass
        case _:
            return None
    constants = half.kind == largest.kind == least.kind == "constant" and greatest.kind == "variable"
    if not constants or greatest.value != _GREATEST or float(half.value or 0) != 0.5 or float(least.value or 0) <= 0:
        return None
    return given if 0 < float(largest.value or 0) <= _LARGEST else None


def _fewer(split: Split, columns: int, enough: int) -> Split:
    """With no more workgroups than fill a large device where lanes still read whole cache lines."""
    while split.lanes > 8 and columns > enough * split.columns:
        split = dataclasses.replace(split, columns=2 * split.columns, lanes=split.lanes // 2)
    return split


def _split_of_groups(groups: int, columns: int) -> Split:
    """On an H200 4096 x 4096 takes 7.6 us so, and 9.7 by four times as many workgroups."""
    split = _fewer(split_of_groups(groups), columns, _ENOUGH_OF_GROUPS)
    return dataclasses.replace(split, vectors=max(1, min(_MOST_GROUPS, groups // split.lanes)))


class _Rounded(ProductOfWords):
    """The functions of such a product: `nearest4` and `absolute4` are of four numbers of the row as the program rounds
    them, and before; `left4` is four words of workgroup memory."""

    def _factor(self, name: str, line: str, value: Expression, own: Sequence[Index], inner: Sequence[Index]) -> Factor:
        if name == "right":
            return super()._factor(name, line, value, own, inner)
        given = _rounded_of(value)
        assert given is not None
        absolute = Expression("call", "float32", (given,), "fabs")
        self._absolute = Factors._factor(self, "absolute", line, absolute, own, inner)
        return Factors._factor(self, "nearest", line, value.operands[0], own, inner)

    @property
    def _factors(self) -> Sequence[Factor]:
        return self._absolute, self._left, self._right

    def _bind(self, factors: Sequence[Factor], *others: Expression) -> None:
        *row, right = factors
        Factors._bind(self, row, *others)
        super()._bind([right])

    def _vector(self, factor: Factor, step: int) -> str:
        return super()._vector(factor, step) if factor.name == "right" else Factors._vector(self, factor, _VECTOR)

    @property
    def _vectors(self) -> int:
        """Of four words each, that the row is."""
        return -(-self._inner()[0] // _VECTOR)

    def product(self, step: int) -> Product:
        made, words = super().product(step), self._inner()[1]
        left = ["fn left4(batch : i32, row : i32, k : i32) -> vec4<u32> {"]
        if words % step:
            left += [f"  if (k >= {words}) {{", "    return vec4<u32>();", "  }"]
        left += ["  return rounded_part[k / 4];", "}\n"]
        return dataclasses.replace(made, functions="\n".join([made.functions, _FUNCTIONS, *left]))

    def _before(self, workgroup: int) -> Before:
        shared = [
            f"var<workgroup> greatest_part : array<f32, {workgroup}>;",
            f"var<workgroup> rounded_part : array<vec4<u32>, {self._vectors}>;",
            f"var<private> {_GREATEST} : f32;",
        ]
        said = "\nBefore that it rounds the row, to words in workgroup memory."
        return Before(shared, [*self._rounding(workgroup)], said)

    def _rounding(self, workgroup: int) -> Iterable[str]:
        """Leaves the row's greatest absolute value in each invocation, and its words in workgroup memory."""
        inner, step = self._inner()[0], 4 * workgroup
        yield "var most = 0.0;"
        yield f"for (var k = i32(number) * 4; k < {inner}; k += {step}) {{"
        yield "  let four = absolute4(0, 0, k);"
        yield "  most = max(most, max(max(four.x, four.y), max(four.z, four.w)));"
        yield "}"
        yield "greatest_part[number] = most;"
        yield "workgroupBarrier();"
        others = [f"greatest_part[number + {n}u]" for n in range(_TOGETHER, workgroup, _TOGETHER)]
        yield f"if (number < {_TOGETHER}u) {{"
        yield f"  greatest_part[number] = {all_combined('max', ['greatest_part[number]', *others])};"
        yield "}"
        yield "workgroupBarrier();"
        yield f"{_GREATEST} = {all_combined('max', [f'greatest_part[{n}]' for n in range(_TOGETHER)])};"
        yield f"for (var n = i32(number); n < {self._vectors}; n += {workgroup}) {{"
        words = ", ".join(f"rounded_word(n * {_VECTOR}{f' + {more}' if more else ''})" for more in range(0, _VECTOR, 4))
        yield f"  rounded_part[n] = vec4<u32>({words});"
        yield "}"
        yield "workgroupBarrier();"
        yield ""


class _RoundedGroups(_Rounded, ProductOfGroups):
    """The same of weights of 4 bits in groups."""
