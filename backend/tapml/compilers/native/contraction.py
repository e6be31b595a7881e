"""Which operators are matrix products: recognised by what they compute, not by their names.

A sum of products of two factors is one. Axes of the output that both factors depend on are its batch, those of one
factor alone its rows and its columns, what is summed over is its inner axes. Matrix products of any strides,
transposes and grouped heads have this form, and convolutions too: their input is a factor whose index is a sum of axes.

All of it is told in the axes of the output: where a transpose or a reshape follows the sum, the factors are read
where each element of the output needs them, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native.axes import Axes
from tapml.compilers.native.kernel import Found
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.stages import (
    Index,
    Numbering,
    Stage,
    loads,
    rewritten,
    substituted,
    variable,
    variables_of,
)
from tapml.operators.program import FLOATS, Expression

TOTAL = "total"
"""The variable that stands for the sum in `Contraction.finish`."""

_SUMS = ("float32", "float16", "int32")


@dataclass(frozen=True)
class Groups:
    """The inner axis in groups (grouped.py): what is summed of each is multiplied by `scale`, over `axis`, the number
    of a group."""

    scale: Expression
    axis: Index


@dataclass(frozen=True)
class Contraction:
    """For each point of `batch`, `rows` and `columns`, `finish` is stored where `stored`, a load, would read, and in it
    the variable TOTAL is the sum of `left` * `right` over `inner`.

    `left` depends on batch, rows and inner, `right` on batch, columns and inner; both are float32, or int32 as the sum
    is. The axes of each group are in the order of the output. `dtype` is the sum's in the operator's program.
    """

    axes: tuple[Index, ...]
    """Those of the output, in its order: batch, rows and columns."""
    batch: tuple[Index, ...]
    rows: tuple[Index, ...]
    columns: tuple[Index, ...]
    inner: tuple[Index, ...]
    left: Expression
    right: Expression
    dtype: str
    finish: Expression
    stored: Expression
    rest: Expression | None = None
    """What is added to `left`, where that is a sum of two numbers of float16 (pieces.py)."""
    groups: Groups | None = None
    """Where they are, factors are int32, as sums of groups are, and the sum of these is float32."""

    def turned(self) -> Contraction:
        """With rows for columns: the product of the transposed factors."""
        return replace(self, rows=self.columns, columns=self.rows, left=self.right, right=self.left)


def contraction(found: Found, indices: Indices, group: Index | None = None) -> Contraction | None:
    """What an operator of one output computes, where that is a product of matrices and what may follow it element by
    element. Columns are the group that the output's last axis is in. `indices` come to know its axes. `group`: the axis
    of groups, where terms are products of integers, as numbers of float32, times a scale of these (grouped.py)."""
    summed = with_its_end(found.stages)
    if summed is None or len(found.outputs) != 1:
        return None
    stage, end = summed
    product, scales = stage.value, list[Expression]()
    if group is not None:
        cast, scale = product.operands
        (product,), scales = cast.operands, [scale]
    factors = factors_of(product)
    if factors is None:
        return None
    stored = Expression("load", found.buffers[stage.buffer].dtype, stage.indices, stage.buffer)
    axes = Axes(indices, stage.spatial, (*factors, end, stored, *scales), found.buffers)
    axes.arrange()
    left, right, end, stored, *scales = axes.roots
    on = [used(found, indices, factor) for factor in (left, right)]
    by_use: dict[tuple[bool, bool], list[Index]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    for axis in axes.axes:
        by_use[axis.variable in on[0], axis.variable in on[1]].append(axis)
    rows, columns = by_use[True, False], by_use[False, True]
    if by_use[False, False] or not (rows or columns):
        return None  # nothing is used twice
    made = Contraction(
        axes=tuple(axes.axes),
        batch=tuple(by_use[True, True]),
        rows=tuple(rows),
        columns=tuple(columns),
        inner=stage.reduction,
        left=left,
        right=right,
        dtype=stage.value.dtype,
        finish=end,
        stored=stored,
        groups=None if group is None else Groups(scales[0], group),
    )
    if group is not None:
        return made if columns and axes.axes[-1] in columns else None
    return made.turned() if not columns or axes.axes[-1] in rows else made


def used(found: Found, indices: Indices, factor: Expression) -> set[str]:
    """The variables that a factor is another number for: not those that its indices divide away."""
    elsewhere = rewritten(factor, lambda part: replace(part, operands=()) if part.kind == "load" else None)
    found_in = variables_of(elsewhere)
    for load in loads(factor):
        for atom in indices.flat(load.operands, found.buffers[str(load.value)].shape).atoms():
            found_in |= {atom} if isinstance(atom, str) else variables_of(indices.opaque[atom])
    return found_in


def with_its_end(stages: Sequence[Stage]) -> tuple[Stage, Expression] | None:
    """The one sum of `stages`, written in the axes of the output that it ends in, and what becomes of it."""
    sums = [stage for stage in stages if stage.combine]
    others = [stage for stage in stages if not stage.combine]
    if len(sums) != 1 or len(others) > 1 or sums[0].combine != "add":
        return None
    (total,) = sums
    nothing = total.start is not None and total.start.kind == "constant" and total.start.value == 0
    if not nothing or total.value.dtype not in _SUMS:
        return None
    result = variable(TOTAL, total.value.dtype)
    if not others:
        return total, result
    (end,) = others
    reads = [found for found in loads(end.value) if found.value == total.buffer]
    numbers = Numbering()
    if len({numbers(found) for found in reads}) != 1:
        return None
    places = {
        str(axis.value): index
        for axis, index in zip(total.indices, reads[0].operands, strict=True)
        if axis.kind == "variable"
    }
    moved = replace(
        total, buffer=end.buffer, spatial=end.spatial, indices=end.indices, value=substituted(total.value, places)
    )
    return moved, rewritten(end.value, lambda found: result if _loads(found, total.buffer) else None)


def _loads(found: Expression, buffer: str) -> bool:
    return found.kind == "load" and found.value == buffer


def factors_of(term: Expression) -> tuple[Expression, Expression] | None:
    """The two factors of a term; of floats in float32, in which products are summed whatever the program's dtype is."""
    while term.kind == "cast" and term.operands[0].dtype in FLOATS:
        term = term.operands[0]
    if term.kind != "mul" or term.dtype not in _SUMS:
        return None
    left, right = term.operands if term.dtype == "int32" else map(widened, term.operands)
    return left, right


def widened(factor: Expression) -> Expression:
    """In float32, in which products are summed."""
    return factor if factor.dtype == "float32" else Expression("cast", "float32", (factor,))
