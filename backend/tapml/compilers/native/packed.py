"""Factors of a product that do not lie in whole vectors, written so by a dispatch of their own before it.

An image of a convolution is read with an offset for each place of the weights' window, and with zeros around it: a
temporary has it as often as the window is wide, each moved by one element, with the zeros. A matrix whose rows are of
an odd length lies in the temporary with zeros behind each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapml.compilers.native.contraction import Contraction
from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.kernel import Found, Launch, ceildiv, times
from tapml.compilers.native.polynomials import Indices, Polynomial
from tapml.compilers.native.shifted import is_shifted, shifted
from tapml.compilers.native.staged import of_any
from tapml.compilers.native.stages import Index, Stage, is_index, loads, parts, substituted, variable
from tapml.compilers.native.transposed import transposed
from tapml.operators.program import Buffer, Expression, integer, zero

MOST_BYTES = 2**27
"""Of a temporary, which WebGPU's default limits let a kernel bind."""


@dataclass(frozen=True)
class Packed:
    """A factor's temporary: its axes, what the element at them is, and where the factor reads it."""

    axes: tuple[Index, ...]
    value: Expression
    places: tuple[Expression, ...]
    padded: bool = False
    """Whether its rows go on with zeros."""


@dataclass(frozen=True)
class Around:
    """What a factor is packed by: the product's batch, the factor's own axes (rows or columns) and the inner ones; and
    in vectors of how many elements."""

    batch: Sequence[Index]
    own: Sequence[Index]
    inner: Sequence[Index]
    each: int


def image(found: Found, indices: Indices, value: Expression, around: Around, spread: bool) -> Packed | None:
    """A factor that reads sums of its own axes and inner ones, in rows of whole vectors, as often as the window is
    wide, or, where it is `spread`, as often as it has places. None where its own rows are of no whole vectors."""
    own, inner = around.own, [*around.inner]
    if not own or not isinstance(own[-1].extent, int) or own[-1].extent % around.each:
        return None
    sums = sums_of(found, indices, value)
    axes: list[Index] = []
    places: list[Expression] = []
    values: dict[str, Expression] = {}
    shared: dict[str, tuple[int, Expression]] = {}
    for axis in own[:-1] if not spread else ():
        for other in inner:
            if (both := together(axis, other, sums)) is not None:
                extent, place, given = both
                made = variable(f"{axis.variable}_p")
                shared[axis.variable] = extent, place
                values |= {name: made if one is None else one for name, one in given.items()}
                inner.remove(other)
                break
    for axis in (*around.batch, *inner, *own):
        extent, place = shared.get(axis.variable, (axis.extent, variable(axis.variable)))
        axes.append(Index(f"{axis.variable}_p", extent))
        places.append(place)
        values.setdefault(axis.variable, variable(f"{axis.variable}_p"))
    return Packed(tuple(axes), substituted(value, values), tuple(places))


def together(
    axis: Index, other: Index, sums: Iterable[Polynomial]
) -> tuple[int, Expression, dict[str, Expression | None]] | None:
    """Two axes of which a factor knows nothing but one sum of multiples: how many numbers that is, its expression, and
    the values of both axes for one of them (None: that number itself)."""
    ratio: tuple[int, int] | None = None
    for found in sums:
        pair = [found.coefficient(one.variable) for one in (axis, other)]
        if any(one is None or one.constant is None for one in pair):
            return None
        a, b = (one.constant or 0 for one in pair if one is not None)
        if not a and not b:
            continue
        divisor = math.gcd(a, b) * (-1 if a < 0 else 1)
        here = a // divisor, b // divisor
        if here[1] < 1 or (ratio is not None and ratio != here):
            return None
        ratio = here
    if ratio is None or 1 not in ratio or not isinstance(axis.extent, int) or not isinstance(other.extent, int):
        return None
    extent = ratio[0] * (axis.extent - 1) + ratio[1] * (other.extent - 1) + 1
    terms = tuple(_times(variable(one.variable), by) for one, by in zip((axis, other), ratio, strict=True))
    given: dict[str, Expression | None] = (
        {axis.variable: integer(0), other.variable: None}
        if ratio[1] == 1
        else {axis.variable: None, other.variable: integer(0)}
    )
    return extent, Expression("add", "int64", terms), given


def _times(found: Expression, by: int) -> Expression:
    return found if by == 1 else Expression("mul", "int64", (found, integer(by)))


def sums_of(found: Found, indices: Indices, value: Expression) -> list[Polynomial]:
    """What a factor knows of its axes: where it reads, and the indices that it computes with. An axis in something else
    than a polynomial stands by itself."""
    places = [indices.flat(load.operands, found.buffers[str(load.value)].shape) for load in loads(value)]
    computed: list[Polynomial] = []
    stack, seen = [value], set()
    while stack:
        part = stack.pop()
        if id(part) in seen or part.kind in ("load", "constant"):
            continue
        seen.add(id(part))
        if is_index(part):
            computed.append(indices(part))
        else:
            stack += part.operands
    sums = [*places, *computed]
    for one in (indices.opaque[atom] for found in sums for atom in found.atoms() if isinstance(atom, int)):
        sums += [Polynomial({(str(part.value),): 1}) for part in parts(one) if part.kind == "variable"]
    return sums


def columns(indices: Indices, value: Expression, around: Around) -> Packed | None:
    """A factor with all of its own axes as one, in rows of whole vectors."""
    own, name = around.own, f"{around.own[-1].variable}_p" if around.own else ""
    if (len(own) != 1 and not all(isinstance(axis.extent, int) for axis in own)) or not own:
        return None
    count = times(*(axis.extent for axis in own))
    here = variable(name)
    values: dict[str, Expression] = {}
    behind, place = 1, integer(0)
    for axis in reversed(own):
        part = here if behind == 1 else Expression("floordiv", "int64", (here, integer(behind)))
        if axis is not own[0]:
            part = Expression("floormod", "int64", (part, integer(axis.extent)))
        values[axis.variable] = part
        place = Expression("add", "int64", (_times(variable(axis.variable), behind), place))
        behind = times(behind, axis.extent)
    rest = (*around.batch, *around.inner)
    values |= {axis.variable: variable(f"{axis.variable}_p") for axis in rest}
    row = Index(name, times(ceildiv(count, around.each), around.each))
    axes = (*(Index(f"{axis.variable}_p", axis.extent) for axis in rest), row)
    given = or_zero(indices, here, count, substituted(value, values))
    return Packed(axes, given, (*(variable(axis.variable) for axis in rest), place), padded=True)


def rows(indices: Indices, value: Expression, around: Around) -> Packed | None:
    """A factor along its one inner axis, in rows of whole steps: `each` is their length."""
    if len(around.inner) != 1:
        return None
    all_of_it = (*around.batch, *around.own, *around.inner)
    values = {axis.variable: variable(f"{axis.variable}_p") for axis in all_of_it}
    axes = [Index(f"{axis.variable}_p", axis.extent) for axis in all_of_it]
    count = around.inner[0].extent
    axes[-1] = replace(axes[-1], extent=times(ceildiv(count, around.each), around.each))
    given = or_zero(indices, variable(axes[-1].variable), count, substituted(value, values))
    return Packed(tuple(axes), given, tuple(variable(axis.variable) for axis in all_of_it), padded=True)


def or_zero(indices: Indices, here: Expression, count: Any, value: Expression) -> Expression:
    """The value where `here` is below a count, else 0."""
    end = indices.expression(indices.size(count))
    return Expression("if_then_else", value.dtype, (Expression("lt", "bool", (here, end)), value, zero(value.dtype)))


STEPS = 64
"""Of the length of packed rows along the inner axis a multiple: what templates go along it at a time divides it."""


_VISIT = {"shifted": 0.6, "fours": 0.3, "ones": 1.4, "whole": 0.0}
"""Picoseconds that a large device takes longer for a number of a factor, each time a workgroup reads it, than where it
lies in whole vectors: of a product by subgroup matrices on an H200."""
_PACKED = {False: 1.3, True: 0.5}
"""Picoseconds of a number that is packed; True: by whole vectors (shifted.py)."""
_DISPATCH = 8e6
"""Picoseconds of a dispatch before, with what recording it takes."""


def packing_of(
    ways: Mapping[str, str],
    sizes: tuple[int, int, int, int],
    tile: tuple[int, int],
    by_vectors: Callable[[str], bool],
) -> tuple[str, ...]:
    """The factors, "left" and "right", that are estimated to be worth packing. `ways`: how each lies
    (`Eights.way`); `sizes`: batches, rows, columns and points of the inner axis; `tile`: rows and columns of a
    workgroup; `by_vectors`: whether a factor would be packed by whole vectors (`packs_vectors`)."""
    batch, rows, columns, inner = sizes
    chosen = []
    for side, way in ways.items():
        own, others, each = (rows, columns, tile[1]) if side == "left" else (columns, rows, tile[0])
        elements = batch * own * inner
        visits = elements * -(-others // each)
        packed = _PACKED[way != "whole" and by_vectors(side)]
        if visits * _VISIT[way] > elements * packed + _DISPATCH:
            chosen.append(side)
    return tuple(chosen)


@dataclass(frozen=True)
class _Writing:
    """The stage that writes a packed factor, alone in `found`, and where the factor, of the dtype that the temporary
    has, lies in it."""

    found: Found
    way: Packed

    @property
    def name(self) -> str:
        return self.found.outputs[0]


def packs_vectors(found: Found, made: Contraction, indices: Indices, each: int, side: str) -> bool:
    """Whether `packed_factor` reads and writes whole vectors."""
    writing = _writing(found, made, indices, side, each, spread=True)
    return writing is not None and is_shifted(writing.found)


def packed_factor(
    found: Found, made: Contraction, indices: Indices, side: str, each: int, spread: bool = True
) -> tuple[list[Launch], Found, Contraction] | None:
    """The dispatch that writes a factor, "left" or "right", in vectors of `each`, and what is left of the product after
    it. `spread`: each element of it, however often an image has it. None where the temporary is too large, or no
    template writes it."""
    writing = _writing(found, made, indices, side, each, spread)
    if writing is None:
        return None
    launches = of_any((shifted, transposed, elementwise), writing.found)
    if launches is None:
        return None
    padded = found.padded | {writing.name} if writing.way.padded else found.padded
    rest = replace(found, program=writing.found.program, part=found.part + len(launches), padded=padded)
    load = Expression("load", writing.way.value.dtype, writing.way.places, writing.name)
    load = load if load.dtype == getattr(made, side).dtype else Expression("cast", "float32", (load,))
    return launches, rest, replace(made, left=load) if side == "left" else replace(made, right=load)


def _writing(found: Found, made: Contraction, indices: Indices, side: str, each: int, spread: bool) -> _Writing | None:
    """None where the temporary is too large, or a factor is of no form that is packed."""
    value: Expression = getattr(made, side)
    while value.kind == "cast" and value.dtype == "float32" and value.operands[0].dtype == "float16":
        (value,) = value.operands
    around = Around(made.batch, made.rows if side == "left" else made.columns, made.inner, each)
    way = _way(found, indices, value, around, spread)
    if way is None:
        return None
    name = f"{side} of {found.entry_point}"
    buffer = Buffer(name, value.dtype, tuple(axis.extent for axis in way.axes))
    nbytes = times(*buffer.shape, 2 if buffer.dtype == "float16" else 4)
    if indices.greatest(nbytes) > MOST_BYTES:
        return None
    program = replace(found.program, temporaries=(*found.program.temporaries, buffer))
    stage = Stage(name, way.axes, tuple(variable(axis.variable) for axis in way.axes), way.value)
    return _Writing(replace(found, program=program, stages=[stage], outputs=[name]), way)


def _way(found: Found, indices: Indices, value: Expression, around: Around, spread: bool) -> Packed | None:
    if not around.own or not around.inner:
        return None
    last = around.inner[-1]
    places = [indices.flat(load.operands, found.buffers[str(load.value)].shape) for load in loads(value)]
    along = any((step := place.coefficient(last.variable)) is not None and step.constant == 1 for place in places)
    if along and (not isinstance(last.extent, int) or last.extent >= around.each):
        long = rows(indices, value, replace(around, each=STEPS))
        if long is not None:
            return long
    return image(found, indices, value, around, spread) or columns(indices, value, around)
