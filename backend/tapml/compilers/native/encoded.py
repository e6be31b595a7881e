"""Kernels whose tensors lie in textures and in slices: any template, with other places for what it reads and writes.

Between kernels values are row-major buffers, so a dispatch before writes what an input holds to a temporary of the
layout, and one behind reads an output from it. The kernel itself is the template's: its loads name the temporary, by
the indices that the layout has for them (`Layout.lies_at`), and `places.py` writes those as coordinates of a texture.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import get_args

from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.kernel import Found, Launch
from tapml.compilers.native.layouts import KINDS, WEIGHT_KINDS, Layout, Within, tensor_layout, weights_layout
from tapml.compilers.native.roles import roles_of
from tapml.compilers.native.split import MOST_BYTES
from tapml.compilers.native.staged import Template, of_any, staged
from tapml.compilers.native.stages import Index, Stage, loads, rewritten, substituted, variable, variables_of
from tapml.compilers.native.textures import Texture
from tapml.operators.program import Buffer, Expression, integer, zero


def encoded(found: Found, layouts: Mapping[str, Layout], templates: Sequence[Template]) -> list[Launch] | None:
    """The dispatches of an operator whose parameters lie as `layouts` says, by name. None where no template writes it:
    whoever writes to texels of four channels writes all four."""
    temporaries = {name: _temporary(found.buffers[name], layout) for name, layout in layouts.items()}
    program = dataclasses.replace(found.program, temporaries=(*found.program.temporaries, *temporaries.values()))
    if any(_nbytes(one) > MOST_BYTES for one in temporaries.values()):
        return None
    textures: dict[str, Texture] = {}
    for name, layout in layouts.items():
        if layout.texture is not None:
            textures[temporaries[name].name] = layout.texture
    found = dataclasses.replace(found, program=program, textures=textures)
    results = [name for name in layouts if name in found.outputs]
    before: list[Launch] = []
    for name, layout in layouts.items():
        if name in results:
            continue
        made = _dispatch(found, len(before), _packing(found.buffers[name], layout))
        if made is None:
            return None
        before += made
    outputs = [temporaries[name].name if name in layouts else name for name in found.outputs]
    for stages in _moved(found, layouts, temporaries):
        here = dataclasses.replace(found, stages=stages, outputs=outputs, part=len(before))
        launches = of_any(templates, here) or staged(here, templates)
        if launches is not None:
            break
    else:
        return None
    launches = [*before, *launches]
    for name in results:
        made = _dispatch(found, len(launches), _unpacking(found.buffers[name], layouts[name]))
        if made is None:
            return None
        launches += made
    return launches


def _temporary(given: Buffer, layout: Layout) -> Buffer:
    """What holds a parameter in a layout: of its `extents`, so that an element's place in it says where it lies."""
    return Buffer(f"{given.name} in {layout.name}", given.dtype, layout.extents)


def _nbytes(buffer: Buffer) -> int:
    shape: tuple[int, ...] = buffer.shape
    return math.prod(shape) * (2 if buffer.dtype == "float16" else 4)


def _dispatch(found: Found, part: int, stage: Stage) -> list[Launch] | None:
    return of_any([elementwise], dataclasses.replace(found, stages=[stage], outputs=[stage.buffer], part=part))


def _packing(given: Buffer, layout: Layout) -> Stage:
    """Writes all of a temporary: what an input holds, and zeros."""
    axes, places = _axes(layout)
    indices, ends = layout.holds(places)
    value = _or_zero(Expression("load", given.dtype, indices, given.name), ends)
    return Stage(_temporary(given, layout).name, axes, places, value)


def _unpacking(given: Buffer, layout: Layout) -> Stage:
    """Writes an output from where it lies."""
    axes = [Index(f"v{number}_o", extent) for number, extent in enumerate(layout.shape)]
    places = tuple(variable(axis.variable) for axis in axes)
    value = Expression("load", given.dtype, layout.lies_at(places), _temporary(given, layout).name)
    return Stage(given.name, tuple(axes), places, value)


def _axes(layout: Layout) -> tuple[tuple[Index, ...], tuple[Expression, ...]]:
    """All places of a layout: axes of more than one, and where they lead."""
    axes = [Index(f"{name.lower()}_p", extent) for name, extent in zip(layout.order, layout.extents, strict=True)]
    places = tuple(variable(axis.variable) if axis.extent > 1 else integer(0) for axis in axes)
    return tuple(axis for axis in axes if axis.extent > 1), places


def _or_zero(value: Expression, ends: Sequence[tuple[Expression, int]]) -> Expression:
    for place, end in ends:
        inside = Expression("lt", "bool", (place, integer(end)))
        value = Expression("if_then_else", value.dtype, (inside, value, zero(value.dtype)))
    return value


def _moved(found: Found, layouts: Mapping[str, Layout], temporaries: Mapping[str, Buffer]) -> Sequence[Sequence[Stage]]:
    """The stages with loads and stores of the temporaries, in the ways that templates may know."""

    def change(load: Expression) -> Expression | None:
        if load.kind != "load" or str(load.value) not in layouts:
            return None
        name = str(load.value)
        indices = tuple(rewritten(index, change) for index in load.operands)
        return dataclasses.replace(load, operands=layouts[name].lies_at(indices), value=temporaries[name].name)

    def along_outputs(stage: Stage) -> Stage:
        """Over the axes of the operator: only whole texels can be written."""
        if stage.buffer not in layouts:
            return stage
        layout, buffer = layouts[stage.buffer], temporaries[stage.buffer].name
        # Invocations beside each other, and the elements of a vector, go along the channels.
        texel = layout.pieces[layout.texel].role if layout.texel else ""
        channels = [index for index, role in zip(stage.indices, layout.roles, strict=True) if role == texel]
        last = variables_of(*channels)
        spatial = sorted(stage.spatial, key=lambda index: index.variable in last)
        indices = layout.lies_at(stage.indices)
        return dataclasses.replace(stage, buffer=buffer, spatial=tuple(spatial), indices=indices)

    def along_places(stage: Stage) -> Stage:
        """Over all places of the layout, whose channels beyond the end are zeros."""
        if stage.buffer not in layouts or stage.combine is not None:
            return along_outputs(stage)
        layout = layouts[stage.buffer]
        axes, places = _axes(layout)
        indices, ends = layout.holds(places)
        pairs = zip(stage.indices, indices, strict=True)
        own = {str(index.value): at for index, at in pairs if index.kind == "variable"}
        value = _or_zero(substituted(stage.value, own), ends)
        buffer = temporaries[stage.buffer].name
        return dataclasses.replace(stage, buffer=buffer, spatial=axes, indices=places, value=value)

    ways: list[Callable[[Stage], Stage]] = [along_outputs]
    if all(stage.combine is None for stage in found.stages):
        ways.insert(0, along_places)
    ended = [
        dataclasses.replace(
            stage,
            value=rewritten(stage.value, change),
            start=rewritten(stage.start, change) if stage.start is not None else None,
        )
        for stage in found.stages
    ]
    return [[way(stage) for stage in ended] for way in ways]


def encodings(found: Found) -> Iterator[tuple[str, dict[str, Layout]]]:
    """Ways in which an operator's parameters may lie, each with a name: all that it reads, or all of its parameters
    ("out"), in one kind of layout, the weights of a product with four outputs ("o4") or four inputs ("i4") to a texel.
    A tensor that would take too many textures is in one. Whether a template writes a kernel for one `encoded` tells.
    None for parameters of sizes that calls decide."""
    given = [buffer for buffer in found.program.parameters if buffer.dtype in _TEXELS and _is_fixed(buffer)]
    if len(given) != len(found.program.parameters):
        return
    roles = roles_of(found)
    read = [buffer for buffer in given if buffer.name not in found.outputs]
    for kind, (suffix, buffers) in product(KINDS[1:], (("", read), (".out", given))):
        tensors = {one.name: _of_kind(kind, one, roles.tensors.get(one.name)) for one in buffers}
        weights = [one for one in read if one.name in roles.weights]
        if not weights or kind not in _OF_WEIGHTS:
            yield f"{kind}{suffix}", tensors
            continue
        for within in get_args(Within):
            of = {
                one.name: weights_layout(_OF_WEIGHTS[kind], one.shape, roles.weights[one.name], within)
                for one in weights
            }
            yield f"{kind}.{within.lower()}{suffix}", tensors | of


MOST_OBJECTS = 4
"""Textures that every device lets a launch write."""


def _of_kind(kind: str, buffer: Buffer, roles: str | None) -> Layout:
    layout = tensor_layout(kind, buffer.shape, roles)
    return layout if layout.count <= MOST_OBJECTS else tensor_layout("texture-2d", buffer.shape, roles)


def candidate_encodings(found: Found) -> Iterator[tuple[str, dict[str, Layout]]]:
    """Those of which one may be faster than buffers somewhere: of products that read each element so often that writing
    it to a texture first may pay, with results in a buffer."""
    summed = next((stage for stage in found.stages if stage.combine == "add"), None)
    if summed is None or not _is_read_often(found, summed):
        return
    yield from (pair for pair in encodings(found) if pair[0] in _CANDIDATES)


_CANDIDATES = [f"{kind}.{within}" for kind in ("texture-2d", "textures-2d") for within in ("o4", "i4")]
"""Of textures those that GPUs have caches of two dimensions for."""

_LEAST_READS = 64
"""Of each element that is written to a texture."""


def _is_read_often(found: Found, summed: Stage) -> bool:
    read = [found.buffers[name] for name in {str(load.value) for load in loads(summed.value)}]
    extents = [index.extent for index in (*summed.spatial, *summed.reduction)]
    if not all(map(_is_fixed, read)) or not all(isinstance(extent, int) for extent in extents):
        return False
    written: int = sum(math.prod(buffer.shape) for buffer in read)
    return bool(math.prod(extents) >= _LEAST_READS * written)


_OF_WEIGHTS = {kind: kind for kind in WEIGHT_KINDS if kind in KINDS} | {"textures-2d": "four-textures-2d"}
"""Of a layout of tensors, that of weights beside them."""

_TEXELS = ("float32", "float16", "int32")
"""Dtypes of elements that are read from textures: words of packed numbers are read as words."""


def _is_fixed(buffer: Buffer) -> bool:
    return all(isinstance(extent, int) and extent > 0 for extent in buffer.shape)
