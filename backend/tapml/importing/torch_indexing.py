"""Indexing, slicing and scattering of PyTorch, where TVM's importer reads or writes other elements, or gives up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.relax_ir import Expr, tensor_dtype
from tapml.importing.sizes import LONGEST, Bounds, integer, variables
from tapml.importing.torch_arithmetic import Converter, as_tensor

_END = 2**31 - 1


def indexing(bounds: Bounds) -> dict[str, Converter]:
    """By the operator's name as the importer spells it; `bounds`: least and most of each symbol."""
    scatters = ("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add.default")
    return {
        "embedding.default": _embedding,
        "index_select.default": _index_select,
        "index.Tensor": _index,
        "index_put.default": _index_put,
        "masked_fill.Scalar": _masked_fill,
        "masked_fill.Tensor": _masked_fill,
        **dict.fromkeys((*scatters, "scatter_reduce.two"), _scatter),
        "select.int": _select,
        "select_scatter.default": _select_scatter,
        "slice.Tensor": lambda node, importer: _slice(node, importer, bounds),
        "slice_scatter.default": _slice_scatter,
        "unfold.default": _unfold,
        **{f"reflection_pad{rank}d.default": partial(_padded, "reflect") for rank in (1, 2, 3)},
        **{f"replication_pad{rank}d.default": partial(_padded, "edge") for rank in (1, 2, 3)},
    }


# ---------------------------------------------------- tensors of indices


class _Indexed:
    """`data[..., i, :, j]`: its indexed axes are brought to the front, where indices are joined like numpy's."""

    def __init__(self, data: Expr, indices: Sequence[Any]) -> None:
        """Raises InputError for a mask, of which nobody knows how much it takes."""
        self.axes = [axis for axis, index in enumerate(indices) if index is not None]
        self.indices = [index for index in indices if index is not None]
        if any(tensor_dtype(index.ty) == "bool" for index in self.indices):
            raise InputError(
                "indexing with a mask gives a size that depends on the values of the input: use torch.where with the "
                "mask instead",
                reason="a size depends on values",
            )
        others = [axis for axis in range(data.ty.ndim) if axis not in self.axes]
        self.order = [*self.axes, *others]
        self.rank = max(index.ty.ndim for index in self.indices)
        # Where they stand side by side, what they give takes their place; else it comes first.
        together = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.before = self.axes[0] if together else 0

    def outward(self) -> list[int]:
        """The axes of the indexed front, in the order that the result has."""
        front, before = range(self.rank), range(self.rank, self.rank + self.before)
        rest = range(self.rank + self.before, self.rank + len(self.order) - len(self.axes))
        return [*before, *front, *rest]


def _embedding(node: Any, importer: Any) -> Any:
    weight, indices, *_ = importer.retrieve_args(node)
    return _rows(importer, weight, 0, indices)


def _index_select(node: Any, importer: Any) -> Any:
    data, axis, indices = importer.retrieve_args(node)
    return _rows(importer, data, axis, indices)


def _rows(importer: Any, data: Expr, axis: int, indices: Expr) -> Any:
    """Of operators to which a negative index is an error (to `data[indices]` it is none)."""
    return importer.block_builder.emit(op.take(data, indices, axis=axis, mode="clip"))


def _index(node: Any, importer: Any) -> Any:
    data, indices = importer.retrieve_args(node)
    emit, found = importer.block_builder.emit, _Indexed(data, indices)
    if len(found.axes) == 1:
        return emit(op.take(data, found.indices[0], axis=found.axes[0]))
    made = emit(op.index_tensor(_permuted(emit, data, found.order), found.indices))
    return _permuted(emit, made, found.outward())


def _index_put(node: Any, importer: Any) -> Any:
    """`values` at places (a cache's rows); of two at the same place the last one, or, if they accumulate, all."""
    emit = importer.block_builder.emit
    data, indices, values, accumulate = (*importer.retrieve_args(node), False)[:4]
    values = as_tensor(importer, values, tensor_dtype(data.ty) or "")
    if [tensor_dtype(index.ty) for index in indices if index is not None] == ["bool"] and indices[0] is not None:
        return _put_where(importer, data, indices[0], values, accumulate)
    found = _Indexed(data, indices)
    if not accumulate and len(found.axes) == 1 and found.rank == 1:
        return _put_rows(importer, data, found.axes[0], found.indices[0], values)
    moved = _permuted(emit, data, found.order)
    shape = emit(op.index_tensor(moved, found.indices)).ty.shape.values
    inward = found.outward()
    values = emit(op.broadcast_to(values, [shape[axis] for axis in inward]))
    values = _permuted(emit, values, [inward.index(axis) for axis in range(len(inward))])
    front = [shape[axis] for axis in range(found.rank)]
    indices = [emit(op.broadcast_to(as_tensor(importer, index, "int64"), front)) for index in found.indices]
    places = emit(op.stack(indices, axis=found.rank))
    made = emit(op.scatter_nd(moved, places, values, "add" if accumulate else "update"))
    return _permuted(emit, made, [found.order.index(axis) for axis in range(len(found.order))])


def _put_where(importer: Any, data: Expr, mask: Expr, values: Expr, accumulate: bool) -> Any:
    """At the places of a mask: one value for all of them, or one for each place behind the mask's axes."""
    emit, behind = importer.block_builder.emit, data.ty.ndim - mask.ty.ndim
    outer = values.ty.shape.values[: max(values.ty.ndim - behind, 0)]
    if any(getattr(size, "value", 0) != 1 for size in outer):
        raise InputError(
            "writing different values at the places of a mask depends on how many places it has: use torch.where with "
            "values of the whole shape instead",
            reason="a size depends on values",
        )
    mask = emit(op.reshape(mask, [*mask.ty.shape.values, *([1] * behind)]))
    if accumulate:
        values = emit(op.add(data, values))
    return emit(op.where(mask, values, data))


def _put_rows(importer: Any, data: Expr, dimension: int, index: Expr, values: Expr) -> Any:
    """Along one axis: the last of the places that are written, if any, is searched for each row."""
    emit = importer.block_builder.emit
    dtype = str(index.ty.dtype)
    shape, (count,) = [*data.ty.shape.values], index.ty.shape.values
    size = shape[dimension]
    values = emit(op.broadcast_to(values, [*shape[:dimension], count, *shape[dimension + 1 :]]))
    last = as_tensor(importer, size, dtype)
    index = emit(op.where(op.less(index, relax.const(0, dtype)), op.add(index, last), index))
    row = emit(op.expand_dims(op.arange(0, size, 1, dtype), 1))
    number = op.where(op.equal(row, index), op.arange(0, count, 1, dtype), relax.const(-1, dtype))
    number = emit(op.max(emit(number), 1))
    taken = emit(op.take(values, emit(op.maximum(number, relax.const(0, dtype))), axis=dimension))
    there = op.greater_equal(number, relax.const(0, dtype))
    there = emit(op.reshape(there, [size, *([1] * (len(shape) - dimension - 1))]))
    return emit(op.where(there, taken, data))


def _masked_fill(node: Any, importer: Any) -> Any:
    data, mask, value = importer.retrieve_args(node)
    return importer.block_builder.emit(op.where(mask, as_tensor(importer, value, tensor_dtype(data.ty) or ""), data))


_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amin": "min", "amax": "max"}


def _scatter(node: Any, importer: Any) -> Any:
    """At the places of `index` along an axis; what lands on the same place is joined, or the last one stays."""
    data, axis, index, values = importer.retrieve_args(node)[:4]
    emit, dtype = importer.block_builder.emit, tensor_dtype(data.ty) or ""
    name = node.target.__name__
    reduction = node.args[4] if len(node.args) > 4 else node.kwargs.get("reduce")
    if name.startswith("scatter_add"):
        reduction = "add"
    if (reduction is not None and reduction not in _REDUCTIONS) or not node.kwargs.get("include_self", True):
        raise ValueError(f"there is no kernel that reduces by {reduction}, or leaves what was there out")
    shape = index.ty.shape.values
    if index.ty.ndim == 0:
        index, shape = emit(op.reshape(index, [1])), [1]
    if not isinstance(values, tvm.ir.Expr) or values.ty.ndim == 0:
        values = emit(op.broadcast_to(as_tensor(importer, values, dtype), list(shape)))
    if values.ty.ndim and [*map(str, values.ty.shape.values)] != [*map(str, shape)]:
        # PyTorch reads as much of it as there are indices.
        axes = list(range(values.ty.ndim))
        values = emit(op.strided_slice(values, axes, [0] * len(axes), list(shape), assume_inbound=True))
    scalar = data.ty.ndim == 0
    data = emit(op.reshape(data, [1])) if scalar else data
    reduction = _REDUCTIONS[reduction] if reduction else "update"
    made = emit(op.scatter_elements(data, index, values, axis=0 if scalar else axis, reduction=reduction))
    return emit(op.reshape(made, [])) if scalar else made


# ---------------------------------------------------- slices


def _select(node: Any, importer: Any) -> Any:
    """One element along a dimension; a negative index counts from the end."""
    tensor, dimension, index = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    if not isinstance(index, int):
        at = emit(op.reshape(as_tensor(importer, index, "int64"), []))
        return emit(op.take(tensor, at, axis=dimension))
    if index >= 0:
        return emit(op.take(tensor, relax.const(index, "int64"), axis=dimension))
    # The size may be a symbol still, so that no place can be told yet: a slice counts from the end by itself.
    end = index + 1 if index < -1 else _END
    return emit(op.squeeze(emit(op.strided_slice(tensor, [dimension], [index], [end])), [dimension]))


def _slice(node: Any, importer: Any, bounds: Bounds) -> Any:
    """Of which the shape is as simple as the symbols' bounds allow, so that it fits what it is combined with."""
    given = importer.retrieve_args(node)
    parts: list[Any] = [*given, *(0, None, None, 1)[len(given) - 1 :]]
    tensor, dimension, start, end, step = parts
    dimension %= tensor.ty.ndim
    size = tensor.ty.shape.values[dimension]
    analyzer = tvm.sym.Analyzer()
    for symbol in {found for value in (size, start, end) if value is not None for found in variables(value)}:
        low, high = bounds.get(symbol.name, (1, LONGEST))
        analyzer.bind(symbol, tvm.ir.Range(low, high + 1))

    def place(value: Any) -> Any:
        value = integer(value)
        if not analyzer.can_prove(value >= 0) and analyzer.can_prove(value < 0):
            value = tirx.max(value + size, 0)
        return analyzer.simplify(tirx.min(value, size))

    first, last = place(0 if start is None else start), place(size if end is None else end)
    if analyzer.can_prove(first == 0) and analyzer.can_prove(last == size) and step == 1:
        return tensor
    if analyzer.can_prove(last < first):
        last = first
    return importer.block_builder.emit(op.strided_slice(tensor, [dimension], [first], [last], [step], True))


def _select_scatter(node: Any, importer: Any) -> Any:
    data, values, dimension, index = importer.retrieve_args(node)
    values = importer.block_builder.emit(op.expand_dims(values, dimension))
    return _replaced(importer, data, values, dimension, index, None if index == -1 else index + 1, 1)


def _slice_scatter(node: Any, importer: Any) -> Any:
    given = importer.retrieve_args(node)
    parts: list[Any] = [*given, *(0, None, None, 1)[len(given) - 2 :]]
    return _replaced(importer, *parts)


def _replaced(importer: Any, data: Expr, values: Expr, axis: int, start: Any, end: Any, step: int) -> Any:
    """`data` with `values` in a slice along an axis of a known size, as pieces side by side."""
    emit, axis = importer.block_builder.emit, axis % data.ty.ndim
    size = getattr(data.ty.shape.values[axis], "value", None)
    if size is None or not all(isinstance(place, int | None) for place in (start, end)):
        raise InputError(
            "a slice is written along an axis whose size, or at places, that differ among the inputs: carve one size "
            "at a time",
            reason="a slice of a size that varies is written",
        )
    places = range(*slice(start, end, step).indices(int(size)))
    values = as_tensor(importer, values, tensor_dtype(data.ty) or "")
    shape = [*data.ty.shape.values[:axis], len(places), *data.ty.shape.values[axis + 1 :]]
    values = emit(op.broadcast_to(values, shape))
    if not places:
        return data
    if step == 1:
        pieces = [_part(emit, data, axis, 0, places[0]), values, _part(emit, data, axis, places[-1] + 1, int(size))]
        pieces = [piece for piece in pieces if piece is not None]
        return pieces[0] if len(pieces) == 1 else emit(op.concat(pieces, axis))
    index = [places.index(place) if place in places else -1 for place in range(int(size))]
    return _put_by_number(importer, data, axis, index, values)


def _unfold(node: Any, importer: Any) -> Any:
    """Windows of `size` along an axis, each `step` after the one before; their elements are the last axis."""
    data, axis, size, step = importer.retrieve_args(node)
    emit, axis = importer.block_builder.emit, axis % data.ty.ndim
    extent = getattr(data.ty.shape.values[axis], "value", None)
    if extent is None:
        raise ValueError("its windows are along an axis whose size differs among the inputs")
    count = (int(extent) - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    windows = emit(op.take(data, relax.const(places), axis=axis))
    rank = data.ty.ndim + 1
    return _permuted(emit, windows, [*range(axis + 1), *range(axis + 2, rank), axis + 1])


def _padded(mode: str, node: Any, importer: Any) -> Any:
    """With elements of its own, as numpy.pad's mode has them; the pads of the last axis come first."""
    data, pads = importer.retrieve_args(node)
    for number in range(len(pads) // 2):
        axis = data.ty.ndim - 1 - number
        extent = getattr(data.ty.shape.values[axis], "value", None)
        before, after = pads[2 * number : 2 * number + 2]
        if extent is None or before < 0 or after < 0:
            raise ValueError("it pads an axis whose size differs among the inputs, or by less than nothing")
        places = np.pad(np.arange(int(extent)), (before, after), mode=mode)  # type: ignore[call-overload]
        data = importer.block_builder.emit(op.take(data, relax.const(places), axis=axis))
    return data


def _put_by_number(importer: Any, data: Expr, axis: int, numbers: Sequence[int], values: Expr) -> Any:
    """Along an axis, the value of each place's number; what is there already where that is -1."""
    emit = importer.block_builder.emit
    taken = emit(op.take(values, relax.const(np.maximum(numbers, 0)), axis=axis))
    there = relax.const(np.array(numbers).reshape([-1, *([1] * (data.ty.ndim - axis - 1))]) >= 0)
    return emit(op.where(there, taken, data))


def _part(emit: Any, data: Expr, axis: int, start: int, end: int) -> Expr | None:
    return emit(op.strided_slice(data, [axis], [start], [end], assume_inbound=True)) if start < end else None


def _permuted(emit: Any, tensor: Expr, order: Sequence[int]) -> Expr:
    return tensor if list(order) == sorted(order) else emit(op.permute_dims(tensor, list(order)))
