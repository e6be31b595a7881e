"""Elements of an axis in their order, or the first of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op

from tapml.importing.relax_ir import Expr, axes_of
from tapml.importing.scatter import moved

_BLOCK = 2048
"""Elements that are compared with each other, of a long axis of which a few are wanted."""


def ranked(data: Any, axis: int, count: int, largest: bool, kind: str) -> Any:
    """The first `count` elements in order, their places, or both; equal ones keep their order. This is quadratic."""
    size = data.shape[axis]
    other = te.reduce_axis((0, size), "k")

    def rank(*at: Any) -> Any:
        mine, its = data(*at), data(*moved(at, axis, other))
        ahead = its > mine if largest else its < mine
        ahead = tirx.any(ahead, tirx.all(its == mine, other < at[axis]))
        return te.sum(tirx.Select(ahead, tirx.const(1, "int32"), tirx.const(0, "int32")), axis=other)

    ranks = te.compute(data.shape, rank, name="rank")
    shape = [count if i == axis else extent for i, extent in enumerate(data.shape)]

    def pick(value: Any, dtype: str, name: str) -> Any:
        place = te.reduce_axis((0, size), "j")

        def chosen(*at: Any) -> Any:
            where = moved(at, axis, place)
            hit = ranks(*where) == at[axis].astype("int32")
            return te.sum(tirx.Select(hit, value(where), tirx.const(0, dtype)), axis=place)

        return te.compute(shape, chosen, name=name)

    values = pick(lambda where: data(*where), str(data.dtype), "values")
    indices = pick(lambda where: where[axis].astype("int32"), "int32", "indices")
    return {"values": values, "indices": indices}.get(kind, [values, indices])


def ranked_in_blocks(builder: Expr, data: Expr, axis: int, count: int, largest: bool, kind: str) -> Expr:
    """The same of a long axis of which few are wanted: the first ones of the first ones of each block."""
    found = _first(builder, data, axis, count, largest)
    return {"values": found[0], "indices": found[1]}.get(kind) or relax.Tuple(found)


def _first(builder: Expr, data: Expr, axis: int, count: int, largest: bool) -> tuple[Expr, Expr]:
    """Values and places."""
    emit, call = builder.emit, partial(builder.call_te, primfunc_name_hint="topk")
    shape = axes_of(data)
    size, block = shape[axis], max(_BLOCK, 2 * count)
    if size <= 2 * block:
        both = emit(call(ranked, data, axis, count, largest, "both"))
        return emit(relax.TupleGetItem(both, 0)), emit(relax.TupleGetItem(both, 1))
    blocks = size // block
    many = [*shape[:axis], blocks, block, *shape[axis + 1 :]]
    values, places = _first(
        builder, emit(op.reshape(_part(builder, data, axis, 0, blocks * block), many)), axis + 1, count, largest
    )
    begins = relax.const((np.arange(blocks) * block).astype(np.int32).reshape(-1, *[1] * (len(shape) - axis)))
    few = [*shape[:axis], blocks * count, *shape[axis + 1 :]]
    values, places = emit(op.reshape(values, few)), emit(op.reshape(emit(op.add(places, begins)), few))
    if rest := size - blocks * block:
        last = _first(builder, _part(builder, data, axis, blocks * block, size), axis, min(count, rest), largest)
        values = emit(op.concat([values, last[0]], axis))
        places = emit(op.concat([places, emit(op.add(last[1], relax.const(blocks * block, "int32")))], axis))
    best, order = _first(builder, values, axis, count, largest)
    return best, emit(call(_picked, places, order, axis))


def _part(builder: Expr, data: Expr, axis: int, begin: int, end: int) -> Expr:
    return builder.emit(op.strided_slice(data, [axis], [begin], [end]))


def _picked(data: Any, places: Any, axis: int) -> Any:
    return te.compute(places.shape, lambda *at: data(*moved(at, axis, places(*at))), name="picked")
