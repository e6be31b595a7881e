"""Transposes: what is read lies beside each other along one axis, what is written along another. An invocation turns
four by four elements in registers, and those beside each other have blocks beside each other on both axes, so that they
read and write whole sectors of memory. It takes no barrier, which GPUs in software are slow at."""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compilers.native.axes import Axes
from tapml.compilers.native.elementwise import decompose
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
from tapml.compilers.native.polynomials import Indices, Polynomial
from tapml.compilers.native.stages import Index, loads, rewritten, variable
from tapml.compilers.native.words import bare, wgsl_type
from tapml.operators.program import Expression

_BESIDE = 8
"""Blocks beside each other along the output's last axis that a workgroup has,"""
_BEHIND = 32
"""and along the axis along which it reads."""
_LEAST = 1 << 16
"""Elements, below which the caches hold them anyway."""
_ELEMENT = "element"
_OWN = ("at", "group", "groups", "local", "place", "part", "alongs", "lasts", "along", "across", "four")
_LETTERS = ("i", "j", "k", "l", "m", "n", "o", "p")


def transposed(found: Found) -> list[Launch] | None:
    """A dispatch for an output that is an expression of one element of something that lies otherwise. None for others,
    and for small ones."""
    if len(found.stages) != 1 or found.stages[0].combine or found.threads < _BESIDE * _BEHIND:
        return None
    (stage,) = found.stages
    indices = found.indices(found.stages)
    stored = Expression("load", found.buffers[stage.buffer].dtype, stage.indices, stage.buffer)
    axes = Axes(indices, stage.spatial, [stored, stage.value], found.buffers)
    axes.arrange()
    stored, value = axes.roots
    reads = loads(value)
    if len({str(load) for load in reads}) != 1 or len(axes.axes) < 2:
        return None
    source = reads[0]
    if found.textures.keys() & {str(source.value), stage.buffer}:
        return None  # coordinates are divided out anew for each of the four
    if any(part.kind == "load" for index in source.operands for part in loads(index)):
        return None  # which element that is, data decides
    places = [indices.flat(load.operands, found.buffers[str(load.value)].shape) for load in (source, stored)]
    last = axes.axes[-1]
    along = next((axis for axis in axes.axes[:-1] if _step(places[0], axis) == 1), None)
    if along is None or _step(places[1], last) != 1 or _step(places[0], last) in (None, 0, 1):
        return None
    if not all(_by_fours(found, indices, *pair) for pair in ((source, along), (stored, last))):
        return None
    if any(indices.depends(place.without(axis.variable), axis.variable) for place in places for axis in (along, last)):
        return None
    if any(not indices.size(axis.extent).divisible(4) for axis in (along, last)):
        return None
    if check_counts(indices, [axis.extent for axis in axes.axes]) < _LEAST:
        return None
    rest = [axis for axis in axes.axes if axis not in (along, last)]
    return [_launch(found, axes, (rest, along, last), source, (stored, value))]


def _step(place: Polynomial, axis: Index) -> int | None:
    step = place.coefficient(axis.variable)
    return None if step is None else step.constant


def _by_fours(found: Found, indices: Indices, load: Expression, axis: Index) -> bool:
    text = Text(found, "", indices)
    text.bind(str(load.value))
    return text.writer(axis.variable).by_fours(load)


def _launch(
    found: Found,
    axes: Axes,
    kinds: tuple[Sequence[Index], Index, Index],
    source: Expression,
    roots: tuple[Expression, Expression],
) -> Launch:
    indices, (rest, along, last) = axes.indices, kinds
    stored, value = roots
    text = Text(found, found.entry_point, indices, taken=(*_OWN, *_LETTERS))
    text.bind(str(source.value), 4)
    text.bind(str(stored.value), 4, write=True)
    count, most = times(*(axis.extent for axis in rest)), 1
    most = indices.greatest(count)
    for axis, blocks in ((along, _BEHIND), (last, _BESIDE)):
        count = times(count, ceildiv(axis.extent, 4 * blocks))
        most *= -(-indices.greatest(axis.extent) // (4 * blocks))
    grid, group = grid_of(count, most)
    writer = text.writer()
    ends = {axis.variable: bare(writer.polynomial(indices.size(axis.extent))) for axis in (along, last)}
    writer.line(f"let place = i32({bare(group)});")
    if grid[1] != 1:
        with writer.block(f"if (place >= {bare(writer.polynomial(indices.size(count)))}) {{"):
            writer.line("return;")
    for name, axis, blocks in (("alongs", along, _BEHIND), ("lasts", last, _BESIDE)):
        writer.line(f"let {name} = ({ends[axis.variable]} + {4 * blocks - 1}) / {4 * blocks};")
    squared = "place"
    if rest:
        writer.line("let part = place / (alongs * lasts);")
        decompose(writer, rest, 1, "part")
        squared = "place % (alongs * lasts)"
    writer.line(f"let along = ({squared} / lasts * {_BEHIND} + i32(local) / {_BESIDE}) * 4;")
    writer.line(f"let across = ({squared} % lasts * {_BESIDE} + i32(local) % {_BESIDE}) * 4;")
    with writer.block(f"if (along >= {ends[along.variable]} || across >= {ends[last.variable]}) {{"):
        writer.line("return;")
    read, places = text.accesses[str(source.value)], []
    for n in range(4):
        writer.variables[along.variable], writer.variables[last.variable] = "along", f"(across + {n})"
        writer.lane, writer.quad = along.variable, "along / 4"
        places.append(writer.let("four", writer.at(read, writer.flat(source), "all")))
    writer.lane, writer.quad = last.variable, "across / 4"
    writer.varying = {_ELEMENT}
    element = variable(_ELEMENT, source.dtype)
    turned = rewritten(value, lambda part: element if part.kind == "load" else None)
    kind = wgsl_type(source.dtype)
    for n in range(4):
        with writer.block("{"):
            writer.variables[along.variable], writer.variables[last.variable] = f"(along + {n})", "across"
            four = ", ".join(f"{place}.{'xyzw'[n]}" for place in places)
            own = writer.let(_ELEMENT, f"vec4<{kind}>({four})")
            writer.variables[_ELEMENT] = own
            writer.forget_uses()
            written = bare(writer.vector(turned))
            access = text.accesses[str(stored.value)]
            writer.line(writer.store(access, writer.flat(stored), written, "all"))
    arguments = [GROUP, GROUPS, LOCAL] if "groups" in group else [GROUP, LOCAL]
    comment = f"{found.operator.name}: four by four elements an invocation."
    return text.launch(writer, comment, arguments, _BESIDE * _BEHIND, grid)
