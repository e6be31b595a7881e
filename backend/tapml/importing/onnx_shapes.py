"""ONNX operators that TVM imports for fixed sizes only: where sizes vary, and in loops, where places do.

Converters as in `onnx_operators`; None where TVM's importer is right, or the operator of fixed sizes is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_moves import strided
from tapml.importing.onnx_operands import Operands, text
from tapml.importing.onnx_sequence import places
from tapml.importing.onnx_values import constant, symbolic, tensor_of
from tapml.importing.relax_ir import Expr
from tapml.importing.sizes import integer

Attributes = Mapping[str, Any]


def reshape(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    # TVM's does not know allowzero.
    if len(inputs) < 2 or not (inputs.varies(1) or 0 in inputs.shape()):
        return None
    shape, wanted, keep = inputs.shape(), inputs.sizes_at(1), not attributes.get("allowzero")
    wanted = [shape[place] if keep and isinstance(s, int) and s == 0 else s for place, s in enumerate(wanted)]
    return _reshaped(inputs, wanted)


def flatten(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    if not inputs.varies():
        return None
    return _reshaped(inputs, [math.prod(inputs.shape()[: attributes["axis"]]), -1])


def _reshaped(inputs: Operands, wanted: list[Any]) -> Expr:
    if any(isinstance(size, int) and size == -1 for size in wanted):
        others = math.prod([size for size in wanted if not (isinstance(size, int) and size == -1)])
        rest = math.prod(inputs.shape()) // (1 if isinstance(others, int) and others == 0 else others)
        wanted = [rest if isinstance(size, int) and size == -1 else size for size in wanted]
    return op.reshape(inputs[0], [inputs.sizes.simplified(size) for size in wanted])


def expand(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    if not inputs.varies(1):
        return None
    shape, wanted = inputs.shape(), inputs.sizes_at(1)
    rank = max(len(shape), len(wanted))
    pairs = zip([1] * (rank - len(shape)) + shape, [1] * (rank - len(wanted)) + wanted, strict=True)
    # One of the two is 1, or they are equal, which ONNX promises.
    sizes = [wants if isinstance(has, int) and has == 1 else has for has, wants in pairs]
    return op.broadcast_to(inputs[0], relax.ShapeExpr(sizes))


def constant_of_shape(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr:
    from onnx import numpy_helper

    value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1, np.float32)
    return op.full(relax.ShapeExpr(inputs.sizes_at(0)), constant(value.reshape(())), str(value.dtype))


def numbers_of_range(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr:
    """Range, whose limits are sizes."""
    (start,), (limit,), (step,) = (inputs.sizes_at(position) for position in range(3))
    known = inputs.known(0)
    dtype = known.dtype if known else ""
    if not isinstance(step, int) or step <= 0 or "int" not in dtype:
        raise InputError(f"a {inputs.place} of symbols goes up by a fixed integer only")
    count = inputs.sizes.simplified((limit - start + step - 1) // step)
    count = count if inputs.sizes.holds(integer(count) >= 0) else 0
    numbers = op.arange(0, count, 1, dtype)
    if step != 1:
        numbers = op.multiply(builder.emit(numbers), relax.const(step, dtype))
    if isinstance(start, int) and start == 0:
        return numbers
    return op.add(builder.emit(numbers), tensor_of(builder, symbolic([start], (), dtype)))


def tile(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr:
    """By Relax's operator, where TVM's importer makes a kernel of the tensor's own dtype."""
    times, shape = inputs.sizes_at(1), inputs.shape()
    if all(isinstance(count, int) for count in times):
        return op.tile(inputs[0], times)
    # [a, b] -> [times, a, times, b], of which each pair is one axis in the end.
    split = [size for axis in shape for size in (1, axis)]
    spread = [size for pair in zip(times, shape, strict=True) for size in pair]
    data = builder.emit(op.reshape(inputs[0], split))
    data = builder.emit(op.broadcast_to(data, relax.ShapeExpr(spread)))
    return op.reshape(data, [inputs.sizes.simplified(math.prod(pair)) for pair in zip(times, shape, strict=True)])


def resized(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr:
    """Resize along two axes of sizes that vary."""
    shape = inputs.shape()
    if inputs.given(3):
        wanted = inputs.sizes_at(3)
    else:
        ratios = [Fraction(scale).limit_denominator(1 << 12) for scale in _scales(inputs)]
        wanted = [size * ratio.numerator // ratio.denominator for size, ratio in zip(shape, ratios, strict=True)]
    if len(shape) != 4 or any(not inputs.equal(wanted[axis], shape[axis]) for axis in (0, 1)):
        raise InputError(f"a {inputs.place} of sizes that vary is one of two axes of four, the last")
    mode = text(attributes["mode"])
    return op.image.resize2d(
        inputs[0],
        relax.ShapeExpr([inputs.sizes.simplified(size) for size in wanted[2:]]),
        layout="NCHW",
        method="nearest_neighbor" if mode == "nearest" else mode,
        coordinate_transformation_mode=text(attributes["coordinate_transformation_mode"]),
        rounding_method=text(attributes["nearest_mode"]),
        cubic_alpha=attributes["cubic_coeff_a"],
        cubic_exclude=attributes["exclude_outside"],
        extrapolation_value=attributes["extrapolation_value"],
    )


def _scales(inputs: Operands) -> list[float]:
    if not isinstance(inputs[2], tvm.ir.GenericConst):
        raise InputError(f"{inputs.place} depends on the values of the input in its shape")
    return [float(value) for value in inputs[2].value.numpy()]


def cut(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr:
    """Slice, forwards and backwards, by operands or, before opset 10, by attributes."""
    shape = inputs.shape()
    if "starts" in attributes:
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    else:
        starts, ends = inputs.sizes_at(1), inputs.sizes_at(2)
        axes, steps = (inputs.sizes_at(position) if inputs.given(position) else None for position in (3, 4))
    axes = [axis % len(shape) for axis in axes or range(len(starts))]
    data, turning = inputs[0], inputs.turns(1) or inputs.turns(2)
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
        size = shape[axis]
        if all(isinstance(found, int) for found in (size, start, end, step)):
            chosen = range(*slice(start, end, step).indices(size))
            if turning and chosen:
                data = _taken(builder, data, chosen, axis)
            elif chosen != range(size):
                data = strided(builder, data, axis, chosen)
            continue
        if step == -1 and isinstance(start, int) and isinstance(end, int) and start == -1 and end < -(2**31):
            data = builder.emit(op.flip(data, axis))
            continue
        if step < 1:
            raise InputError(f"a {inputs.place} of a size that varies cannot go down")
        begin, end = inputs.clipped(start, size), inputs.clipped(end, size)
        if not (isinstance(begin, int) and begin == 0 and step == 1 and inputs.equal(end, size)):
            parts = ([integer(place)] for place in (begin, end, step))
            data = builder.emit(op.strided_slice(data, [axis], *parts, assume_inbound=True))
    return data


def _taken(builder: Expr, data: Expr, numbers: Sequence[int], axis: int) -> Expr:
    """Places along an axis, which are others in each turn of a loop: one kernel for all turns."""
    return builder.emit(op.take(data, places(numbers), axis=axis, mode="fast"))


def gather_elements(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    """As `gather`."""
    shape = inputs.shape()
    axis = attributes["axis"] % len(shape)
    return None if isinstance(shape[axis], int) else op.gather_elements(inputs[0], inputs[1], axis)


def gather_nd(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    """As `gather`."""
    if all(isinstance(extent, int) for extent in inputs.shape()):
        return None
    return op.gather_nd(inputs[0], inputs[1], attributes["batch_dims"])


def gather(builder: Expr, inputs: Operands, attributes: Attributes) -> Expr | None:
    """Along an axis that varies, or by a known index that is another in each turn of a loop. What counts from the end
    is counted where it is read (tapml.importing.indices): TVM's importer makes a tensor of the axis' size for that, and
    what an index has to be is no longer seen."""
    index, shape = inputs.known(1), inputs.shape()
    axis = attributes["axis"] % len(shape)
    turning = inputs.turns(1) and isinstance(shape[axis], int) and shape[axis] > 0
    if turning and index is not None and index.elements and not index.symbolic:
        found = _taken(builder, inputs[0], [place % shape[axis] for place in index.elements], axis)
        return op.reshape(found, [*shape[:axis], *index.array.shape, *shape[axis + 1 :]])
    if isinstance(shape[axis], int) and not (index and index.symbolic):
        return None
    if index is None:
        return op.take(inputs[0], inputs[1], axis)
    sizes = inputs.sizes
    taken = [
        sizes.simplified(shape[axis] + place) if sizes.holds(integer(place) < 0) else place for place in index.elements
    ]
    if index.array.ndim == 0:
        begin = integer(taken[0])
        one = op.strided_slice(inputs[0], [axis], [begin], [begin + 1], assume_inbound=True)
        return op.squeeze(builder.emit(one), [axis])
    return op.take(inputs[0], tensor_of(builder, symbolic(taken, index.array.shape, index.dtype)), axis)
