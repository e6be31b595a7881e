"""Few long rows, as one sum of a million numbers: workgroups share out each of them, and a second dispatch puts
together what they leave."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapml.compilers.native.combining import identity
from tapml.compilers.native.kernel import Found, times
from tapml.compilers.native.row_steps import Step, length_of
from tapml.compilers.native.stages import Index, Stage, loads, substituted, variable
from tapml.operators.program import Buffer, Expression, integer

_LONG = 2**17
"""Elements of a row that one workgroup takes longer for than another dispatch does: 6 us on an H200."""
_FEW = 32
"""Rows that leave most of a large device idle."""
_WORKGROUPS, _PART = 256, 2048
"""Of all rows; and elements of a row that each has at least."""


def in_parts(found: Found, steps: Sequence[Step]) -> Found | None:
    """The operator with two stages in place of each reduction: of parts of its rows, and of these. None where there are
    rows enough, or they are too short for that."""
    reduced = [step for step in steps if step.stage.combine and step.inner]
    lengths = [length_of(step) for step in reduced]
    count = times(*(index.extent for index in steps[0].outer))
    if not isinstance(count, int) or not all(isinstance(length, int) for length in lengths):
        return None
    if count > _FEW or min(lengths) < _LONG:
        return None
    parts = min(_WORKGROUPS // count, min(lengths) // _PART)
    stages, temporaries = list[Stage](), list[Buffer]()
    waiting = list[Stage]()
    gathered = {step.stage.buffer for step in reduced}
    for stage in found.stages:
        read = {str(load.value) for load in loads(stage.value)}
        # Reductions that do not wait for each other are one dispatch.
        if stage.buffer not in gathered or any(one.buffer in read for one in waiting):
            stages += waiting
            waiting = []
        if stage.buffer not in gathered:
            stages.append(stage)
            continue
        buffer, of_parts, of_all = _shared_out(stage, parts)
        temporaries.append(buffer)
        stages.append(of_parts)
        waiting.append(of_all)
    program = dataclasses.replace(found.program, temporaries=(*found.program.temporaries, *temporaries))
    return dataclasses.replace(found, program=program, stages=[*stages, *waiting])


@dataclass(frozen=True)
class _Cut:
    """An axis that is gone over in `count` parts of `size` points; the last may have fewer."""

    axis: Index
    size: int
    count: int

    @property
    def whole(self) -> bool:
        return bool(self.size * self.count == self.axis.extent)


def _cuts(reduction: Sequence[Index], parts: int) -> Iterator[_Cut]:
    """So that there are about as many parts: of the first axes, whose points lie farthest apart."""
    left = parts
    for number, axis in enumerate(reduction):
        size = -(-axis.extent // left)
        four = 4 if number == len(reduction) - 1 else 1  # that are read at once
        size = next(
            (more for more in range(size, size + size // 2 + 1) if axis.extent % more == more % four == 0), size
        )
        size = min(axis.extent, -(-size // four) * four)
        cut = _Cut(axis, size, -(-axis.extent // size))
        yield cut
        left = max(1, left // cut.count)


def _shared_out(stage: Stage, parts: int) -> tuple[Buffer, Stage, Stage]:
    """The temporary of what parts of a reduction's rows come to, the stage that writes it, and that which puts these
    together."""
    cuts = list(_cuts(stage.reduction, parts))
    cut = [one for one in cuts if one.count > 1]
    values = {index.variable: variable(f"{index.variable}_p") for index in stage.spatial}
    term, inside = stage.value, list[Expression]()
    for one in cuts:
        within, part = (variable(f"{one.axis.variable}_{what}") for what in ("in", "part"))
        first = Expression("mul", "int64", (part, integer(one.size)))
        place = within if one.count == 1 else part if one.size == 1 else Expression("add", "int64", (first, within))
        values[one.axis.variable] = place
        if not one.whole:
            inside.append(Expression("lt", "bool", (place, integer(one.axis.extent))))
    start = identity(stage)
    if start.dtype == "float16":  # parts are not rounded
        start, term = dataclasses.replace(start, dtype="float32"), Expression("cast", "float32", (term,))
    term = substituted(term, values)
    for condition in inside:
        term = Expression("if_then_else", term.dtype, (condition, term, start))
    spatial = [Index(f"{index.variable}_p", index.extent) for index in stage.spatial]
    spatial += [Index(f"{one.axis.variable}_part", one.count) for one in cut]
    buffer = Buffer(f"{stage.buffer} in parts", start.dtype, tuple(index.extent for index in spatial))
    of_parts = Stage(
        buffer.name,
        tuple(spatial),
        tuple(variable(index.variable) for index in spatial),
        term,
        tuple(Index(f"{one.axis.variable}_in", one.size) for one in cuts if one.size > 1),
        stage.combine,
        start,
    )
    all_parts = [Index(f"{one.axis.variable}_of", one.count) for one in cut]
    places = tuple(variable(index.variable) for index in (*stage.spatial, *all_parts))
    left = Expression("load", buffer.dtype, places, buffer.name)
    return buffer, of_parts, dataclasses.replace(stage, value=left, reduction=tuple(all_parts))
