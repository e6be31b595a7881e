"""ONNX operators that move elements: Pad in all its modes, Slice backwards, Split into parts that may be empty;
SpaceToDepth; and EyeLike, Det.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype, call
from tapml.importing.onnx_operands import Operands, fixed_shape, numbers, text, within
from tapml.importing.relax_ir import Expr, tensor_dtype

_MODES = ("constant", "edge", "reflect", "wrap")


def pad(builder: Expr, inputs: Operands, attributes: Mapping[str, Any]) -> Any:
    """By operands, or by attributes as of opsets before 11; a negative width takes elements away."""
    data, pads, value, axes = (*inputs, None, None, None)[:4]
    if pads is not None and (known := inputs.known(1)) is not None and known.symbolic:
        raise InputError(f"{inputs.place} adds as many elements as an input's size says: give inputs of one size")
    rank = data.ty.ndim
    widths = list(attributes.get("pads") or attributes.get("paddings") or ()) if pads is None else []
    widths = widths or [int(width) for width in numbers(pads, "Pad", "pads")]
    chosen = [int(axis) % rank for axis in numbers(axes, "Pad", "axes")] if axes is not None else range(rank)
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(chosen):
        before[axis], after[axis] = widths[place], widths[len(widths) // 2 + place]
    mode = text(attributes.get("mode") or "constant")
    if mode not in _MODES:
        raise InputError(f"Pad has no mode {mode!r}")
    dtype = tensor_dtype(data.ty)
    operands = [data]
    tables: dict[int, int] = {}
    if mode == "constant":
        found = relax.const(attributes.get("value", 0.0), dtype) if value is None else value
        operands.append(builder.emit(op.reshape(found, [])) if getattr(found.ty, "ndim", 0) else found)
    elif mode in ("reflect", "wrap"):
        for axis, size in enumerate(inputs.shape()):
            front, behind = before[axis], after[axis]
            if not front and not behind:
                continue
            # By a table: TVM drops the number in (i + 4) % 5 where i is itself a remainder.
            if isinstance(size, int):
                tables[axis] = len(operands)
                operands.append(relax.const(_sources(size, front, behind, mode)))
            else:
                _require_room(inputs, size + min(front, 0) + min(behind, 0), max(front, behind), mode)
    sizes = [size + front + behind for size, front, behind in zip(data.ty.shape, before, after, strict=True)]
    if any(int(getattr(size, "value", 1)) < 0 for size in sizes):
        raise InputError(f"Pad by {widths} takes away more than there is")
    return as_dtype(builder, call(builder, _padded, operands, before, after, mode, tables, name="pad"), dtype)


def _require_room(inputs: Operands, left: Any, most: int, mode: str) -> None:
    """Along an axis of any size what is mirrored, or taken from the other side, is taken once: that becomes the range
    of its size. ONNX Runtime refuses to mirror more."""
    if not inputs.sizes.holds(left > most if mode == "reflect" else left >= most):
        raise InputError(
            f"{inputs.place} adds {most} elements ({mode}) and has {left} to take them from: give inputs of one size"
        )


def _sources(size: int, before: int, after: int, mode: Any) -> Any:
    """Where each element along an axis comes from."""
    left = np.arange(size)[-min(before, 0) : size + min(after, 0)]
    return np.pad(left, (max(before, 0), max(after, 0)), mode=mode).astype(np.int32)


def _padded(data: Any, *rest: Any) -> Any:
    *others, before, after, mode, tables = rest
    moved = [axis for axis in range(len(data.shape)) if before[axis] or after[axis]]
    values = others if mode == "constant" else []

    def source(place: Any, axis: int) -> Any:
        """Where an element comes from, or lies, or the next one to it, among those that are left."""
        if axis in tables:
            return others[tables[axis] - 1](place)
        size = data.shape[axis] + min(before[axis], 0) + min(after[axis], 0)
        at = place - max(before[axis], 0)
        if mode == "reflect":
            at = tirx.max(at, -at)
            at = tirx.min(at, 2 * (size - 1) - at)
        elif mode == "wrap":
            at = tirx.Select(at < 0, at + size, tirx.Select(at >= size, at - size, at))
        return within(at, size) - min(before[axis], 0)

    def element(*at: Any) -> Any:
        found = data(*(source(place, axis) if axis in moved else place for axis, place in enumerate(at)))
        if not values:
            return found
        inside = [
            tirx.all(at[axis] >= max(before[axis], 0), at[axis] < shape[axis] - max(after[axis], 0)) for axis in moved
        ]
        return tirx.Select(tirx.all(*inside), found, values[0]()) if inside else found

    shape = [size + front + behind for size, front, behind in zip(data.shape, before, after, strict=True)]
    return te.compute(shape, element, name="pad")


def strided(builder: Expr, data: Expr, axis: int, places: range) -> Expr:
    """The elements at `places` along an axis, whose size is fixed; there may be none."""
    if places.step > 0 or not places:
        end = places[-1] + 1 if places else 0
        begin = places.start if places else 0
        return builder.emit(op.strided_slice(data, [axis], [begin], [end], [abs(places.step)], assume_inbound=True))
    found = call(builder, _backwards, [data], axis, places, name="reverse_slice")
    return as_dtype(builder, found, tensor_dtype(data.ty))


def _backwards(data: Any, axis: int, places: range) -> Any:
    shape = [len(places) if number == axis else extent for number, extent in enumerate(data.shape)]

    def element(*at: Any) -> Any:
        return data(*at[:axis], places.start + at[axis] * places.step, *at[axis + 1 :])

    return te.compute(shape, element, name="reverse_slice")


def split(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Where a part is empty; None where none is."""
    data, sizes = (*inputs, None)[:2]
    axis = int(attributes.get("axis", 0)) % data.ty.ndim
    size = getattr(data.ty.shape[axis], "value", None)
    given = attributes.get("split") if sizes is None else numbers(sizes, "Split", "sizes")
    if size is None:
        return None
    if given is None:
        count = int(attributes.get("num_outputs") or attributes["outputs"])
        each = -(-int(size) // count)
        given = [max(min(each, int(size) - each * number), 0) for number in range(count)]
    if 0 not in given:
        return None
    ends = list(itertools.accumulate(map(int, given)))
    return [strided(builder, data, axis, range(end - int(n), end)) for n, end in zip(given, ends, strict=True)]


def space_to_depth(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    (data,), block = inputs, attributes["blocksize"]
    batch, channels, height, width = data.ty.shape
    high, wide = height // block, width // block
    split = builder.emit(op.reshape(data, [batch, channels, high, block, wide, block]))
    order = [0, 1, 3, 5, 2, 4] if attributes.get("mode", b"DCR") == b"CRD" else [0, 3, 5, 1, 2, 4]
    moved = builder.emit(op.permute_dims(split, order))
    return op.reshape(moved, [batch, channels * block * block, high, wide])


def eye_like(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Ones on the `k`-th diagonal."""
    from onnx import helper

    (data,) = inputs
    rows, columns = data.ty.shape
    dtype = tensor_dtype(data.ty)
    if "dtype" in attributes:
        dtype = str(helper.tensor_dtype_to_np_dtype(attributes["dtype"]))
    emit = builder.emit
    down = emit(op.reshape(op.arange(0, rows, 1, "int64"), [rows, 1]))
    across = emit(op.reshape(op.arange(0, columns, 1, "int64"), [1, columns]))
    shifted = emit(op.add(down, relax.const(int(attributes.get("k", 0)), "int64")))
    return as_dtype(builder, emit(op.equal(shifted, across)), dtype)


LARGEST_DETERMINANT = 12
"""Rows: the expansion below takes 2^rows steps."""


def determinant(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """By rows: the minors of the first k rows, for all choices of k columns, of those of k - 1 rows. Nothing is
    divided, so that singular matrices need no care.

    Raises InputError for more rows than `LARGEST_DETERMINANT`.
    """
    (data,) = inputs
    *batch, rows, columns = fixed_shape(data, "Det")
    if rows != columns or not 1 <= rows <= LARGEST_DETERMINANT:
        raise InputError(f"Det of {rows} x {columns} matrices: tapml takes square ones of up to {LARGEST_DETERMINANT}")
    flat = builder.emit(op.reshape(data, [math.prod(batch), rows, columns]))
    minors = builder.emit(op.reshape(builder.emit(op.take(flat, relax.const(0, "int64"), axis=1)), [-1, columns]))
    for row in range(1, rows):
        tables = map(relax.const, _expansion(row, columns))
        minors = call(builder, _minors, [flat, minors, *tables], row, name="det", alone=True)
    return op.reshape(minors, batch)


def _expansion(row: int, columns: int) -> list[Any]:
    """Of each choice of row + 1 columns: which column is taken, which former choice is left, and the sign."""
    former = {chosen: place for place, chosen in enumerate(itertools.combinations(range(columns), row))}
    choices = list(itertools.combinations(range(columns), row + 1))
    left = [[former[chosen[:place] + chosen[place + 1 :]] for place in range(row + 1)] for chosen in choices]
    signs = [[(-1.0) ** (row - place) for place in range(row + 1)] for _ in choices]
    return [np.array(choices, np.int32), np.array(left, np.int32), np.array(signs, np.float32)]


def _minors(data: Any, former: Any, columns: Any, left: Any, signs: Any, row: int) -> Any:
    term = te.reduce_axis((0, row + 1), "k")

    def total(batch: Any, choice: Any) -> Any:
        own = data(batch, row, columns(choice, term)) * signs(choice, term).astype(data.dtype)
        return te.sum(own * former(batch, left(choice, term)), axis=term)

    return te.compute((data.shape[0], columns.shape[0]), total, name="det")
