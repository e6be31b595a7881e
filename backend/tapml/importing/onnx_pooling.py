"""ONNX's LpPool, MaxPool with the places of what it chooses, and MaxUnpool, which puts it back there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.dtypes import stored
from tapml.importing.kernel_calls import as_dtype, call, call_program, call_several
from tapml.importing.onnx_operands import fixed_shape, numbers, text, within
from tapml.importing.relax_ir import Expr, tensor_dtype
from tapml.importing.sequential import Program, let
from tapml.lowering.pooling import Line, sources, summed, taps


def _windows(sizes: Sequence[int], attributes: Mapping[str, Any]) -> tuple[list[Line], list[int]]:
    """What moves over the spatial axes by the attributes of ONNX's pooling operators, and how often it fits."""
    rank = len(sizes)
    kernel = list(attributes["kernel_shape"])
    strides = list(attributes.get("strides") or [1] * rank)
    dilations = list(attributes.get("dilations") or [1] * rank)
    pads = list(attributes.get("pads") or [0] * (2 * rank))
    reach = [dilation * (extent - 1) + 1 for dilation, extent in zip(dilations, kernel, strict=True)]
    mode = text(attributes.get("auto_pad", b"NOTSET"))
    if mode.startswith("SAME"):
        results = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
        whole = [
            max((result - 1) * stride + wide - size, 0)
            for result, stride, wide, size in zip(results, strides, reach, sizes, strict=True)
        ]
        before = [(pad + (mode == "SAME_LOWER")) // 2 for pad in whole]
        pads = [*before, *(pad - first for pad, first in zip(whole, before, strict=True))]
    else:
        pads = [0] * (2 * rank) if mode == "VALID" else pads
        results = []
        for i, size in enumerate(sizes):
            room = size + pads[i] + pads[rank + i] - reach[i]
            count = (-(-room // strides[i]) if attributes.get("ceil_mode") else room // strides[i]) + 1
            # One that would begin behind the data and its padding in front is none.
            past = attributes.get("ceil_mode") and (count - 1) * strides[i] >= size + pads[i]
            results.append(count - bool(past))
    lines = zip(sizes, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True)
    return [Line(*line) for line in lines], results


def lp_pool(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """(sum |x|^p)^(1/p) of each window."""
    (data,) = inputs
    lines, results = _windows(fixed_shape(data, "LpPool")[2:], attributes)
    p = float(attributes.get("p", 2))

    def norm(data: Any) -> Any:
        exponent, inverse = (tirx.const(value, str(data.dtype)) for value in (p, 1 / p))
        totals = summed(data, lines, results, lambda value: tirx.power(tirx.abs(value), exponent))
        return te.compute(totals.shape, lambda *at: tirx.power(totals(*at), inverse), name="pool_norm")

    return as_dtype(builder, call(builder, norm, [data], name="lp_pool"), tensor_dtype(data.ty))


def max_pool(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The largest elements and where they are in the flattened data; None where only the first is asked for."""
    if attributes["outputs"] < 2:
        return None
    (data,) = inputs
    lines, results = _windows(fixed_shape(data, "MaxPool")[2:], attributes)
    column_major = bool(attributes["storage_order"])
    values, places = call_several(builder, _pooled, [data], lines, results, column_major, name="max_pool")
    return [as_dtype(builder, values, tensor_dtype(data.ty)), as_dtype(builder, places, "int64")]


def _pooled(data: Any, lines: Sequence[Line], results: Sequence[int], column_major: bool) -> list[Any]:
    batch, channels, *sizes = data.shape
    shape = (batch, channels, *results)
    lowest = tirx.min_value(str(data.dtype))
    value_taps, place_taps = taps(lines, "k"), taps(lines, "j")

    def largest(n: Any, c: Any, *at: Any) -> Any:
        places, inside = sources(lines, at, value_taps)
        return te.max(tirx.Select(inside, data(n, c, *places), lowest), axis=value_taps)

    values = te.compute(shape, largest, name="values")
    # The first axis varies slowest, or fastest.
    order = list(range(len(sizes)) if not column_major else reversed(range(len(sizes))))
    beyond = tirx.const(2**31 - 1, "int32")

    def first(n: Any, c: Any, *at: Any) -> Any:
        places, inside = sources(lines, at, place_taps)
        flat: Any = tirx.const(0, "int32")
        for i in order:
            flat = flat * int(sizes[i]) + places[i].astype("int32")
        found = tirx.all(inside, tirx.max(data(n, c, *places), lowest) == values(n, c, *at))
        return te.min(tirx.Select(found, flat, beyond), axis=place_taps)

    local = te.compute(shape, first, name="local")
    plane = math.prod(int(size) for size in sizes)

    def place(n: Any, c: Any, *at: Any) -> Any:
        # Where all are NaN none is the largest: the first then, not one out of range.
        own = tirx.Select(local(n, c, *at) == beyond, tirx.const(0, "int32"), local(n, c, *at))
        return (n * channels + c).astype("int32") * plane + own

    return [values, te.compute(shape, place, name="places")]


def max_unpool(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """`indices` are places in the flattened tensor that the window makes of the data's sizes; a larger
    `output_shape` adds zeros behind its axes. Of equal indices the last counts.
    """
    data, indices, output_shape = (*inputs, None)[:3]
    shape, dtype = fixed_shape(data, "MaxUnpool"), tensor_dtype(data.ty)
    kernel, rank = attributes["kernel_shape"], len(shape) - 2
    strides = attributes.get("strides") or [1] * rank
    pads = attributes.get("pads") or [0] * (2 * rank)
    spatial = [(size - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i] for i, size in enumerate(shape[2:])]
    inferred = [*shape[:2], *spatial]
    flat = [builder.emit(op.reshape(tensor, [-1])) for tensor in (data, indices)]
    result = builder.emit(op.reshape(_placed(builder, flat, math.prod(shape), math.prod(inferred)), inferred))
    if output_shape is not None:
        wanted = [int(size) for size in numbers(output_shape, "MaxUnpool", "output_shape")]
        more = [size - has for size, has in zip(wanted, inferred, strict=True)]
        if any(extent < 0 for extent in more):
            raise InputError(f"MaxUnpool to {wanted} is smaller than {inferred}, which its window makes of its input")
        if any(more):
            result = builder.emit(op.nn.pad(result, [width for extent in more for width in (0, extent)]))
    return as_dtype(builder, result, dtype)


def _placed(builder: Expr, flat: Sequence[Expr], count: int, size: int) -> Expr:
    """Zeros, into which the elements of the first of `flat` are written one after the other where the second says."""
    dtype = stored(tensor_dtype(flat[0].ty) or "")
    program = Program("max_unpool")
    values, places = program.input("values", [count], dtype), program.input("places", [count], "int32")
    result = program.output("result", [size], dtype)
    program.fill(result, 0)

    def body(_: Sequence[Any], steps: Sequence[Any]) -> Any:
        bound, place = let("place", within(places[steps[0]], tirx.const(size, "int32")))
        yield bound
        yield result.store([place], values[steps[0]])

    program.steps([1], [count], body)
    return call_program(builder, program.function(), flat, program.results)[0]
