"""Products of float32 with weights that are integers, or numbers of float16, as products of float16 that lose no more
than a sum in float32 does.

A float32 is the sum of its first eleven bits and of the rest, of which float16 holds eleven bits again: 22 of its 24.
So a product of two is three products in float16 (that of the rests is below what float32 holds), or two where one
factor is a float16 as it is, which integers are, too. What float16 lacks is float32's range: each row of the left
factor is scaled by a power of two that brings its greatest element just below 2^15, each column's scales of groups by
one that brings the greatest below 2^11, and `finish` takes that back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tapml.compilers.native.contraction import TOTAL, Contraction
from tapml.compilers.native.eights import narrowed
from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.integers import Integers, with_integers
from tapml.compilers.native.kernel import Found, Launch, ceildiv, times
from tapml.compilers.native.packed import MOST_BYTES, STEPS, or_zero
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.rows import rows
from tapml.compilers.native.staged import of_any
from tapml.compilers.native.stages import Index, Stage, rewritten, substituted, variable
from tapml.operators.program import Buffer, Expression, integer

LEAST_OF_PIECES = 2**29
"""Multiplications of a product that takes a large device longer, as one in float32, than the dispatches before it do;
an estimate."""

_MOST_OF_LEFT, _MOST_OF_SCALES = 15, 11
"""Exponents: elements of the left factor are brought below 2^15, scales below 2^11, for 16 times that is a float16."""
_FIRST_BITS = 0xFFFFE000
"""Of a float32, those that float16 holds."""


def in_pieces(found: Found, made: Contraction, indices: Indices) -> tuple[list[Launch], Found, Contraction] | None:
    """The dispatches before the product, and the product of their results. None where the right factor is neither of
    float16 nor of integers, or of ones whose products with scales of groups are not small."""
    if made.dtype != "float32" or len(made.inner) != 1:
        return None
    (inner,) = made.inner
    exact, integers = narrowed(made.right), with_integers(made, indices, found.buffers)
    if exact is None and (integers is None or not (integers.bits == 4 or integers.by_lines)):
        return None
    axes = (*made.batch, *made.rows)
    scaling = _scaling(found, made.left, axes, made.inner, f"rows of {found.entry_point}", _MOST_OF_LEFT)
    if scaling is None:
        return None
    launches, found, up = scaling
    split = _left_pieces(found, indices, made, up, inner)
    if split is None:
        return None
    more, found, first, rest = split
    launches += more
    of_right = _right(found, made, inner, exact, integers)
    if of_right is None:
        return None
    more, found, right, whole = of_right
    launches += more
    whole = _of_two("mul", whole, _inverse(up))
    finish = rewritten(made.finish, lambda part: whole if part.kind == "variable" and part.value == TOTAL else None)
    return launches, found, dataclasses.replace(made, left=first, rest=rest, right=right, finish=finish)


def _right(
    found: Found, made: Contraction, inner: Index, exact: Expression | None, integers: Integers | None
) -> tuple[list[Launch], Found, Expression, Expression] | None:
    """The dispatches for the right factor, which is `exact` in float16 or of `integers`, the factor that is multiplied
    in its place, and what the sum of these products says of that of the program's."""
    total = variable(TOTAL, "float32")
    if exact is not None:
        return [], found, exact, total
    assert integers is not None
    if integers.by_lines:
        return [], found, _codes(integers), _of_two("mul", total, integers.scale)
    of_groups = _scaling_of_groups(found, integers, made, inner)
    if of_groups is None:
        return None
    launches, found, scales, down = of_groups
    return launches, found, _of_two("mul", _codes(integers), scales), _of_two("mul", total, _inverse(down))


def least_splits(inner: int, products: int) -> int:
    """How many workgroups have to share out an inner axis of so many points, of which each is so many products.

    Matrix units cut what they add up where they should round it: of sums of 16 terms of one sign that is an error of
    0.19 units of the sum for each. Sums of parts stay below four fifths of the 3 sqrt(K) units that a sum may be off by
    (docs/bounds.md).
    """
    return math.ceil(0.19 * products * math.sqrt(inner) / (16 * 0.8 * 3))


def _codes(integers: Integers) -> Expression:
    """The integers less their zero points."""
    if integers.zero.kind == "constant" and not integers.zero.value:
        return integers.codes
    return _of_two("sub", integers.codes, integers.zero)


def _scaling(
    found: Found,
    value: Expression,
    axes: Sequence[Index],
    inner: Sequence[Index],
    name: str,
    most: int,
    scaled: str | None = None,
) -> tuple[list[Launch], Found, Expression] | None:
    """The dispatch that writes, for each point of some axes, the power of two that brings the greatest of the values
    along the inner ones below 2^most; and a load of it, in these axes. `scaled`: the buffer for the values themselves,
    so scaled."""
    moved = {axis.variable: variable(f"{axis.variable}_s") for axis in (*axes, *inner)}
    own, over = ([Index(f"{axis.variable}_s", axis.extent) for axis in group] for group in (axes, inner))
    shape = tuple(axis.extent for axis in axes) or (1,)
    places = tuple(variable(axis.variable) for axis in own) or (integer(0),)
    greatest = f"greatest of the {name}"
    size = Expression("call", "float32", (substituted(value, moved),), "fabs")
    zero = Expression("constant", "float32", (), 0.0)
    stages = [Stage(greatest, tuple(own), places, size, tuple(over), "max", zero)]
    again = {axis.variable: variable(f"{axis.variable}_t") for axis in own}
    bits = _bits(Expression("load", "float32", tuple(substituted(place, again) for place in places), greatest))
    # The exponent's field, such that the power and its inverse are float32s with all of their bits.
    field = Expression("shift_right", "uint32", (bits, _word(23)))
    field = Expression("max", "uint32", (Expression("min", "uint32", (field, _word(254))), _word(most)))
    power = _of_two("sub", _word(253 + most), field)
    power = _float(Expression("shift_left", "uint32", (power, _word(23))))
    ends = tuple(Index(f"{axis.variable}_t", axis.extent) for axis in own)
    stages.append(Stage(name, ends, tuple(substituted(place, again) for place in places), power))
    temporaries = [Buffer(greatest, "float32", shape), Buffer(name, "float32", shape)]
    if scaled is not None:
        over_them = {axis.variable: variable(f"{axis.variable}_u") for axis in (*axes, *inner)}
        own = [Index(f"{axis.variable}_u", axis.extent) for axis in (*axes, *inner)]
        rows_of = {f"{axis.variable}_s_t": over_them[axis.variable] for axis in axes}
        product = _of_two("mul", substituted(value, over_them), substituted(power, rows_of))
        stages.append(Stage(scaled, tuple(own), tuple(variable(axis.variable) for axis in own), product))
        temporaries.append(Buffer(scaled, "float32", tuple(axis.extent for axis in own)))
    made = _written(found, temporaries, stages, [stage.buffer for stage in stages[1:]])
    load = Expression("load", "float32", tuple(variable(axis.variable) for axis in axes) or (integer(0),), name)
    return None if made is None else (*made, load)


def _scaling_of_groups(
    found: Found, integers: Integers, made: Contraction, inner: Index
) -> tuple[list[Launch], Found, Expression, Expression] | None:
    """The dispatch that scales the scales of each column; loads of these, and of what they are multiplied by."""
    group = integers.group
    if group is None:
        return None
    axes = (*made.batch, *made.columns)
    over = Index(f"{inner.variable}_g", ceildiv(inner.extent, group))
    first = Expression("mul", "int64", (variable(over.variable), integer(group)))
    scale = substituted(integers.scale, {inner.variable: first})
    name = f"scales of {found.entry_point}"
    made_of = _scaling(found, scale, axes, [over], f"columns of {found.entry_point}", _MOST_OF_SCALES, name)
    if made_of is None:
        return None
    launches, found, power = made_of
    at = Expression("floordiv", "int64", (variable(inner.variable), integer(group)))
    places = (*(variable(axis.variable) for axis in axes), at)
    return launches, found, Expression("load", "float32", places, name), power


def _left_pieces(
    found: Found, indices: Indices, made: Contraction, up: Expression, inner: Index
) -> tuple[list[Launch], Found, Expression, Expression] | None:
    """The dispatch that writes both float16 of each element of the left factor, rows of whole steps with zeros behind
    them, and loads of both."""
    all_of_it = (*made.batch, *made.rows, inner)
    moved = {axis.variable: variable(f"{axis.variable}_p") for axis in all_of_it}
    axes = [Index(f"{axis.variable}_p", axis.extent) for axis in all_of_it]
    axes[-1] = dataclasses.replace(axes[-1], extent=times(ceildiv(inner.extent, STEPS), STEPS))
    scaled = substituted(_of_two("mul", made.left, up), moved)
    first = _float(Expression("bitwise_and", "uint32", (_bits(scaled), _word(_FIRST_BITS))))
    # An infinity has no rest.
    same = Expression("eq", "bool", (scaled, first))
    zero = Expression("constant", "float32", (), 0.0)
    rest = Expression("select", "float32", (same, zero, _of_two("sub", scaled, first)))
    names = [f"left of {found.entry_point}", f"rest of {found.entry_point}"]
    shape = tuple(axis.extent for axis in axes)
    buffers = tuple(Buffer(name, "float16", shape) for name in names)
    if indices.greatest(times(*shape, 2)) > MOST_BYTES:
        return None
    here = variable(axes[-1].variable)
    places = tuple(variable(axis.variable) for axis in axes)
    halves = [or_zero(indices, here, inner.extent, Expression("cast", "float16", (one,))) for one in (first, rest)]
    stages = [Stage(name, tuple(axes), places, value) for name, value in zip(names, halves, strict=True)]
    written = _written(found, buffers, stages, names)
    if written is None:
        return None
    launches, found = written
    found = dataclasses.replace(found, padded=found.padded | {*names})
    own = tuple(variable(axis.variable) for axis in all_of_it)
    loads = [Expression("load", "float16", own, name) for name in names]
    return launches, found, loads[0], loads[1]


def _written(
    found: Found, temporaries: Sequence[Buffer], stages: Sequence[Stage], outputs: Sequence[str]
) -> tuple[list[Launch], Found] | None:
    program = dataclasses.replace(found.program, temporaries=(*found.program.temporaries, *temporaries))
    part = dataclasses.replace(found, program=program, stages=stages, outputs=outputs)
    launches = of_any((elementwise, rows), part)
    if launches is None:
        return None
    return launches, dataclasses.replace(found, program=program, part=found.part + len(launches))


def _inverse(power: Expression) -> Expression:
    """Of a power of two."""
    return _float(_of_two("sub", _word(254 << 23), _bits(power)))


def _of_two(kind: str, a: Expression, b: Expression) -> Expression:
    return Expression(kind, a.dtype, (a, b))


def _bits(found: Expression) -> Expression:
    return Expression("reinterpret", "uint32", (found,))


def _float(bits: Expression) -> Expression:
    return Expression("reinterpret", "float32", (bits,))


def _word(value: int) -> Expression:
    return Expression("constant", "uint32", (), value)
