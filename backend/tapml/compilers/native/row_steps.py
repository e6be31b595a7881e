"""The steps of an operator over rows: what says which row, and what goes along it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.axes import Axes, flattened
from tapml.compilers.native.kernel import Found, product, times
from tapml.compilers.native.polynomials import Indices, Polynomial, number
from tapml.compilers.native.stages import Index, Stage, loads, rewritten, substituted, variable
from tapml.operators.program import Expression


@dataclass
class Step:
    """One stage over rows: `outer` axes say which row, `inner` ones where in it. `stored`: a load of what it writes."""

    stage: Stage
    outer: list[Index]
    inner: list[Index]
    value: Expression
    stored: Expression

    @property
    def form(self) -> tuple[str, str]:
        return str([index.extent for index in self.outer]), str([index.extent for index in self.inner])


def steps_of_rows(found: Found, indices: Indices) -> list[Step] | None:
    gathered = {stage.buffer: stage for stage in found.stages if stage.combine}
    shape: Polynomial | None = None
    names: dict[str, list[Index]] = {}
    steps = []
    for stage in found.stages:
        stored = Expression("load", found.buffers[stage.buffer].dtype, stage.indices, stage.buffer)
        axes = Axes(indices, (*stage.spatial, *stage.reduction), [stored, stage.value], found.buffers)
        axes.arrange()
        stored, value = axes.roots
        own = [load for load in loads(value) if load.value in gathered]
        if stage.combine:
            own.append(stored)
        if not own:
            return None
        places = [indices.flat(load.operands, found.buffers[str(load.value)].shape) for load in own]
        outer = [axis for axis in axes.axes if axis.variable in places[0].atoms()]
        inner = [axis for axis in axes.axes if axis.variable not in places[0].atoms()]
        count = product(indices, [axis.extent for axis in outer])
        if any(place.terms != _row_major(indices, outer).terms for place in places):
            return None
        if shape is not None and count.terms != shape.terms:
            return None
        shape = count
        if stage.combine and stage.start is not None and stage.start.kind != "constant":
            return None
        # Axes that are the same in several steps have one name.
        values: dict[str, Expression] = {}
        for axis_list, kind in ((outer, "outer"), (inner, "inner")):
            key = f"{kind}{[axis.extent for axis in axis_list]}"
            canonical = names.setdefault(
                key, [Index(f"{kind}{len(names)}_{n}", a.extent) for n, a in enumerate(axis_list)]
            )
            for axis, same in zip(axis_list, canonical, strict=True):
                values[axis.variable] = variable(same.variable)
                indices.declare(same.variable, same.extent)
            axis_list[:] = canonical
        indices.forget()
        total = {buffer: variable(f"total {buffer}", found.buffers[buffer].dtype) for buffer in gathered}
        made = [
            _plain(indices, found, substituted(root, values), total if root is value else {})
            for root in (stored, value)
        ]
        steps.append(Step(stage, outer, inner, made[1], made[0]))
    return steps


def _row_major(indices: Indices, axes: Sequence[Index]) -> Polynomial:
    found = number(0)
    for axis in axes:
        found = found * indices.size(axis.extent) + indices(variable(axis.variable))
    return found


def _plain(indices: Indices, found: Found, root: Expression, totals: dict[str, Expression]) -> Expression:
    """With totals in place of loads of them."""
    known = rewritten(root, lambda load: totals.get(str(load.value)) if load.kind == "load" else None)
    return flattened(indices, found.buffers, known)


SHORT = 16
"""Elements of a row that one invocation goes over in any case."""

_NARROW = 32
"""Elements beside each other of a window, of which those of rows beside each other are the greater part."""


def reads_along(indices: Indices, step: Step, found: Found) -> bool:
    """Does its row lie in a row somewhere, so that neighbours read neighbours? A narrow window over an image does not:
    those of results beside each other lie beside each other, too, and are more."""
    if not step.inner:
        return False
    last = step.inner[-1]
    wide = indices.greatest(last.extent)
    narrow = wide < _NARROW and indices.greatest(length_of(step)) > SHORT
    # Windows that touch: of one axis they would be rows.
    apart = wide if len(step.inner) > 1 else 1
    for load in loads(step.value):
        place = indices.flat(load.operands, found.buffers[str(load.value)].shape)
        beside = narrow and any(1 <= _step_of(place, index) <= apart for index in step.outer)
        if _step_of(place, last) == 1 and not beside:
            return True
    return False


def length_of(step: Step) -> Any:
    """How many elements of a row it goes over, an expression."""
    return times(*(index.extent for index in step.inner))


def _step_of(place: Polynomial, index: Index) -> int:
    """How far a place goes with an index; 0 where that is no number."""
    factor = place.coefficient(index.variable)
    return (factor.constant or 0) if factor is not None else 0


def is_product(indices: Indices, step: Step, found: Found) -> bool:
    """Is it of matrices: is what one factor says of a row asked for by many rows, and that of another by others?"""
    outer = {index.variable for index in step.outer}
    inner = {index.variable for index in step.inner}
    axes = []
    for load in loads(step.value):
        place = indices.flat(load.operands, found.buffers[str(load.value)].shape)
        on = {variable for variable in (*outer, *inner) if indices.depends(place, variable)}
        if on & inner:
            axes.append(on & outer)
    return any(a - b and b - a for a in axes for b in axes)
