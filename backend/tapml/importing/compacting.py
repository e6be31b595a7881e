"""ONNX operators that choose some elements by their values: NonZero, Compress, Unique.

How many there are depends on the data: each gives as many as there could be, zeros behind those that there are, and a
count (`Counted`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.dtypes import stored
from tapml.importing.kernel_calls import as_dtype, call, call_program, call_several
from tapml.importing.onnx_operands import fixed_shape, within, zero
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype
from tapml.importing.sequential import Program, int32, let, near_square


@dataclass(frozen=True)
class Counted:
    """Of a tensor, which is as long along `axis` as it could be: how many (int32 [1]) of its places there count."""

    count: Expr
    axis: int


LONGEST = 8192
"""Elements among which Unique compares each with each; slices: a quarter of it."""


def nonzero(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[tuple[Expr, Counted | None]]:
    """Of an input of all sizes; each output with its count."""
    (data,) = inputs
    shape = fixed_shape(data, "NonZero")
    size = math.prod(shape)
    places, count = _compacted(builder, builder.emit(op.reshape(data, [-1])), size, "nonzero")

    def coordinate(found: Any, total: Any) -> Any:
        def element(axis: Any, k: Any) -> Any:
            chosen: Any = tirx.const(0, "int32")
            rest: Any = found(k)
            for number in reversed(range(len(shape))):
                chosen = tirx.Select(axis == number, tirx.floormod(rest, int32(shape[number])), chosen)
                rest = tirx.floordiv(rest, int32(shape[number]))
            return tirx.Select(k.astype("int32") < total(0), chosen, tirx.const(0, "int32"))

        return te.compute((len(shape), size), element, name="coordinates")

    made = call(builder, coordinate, [places, count], name="coordinates")
    return [(as_dtype(builder, made, "int64"), Counted(count, 1))]


def compress(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[tuple[Expr, Counted | None]]:
    """The slices along an axis, or the elements of the flattened data, where the condition holds."""
    data, condition = inputs
    if "axis" not in attributes:
        data = builder.emit(op.reshape(data, [-1]))
    axis = int(attributes.get("axis", 0)) % data.ty.ndim
    size = min(fixed_shape(condition, "Compress")[0], fixed_shape(data, "Compress")[axis])
    places, count = _compacted(builder, condition, size, "compress")
    made = call(builder, _taken, [data, places, count], axis, size, name="compressed")
    return [(as_dtype(builder, made, tensor_dtype(data.ty)), Counted(count, axis))]


def _taken(data: Any, places: Any, count: Any, axis: int, size: int) -> Any:
    """The slices of `data` at the first `count` places, and zeros."""
    shape = [size if number == axis else extent for number, extent in enumerate(data.shape)]

    def element(*at: Any) -> Any:
        place = within(places(at[axis]), int32(data.shape[axis]))
        found = data(*at[:axis], place, *at[axis + 1 :])
        return tirx.Select(at[axis].astype("int32") < count(0), found, zero(data.dtype))

    return te.compute(shape, element, name="taken")


def _compacted(builder: Expr, flags: Expr, size: int, name: str) -> tuple[Expr, Expr]:
    """The places (int32) of the first `size` flags that are not zero, in order, of which the rest means nothing, and
    how many there are (int32 [1]). Rows of flags are gone through at once, each in order.
    """
    rows, columns = near_square(size)
    dtype = stored(tensor_dtype(flags.ty) or "")
    program = Program(name)
    given = program.input("flags", fixed_shape(flags, name), dtype)
    totals = program.output("totals", [rows], "int32")
    starts = program.output("starts", [rows], "int32")
    done = program.output("done", [rows], "int32")
    # Behind the places of all: where each row writes what nobody reads.
    places = program.output("places", [size + rows], "int32")
    count = program.output("count", [1], "int32")

    def flag(row: Any, column: Any) -> tuple[Any, Any]:
        place = row * columns + column
        return place, tirx.all(place < size, given[within(place, size)] != zero(dtype))

    def one(condition: Any) -> Any:
        return tirx.Select(condition, tirx.const(1, "int32"), tirx.const(0, "int32"))

    def counted(at: Sequence[Any], steps: Sequence[Any]) -> Any:
        _, found = flag(at[0], steps[0])
        yield totals.store(at, totals[at[0]] + one(found))

    def begun(_: Sequence[Any], steps: Sequence[Any]) -> Any:
        before = tirx.max(steps[0] - 1, 0)
        start = tirx.Select(steps[0] == 0, tirx.const(0, "int32"), starts[before] + totals[before])
        yield starts.store(steps, start)
        yield count.store([0], starts[steps[0]] + totals[steps[0]])

    def placed(at: Sequence[Any], steps: Sequence[Any]) -> Any:
        place, found = flag(at[0], steps[0])
        bound, goal = let("goal", tirx.Select(found, starts[at[0]] + done[at[0]], int32(size + at[0])))
        yield bound
        yield places.store([within(goal, int32(size + rows))], int32(place))
        yield done.store(at, done[at[0]] + one(found))

    program.fill(totals, 0)
    program.steps([rows], [columns], counted)
    program.steps([1], [rows], begun)
    program.fill(places, 0)
    program.fill(done, 0)
    program.steps([rows], [columns], placed)
    found = call_program(builder, program.function(), [flags], program.results)
    return found[3], found[4]


def unique(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[tuple[Expr, Counted | None]]:
    """Elements of the flattened data, or slices along an axis, each once: in order, or as they come first.

    Raises InputError for more than `LONGEST`.
    """
    (data,) = inputs
    shape, emit = fixed_shape(data, "Unique"), builder.emit
    flat = "axis" not in attributes
    axis = 0 if flat else int(attributes["axis"]) % len(shape)
    shape = [math.prod(shape)] if flat else shape
    data = emit(op.reshape(data, shape))
    order = [axis, *(number for number in range(len(shape)) if number != axis)]
    size, width = shape[axis], math.prod(shape) // max(shape[axis], 1)
    most = LONGEST if width == 1 else LONGEST // 4
    if size > most:
        raise InputError(f"Unique of {size} along its axis: tapml takes at most {most}")
    rows = emit(op.reshape(emit(op.permute_dims(data, order)), [size, width]))
    leaders = call(builder, _leaders, [rows], name="unique_leaders", alone=True)
    ranks, count = call_several(builder, _ordered, [rows, leaders], bool(attributes["sorted"]), name="unique_ranks")
    firsts, counts = call_several(builder, _firsts, [leaders, ranks, count], name="unique_places")
    made = as_dtype(builder, call(builder, _taken, [data, firsts, count], axis, size, name="unique"), _dtype(data))
    wide = [as_dtype(builder, found, "int64") for found in (firsts, ranks, counts)]
    results: list[tuple[Expr, Counted | None]] = [(made, Counted(count, axis)), (wide[0], Counted(count, 0))]
    return [*results, (wide[1], None), (wide[2], Counted(count, 0))][: attributes["outputs"]]


def _dtype(data: Expr) -> str | None:
    return tensor_dtype(data.ty)


def _difference(rows: Any) -> Any:
    """(i, j) -> the column that tells two rows apart, or beyond the last: a number, or a tensor of them."""
    size, width = rows.shape
    if int(width) == 1:
        return lambda i, j: tirx.Select(rows(i, 0) == rows(j, 0), tirx.const(1, "int32"), tirx.const(0, "int32"))
    column = te.reduce_axis((0, width), "p")

    def first(i: Any, j: Any) -> Any:
        apart = rows(i, column) != rows(j, column)
        return te.min(tirx.Select(apart, int32(column.var), int32(width)), axis=column)

    return te.compute((size, size), first, name="apart")


def _leaders(rows: Any) -> Any:
    """The first row that is the same as each."""
    size, width = rows.shape
    other, apart = te.reduce_axis((0, size), "j"), _difference(rows)

    def first(i: Any) -> Any:
        same = tirx.any(apart(i, other) == int32(width), other == i)
        return te.min(tirx.Select(same, int32(other.var), int32(size)), axis=other)

    return te.compute((size,), first, name="leaders")


def _ordered(rows: Any, leaders: Any, in_order: bool) -> list[Any]:
    """The number of each row among those that are there once, and how many these are."""
    size, width = rows.shape
    other, each, apart = te.reduce_axis((0, size), "j"), te.reduce_axis((0, size), "k"), _difference(rows)
    one, none = tirx.const(1, "int32"), tirx.const(0, "int32")

    def number(i: Any) -> Any:
        column = tirx.min(apart(i, other), int32(width - 1))
        before = rows(other, column) < rows(i, column) if in_order else int32(other.var) < leaders(i)
        return te.sum(tirx.Select(tirx.all(leaders(other) == int32(other.var), before), one, none), axis=other)

    def total(_: Any) -> Any:
        return te.sum(tirx.Select(leaders(each) == int32(each.var), one, none), axis=each)

    return [te.compute((size,), number, name="numbers"), te.compute((1,), total, name="count")]


def _firsts(leaders: Any, ranks: Any, count: Any) -> list[Any]:
    """Where each of those that are there once comes first, and how often it is there."""
    (size,) = leaders.shape
    row, each = te.reduce_axis((0, size), "i"), te.reduce_axis((0, size), "j")
    none = tirx.const(0, "int32")

    def first(k: Any) -> Any:
        own = tirx.all(leaders(row) == int32(row.var), ranks(row) == int32(k))
        return te.sum(tirx.Select(own, int32(row.var), none), axis=row)

    def times(k: Any) -> Any:
        return te.sum(tirx.Select(ranks(each) == int32(k), tirx.const(1, "int32"), none), axis=each)

    return [te.compute((size,), first, name="firsts"), te.compute((size,), times, name="counts")]


def masked(builder: Expr, data: Expr, counted: Counted) -> Expr:
    """With zeros behind its count."""
    rank, size = data.ty.ndim, axes_of(data)[counted.axis]
    column = [size if number == counted.axis else 1 for number in range(rank)]
    emit = builder.emit
    places = emit(op.reshape(op.arange(0, size, 1, "int32"), column))
    counts = emit(op.less(places, emit(op.reshape(counted.count, [1] * rank))))
    return emit(op.where(counts, data, relax.const(0, tensor_dtype(data.ty))))
