"""Operators each element of whose outputs is an expression: arithmetic, casts, transposes, gathers, slices,
concatenations, pads.

An invocation computes four consecutive elements where the outputs' rows allow it, and one where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compilers.native.axes import Axes
from tapml.compilers.native.kernel import (
    GROUP,
    GROUPS,
    LOCAL,
    Found,
    Launch,
    Text,
    ceildiv,
    check_counts,
    grid_of,
    times,
)
from tapml.compilers.native.stages import Index, Stage, loads, substituted, variable
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression

_LETTERS = ("i", "j", "k", "l", "m", "n", "o", "p")


def elementwise(found: Found) -> list[Launch] | None:
    """A dispatch for all outputs of one shape. None for what is reduced."""
    if any(stage.combine for stage in found.stages):
        return None
    together: dict[tuple[str, ...], list[Stage]] = {}
    for stage in found.stages:
        together.setdefault(tuple(str(index.extent) for index in stage.spatial), []).append(stage)
    name = found.entry_point
    return [
        _launch(found, stages, name if not number else f"{name}_{number}")
        for number, stages in enumerate(together.values())
    ]


def _launch(found: Found, stages: Sequence[Stage], name: str) -> Launch:
    indices = found.indices(stages)
    first = stages[0]
    roots: list[Expression] = []
    for stage in stages:
        same = {own.variable: variable(index.variable) for own, index in zip(stage.spatial, first.spatial, strict=True)}
        stored = Expression("load", found.buffers[stage.buffer].dtype, stage.indices, stage.buffer)
        roots += [substituted(stored, same), substituted(stage.value, same)]
    axes = Axes(indices, first.spatial, roots, found.buffers)
    axes.arrange()
    text = Text(found, name, indices, taken=("at", "group", "groups", "local", *_LETTERS))
    pairs = list(zip(axes.roots[::2], axes.roots[1::2], strict=True))
    lane = _lane(axes, [stored for stored, _ in pairs], found)
    bind(text, [value for _, value in pairs], lane)
    for stored, _ in pairs:
        text.bind(str(stored.value), 4 if lane else 1, write=True)
    writer = text.writer(lane)
    extents = [index.extent for index in axes.axes]
    most = check_counts(indices, extents)
    count = times(*extents)
    per = 4 if lane else 1
    invocations = ceildiv(count, per)
    lanes = min(found.threads, 256)
    grid, group = grid_of(ceildiv(invocations, lanes), -(-most // per // lanes) + 1)
    writer.line(f"let at = i32({group} * {lanes}u + local);")
    end = bare(writer.polynomial(indices.size(invocations)))
    with writer.block(f"if (at >= {end}) {{"):
        writer.line("return;")
    decompose(writer, axes.axes, per, "at")
    for stored, value in pairs:
        access = text.accesses[str(stored.value)]
        written = writer.vector(value) if lane else writer.value(value)
        writer.line(writer.store(access, writer.flat(stored), bare(written), "all" if lane else None))
    arguments = [GROUP, GROUPS, LOCAL] if grid[1] != 1 else [GROUP, LOCAL]
    comment = f"{found.operator.name}: {'four elements' if lane else 'an element'} of the output an invocation."
    return text.launch(writer, comment, arguments, lanes, grid)


def _lane(axes: Axes, stored: Sequence[Expression], found: Found) -> str | None:
    """The last axis, where four of its elements are four of each output, from a multiple of four on."""
    last = axes.axes[-1] if axes.axes else None
    if last is None or not axes.indices.size(last.extent).divisible(4):
        return None
    if not all(found.by_fours(str(place.value)) for place in stored):
        return None
    text = Text(found, "", axes.indices)
    for place in stored:
        text.bind(str(place.value))
    writer = text.writer(last.variable)
    return last.variable if all(writer.in_a_row(writer.flat(place)) for place in stored) else None


def bind(text: Text, values: Sequence[Expression], lane: str | None) -> None:
    """Bind what `values` load: as vec4 what is only read by fours in a row."""
    reads: dict[str, list[Expression]] = {}
    for load in loads(*values):
        reads.setdefault(str(load.value), []).append(load)
    for buffer in sorted(reads, key=[*text.found.buffers].index):
        text.bind(buffer)
    if lane is None:
        return
    writer = text.writer(lane)
    for buffer, all_of_it in reads.items():
        if all(map(writer.by_fours, all_of_it)):
            text.bind(buffer, 4)


def decompose(
    writer: Writer, axes: Sequence[Index], per: int, at: str = "at", letters: Sequence[str] = _LETTERS
) -> None:
    """Lines that name each axis's value at element (or, of a lane, at four elements) number `at`."""
    sizes = [writer.indices.size(index.extent) for index in axes]
    if per > 1:
        sizes[-1] = sizes[-1].divided(per)
    rest = at
    for place in range(len(axes) - 1, -1, -1):
        size = writer.polynomial(sizes[place])
        name = at
        if len(axes) > 1:
            name = letters[place] if place < len(letters) else writer.names("axis")
            writer.line(f"let {name} = {rest if place == 0 else f'{rest} % {size}'};")
        writer.variables[axes[place].variable] = name
        if place == len(axes) - 1 and per > 1:
            writer.quad, writer.variables[axes[place].variable] = name, f"({name} * {per})"
        rest = f"{rest} / {size}"
