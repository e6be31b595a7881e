"""Reading at places that are data: inside the tensor, whatever the data are.

A negative index counts from the end, as ONNX, PyTorch and numpy have it; TVM's own kernels read before the tensor's
first element. One that is still outside is an error to those three, and no two platforms would give the same for it:
here it is the nearest place. To some operators negative ones are outside, too: a `take` of the mode "clip" is theirs.
Constants are read by the same kernels, when they are folded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from tvm import relax, te, tirx, topi

from tapml.importing.relax_ir import Expr, names
from tapml.importing.scatter import broadcast_shape, own_place

INDEXING = names("take gather_elements gather_nd index_tensor")


def lower_indexing(name: str, builder: Expr, arguments: Sequence[Any], attrs: dict[str, Any]) -> Expr:
    """A call of a kernel for one of `INDEXING`."""
    call = partial(builder.call_te, primfunc_name_hint=name.removeprefix("relax."))
    data, *others = arguments
    if name == "relax.take":
        axis = None if attrs["axis"] is None else int(attrs["axis"])
        return call(take, data, others[0], axis, from_end=attrs["mode"] != "clip")
    if name == "relax.gather_elements":
        return call(_gather_elements, data, others[0], int(attrs["axis"]))
    if name == "relax.gather_nd":
        return call(_gather_nd, data, others[0], int(attrs["batch_dims"]))
    return call(_index_tensor, data, _fields(others[0]))


def _fields(indices: Expr) -> list[Expr]:
    if isinstance(indices, relax.Tuple):
        return list(indices.fields)
    if isinstance(indices.ty, relax.TupleType):
        return [relax.TupleGetItem(indices, place) for place in range(len(indices.ty.fields))]
    return [indices]


def _inside(indices: Any, at: Sequence[Any], extent: Any, from_end: bool = True) -> Any:
    """The place along an axis of `extent` that the index at `at` means; not `from_end`: a negative one means none."""
    index, dtype = indices(*at), str(indices.dtype)
    extent = tirx.const(extent, dtype) if isinstance(extent, int) else extent.astype(dtype)
    last = extent - tirx.const(1, dtype)
    if dtype.startswith("u"):
        return tirx.min(index, last)
    counted = tirx.Select(index < tirx.const(0, dtype), index + extent if from_end else tirx.const(-1, dtype), index)
    return tirx.max(tirx.min(counted, last), tirx.const(0, dtype))


def take(data: Any, indices: Any, axis: int | None, from_end: bool = True) -> Any:
    """Without an axis, of the elements in a row. Of `data` its `shape` is asked for, and elements, as of a function."""
    if axis is None:
        data, axis = topi.reshape(data, [math.prod(data.shape)]), 0
    axis %= len(data.shape)
    rank, extent = len(indices.shape), data.shape[axis]

    def taken(*at: Any) -> Any:
        place = _inside(indices, at[axis : axis + rank], extent, from_end)
        return data(*at[:axis], place, *at[axis + rank :])

    return te.compute([*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]], taken, name="take")


def _gather_elements(data: Any, indices: Any, axis: int) -> Any:
    axis %= len(data.shape)

    def gathered(*at: Any) -> Any:
        return data(*at[:axis], _inside(indices, at, data.shape[axis]), *at[axis + 1 :])

    return te.compute(indices.shape, gathered, name="gather")


def _gather_nd(data: Any, indices: Any, batch_dims: int) -> Any:
    """The last axis of `indices` holds the places along the axes of `data` behind the batch's."""
    *outer, depth = indices.shape
    depth, rank = int(depth), len(indices.shape) - 1

    def gathered(*at: Any) -> Any:
        places = (_inside(indices, (*at[:rank], j), data.shape[batch_dims + j]) for j in range(depth))
        return data(*at[:batch_dims], *places, *at[rank:])

    return te.compute([*outer, *data.shape[batch_dims + depth :]], gathered, name="gather")


def _index_tensor(data: Any, indices: Sequence[Any]) -> Any:
    """`data[i, j, ...]` of numpy: `indices`, broadcast, are the places along the first axes."""
    shape = broadcast_shape(indices)
    rank = len(shape)

    def indexed(*at: Any) -> Any:
        own = (own_place(index, at[:rank]) for index in indices)
        return data(*map(_inside, indices, own, data.shape), *at[rank:])

    return te.compute([*shape, *data.shape[len(indices) :]], indexed, name="index")
