"""Operators TVM has no kernel for that is the same on every platform, in terms of what it has.

TVM reads at indices as they are (see indices.py), gives argmax in int64 only, spells isinf
and half-open clips with an infinity (which WGSL has no literal for), squares with a pow that WGSL
does not define for negative bases, and leaves sorting and scanning to code of each platform. A
carved test needs one kernel for the reference and the browser: these are, with int32 indices
throughout. Ranking and scanning compare every pair of elements: the first of a long axis are found in blocks,
and what else compares so many is refused.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.dtypes import stored
from tapml.importing.indices import INDEXING, lower_indexing
from tapml.importing.ranked import ranked, ranked_in_blocks
from tapml.importing.relax_ir import Expr, names, operator_name
from tapml.importing.remainders import DIVISIONS, divided
from tapml.importing.scanned import SCANS, scanned
from tapml.importing.scatter import own_place, product, scatter_elements, scatter_nd
from tapml.importing.transposed import conv_transpose

LONGEST_AXIS = 8192
"""Above this the quadratic kernels below would take seconds."""

_MOST_JOINED = 7
"""Tensors that one kernel joins: WebGPU promises eight buffers."""

_MOVES = names("astype expand_dims flatten flip permute_dims reshape squeeze strided_slice")
"""Operators of one tensor that fusion puts into the kernel beside them."""

_RANKINGS = {"relax.topk": None, "relax.sort": "values", "relax.argsort": "indices"}
"""What they give of the elements in order; topk's attributes say it."""

_TRANSPOSED = names("nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose")


def lower(name: str, builder: Expr, arguments: list[Expr], attrs: dict[str, Any]) -> Expr | None:
    """A call of a kernel for the operator `name` (as in "relax.topk"), or None where TVM has its
    own.

    `arguments` are narrowed. Raises InputError for more than `LONGEST_AXIS` elements that each would be compared with
    all others.
    """
    data: Expr = arguments[0] if arguments else None
    call = partial(builder.call_te, primfunc_name_hint=name.removeprefix("relax."))
    if name == "relax.shape_to_tensor":
        return _tensor_of_sizes(builder, list(data.values))
    if name in ("relax.isinf", "relax.isfinite"):
        return _finite(builder, data, name == "relax.isfinite")
    if name in ("relax.full", "relax.full_like") and isinstance(arguments[1], relax.Var):
        # The value is no number in the program but a tensor: repeat it.
        shape = arguments[0] if name == "relax.full" else relax.ShapeExpr(_shape(name, data))
        return op.broadcast_to(arguments[1], shape)
    if name == "relax.clip":
        return _half_open_clip(builder, data, float(arguments[1].value), float(arguments[2].value))
    if name == "relax.quantize":
        scale, zero = (_along(data, argument, attrs["axis"]) for argument in arguments[1:])
        ends = np.iinfo(str(attrs["out_dtype"]))
        places = op.add(op.round(op.divide(data, scale)), op.astype(zero, str(data.ty.dtype)))
        return op.astype(op.clip(builder.emit(places), ends.min, ends.max), "int32")
    if name == "relax.dequantize":
        scale, zero = (_along(data, argument, attrs["axis"]) for argument in arguments[1:])
        return op.multiply(op.astype(op.subtract(data, zero), str(attrs["out_dtype"])), scale)
    if name in ("relax.concat", "relax.stack") and isinstance(data, relax.Tuple) and attrs["axis"] is not None:
        return _joined(builder, list(data.fields), int(attrs["axis"]), name == "relax.stack")
    if name == "relax.power":
        return _power(builder, data, arguments[1])
    if name in DIVISIONS:
        return call(divided, data, arguments[1], name)
    if name in ("relax.argmax", "relax.argmin"):
        return _extremum(builder, name, data, attrs)
    if name in INDEXING:
        return lower_indexing(name, builder, arguments, attrs)
    if name == "relax.scatter_elements":
        axis = _dimension(name, data, attrs["axis"])
        _limited(name, _shape(name, arguments[1])[axis])  # each element of the result looks at all updates
        return call(scatter_elements, data, *arguments[1:], axis, str(attrs["reduction"]))
    if name == "relax.scatter_nd":
        return call(scatter_nd, data, *arguments[1:], str(attrs["reduction"]))
    if name == "relax.logical_xor":
        return op.not_equal(*arguments)
    if name in _TRANSPOSED:
        numbers = [[int(n) for n in attrs[of]] for of in ("strides", "padding", "output_padding", "dilation")]
        dtype = _dtype(attrs, data, "out_dtype")
        return call(conv_transpose, data, arguments[1], *numbers, int(attrs["groups"]), dtype)
    if name in SCANS:
        axis = _dimension(name, data, attrs["axis"])
        _limited(name, _shape(name, data)[axis])
        return call(scanned, data, axis, bool(attrs.get("exclusive")), _dtype(attrs, data), name)
    if name in _RANKINGS:
        axis, kind = _dimension(name, data, attrs["axis"]), _RANKINGS[name] or str(attrs["ret_type"])
        count = max(int(attrs.get("k", 0)), 0) or _shape(name, data)[axis]
        down = bool(attrs.get("largest", attrs.get("descending")))
        if _is_long(_shape(name, data)[axis]):
            _limited(name, count)
            return ranked_in_blocks(builder, data, axis, count, down, kind)
        return call(ranked, data, axis, count, down, kind)
    return None


def _joined(builder: Expr, parts: list[Expr], axis: int, stacked: bool) -> Expr | None:
    """Many tensors, some at a time: a kernel has few buffers."""
    # Fusion makes one kernel of joins of joins, but for one that is opaque to it.
    if sum(_joins(builder, part) for part in parts) <= _MOST_JOINED:
        return None
    axis %= parts[0].ty.ndim + stacked
    if stacked:
        parts = [builder.emit(op.reshape(part, _with_one(_shape("relax.stack", part), axis))) for part in parts]
    join = partial(builder.call_te, topi.concatenate, primfunc_name_hint="concat", primfunc_attrs={"op_pattern": 8})
    while len(parts) > _MOST_JOINED:
        groups = [parts[first : first + _MOST_JOINED] for first in range(0, len(parts), _MOST_JOINED)]
        parts = [builder.emit(join(group, axis)) if len(group) > 1 else group[0] for group in groups]
    return join(parts, axis)


def _joins(builder: Expr, part: Expr) -> int:
    """How many tensors are joined in one that is moved about since."""
    found = builder.lookup_binding(part) if isinstance(part, relax.Var) else None
    while isinstance(found, tvm.ir.Call) and operator_name(found) in _MOVES:
        part = found.args[0]
        found = builder.lookup_binding(part) if isinstance(part, relax.Var) else None
    if isinstance(found, tvm.ir.Call) and operator_name(found) in ("relax.concat", "relax.stack"):
        return sum(_joins(builder, field) for field in getattr(found.args[0], "fields", ())) or 1
    return 1


def _with_one(shape: tuple[Any, ...], axis: int) -> list[Any]:
    return [*shape[:axis], 1, *shape[axis:]]


def _along(data: Expr, values: Expr, axis: int) -> Expr:
    """One value for each place along an axis of `data`, or one for all."""
    if values.ty.ndim == 0:
        return values
    shape = [1] * data.ty.ndim
    shape[axis] = values.ty.shape[0]
    return op.reshape(values, shape)


def _finite(builder: Expr, data: Expr, finite: bool) -> Expr:
    """isfinite or isinf by comparing with the largest number."""
    dtype = str(data.ty.dtype)
    largest = relax.const(tirx.max_value(dtype).value, dtype)
    size = builder.emit(op.abs(data), "size")
    return op.less_equal(size, largest) if finite else op.greater(size, largest)


def _half_open_clip(builder: Expr, data: Expr, low: float, high: float) -> Expr | None:
    """A clip with an infinite end: that end does nothing, and must not be spelled."""
    if not math.isinf(low) and not math.isinf(high):
        return None
    dtype = str(data.ty.dtype)
    for bound, limit in ((low, op.maximum), (high, op.minimum)):
        if not math.isinf(bound):
            data = builder.emit(limit(data, relax.const(bound, dtype)), "clip")
    return data


def _power(builder: Expr, base: Expr, exponent: Expr) -> Expr | None:
    """Squares and cubes as products: WGSL's pow promises nothing for a negative base, whatever the exponent."""
    is_scalar = isinstance(exponent, tvm.ir.GenericConst) and not exponent.value.shape
    value = float(exponent.value.numpy()) if is_scalar else None
    if value not in (2.0, 3.0, 4.0):
        integers = "int" in str(base.ty.dtype)
        return builder.call_te(_integer_power, base, exponent, primfunc_name_hint="power") if integers else None
    square = op.multiply(base, base)
    if value == 2.0:
        return square
    square = builder.emit(square, "square")
    return op.multiply(square, square if value == 4.0 else base)


def _integer_power(base: Any, exponent: Any) -> Any:
    """Wraps around; nothing is promised for a negative exponent, or one beyond 31."""

    def operand(tensor: Any, at: tuple[Any, ...]) -> Any:
        return tensor(*own_place(tensor, at))

    times = te.reduce_axis((0, 31), "k")

    def power(*at: Any) -> Any:
        factor = tirx.Select(times < operand(exponent, at), operand(base, at), tirx.const(1, base.dtype))
        return product(factor, axis=times)

    return te.compute(topi.add(base, exponent).shape, power, name="power")


def _extremum(builder: Expr, name: str, data: Expr, attrs: dict[str, Any]) -> Expr:
    """The place (int32) of the largest or smallest element, the first of equals."""
    emit, shape = builder.emit, _shape(name, data)
    rank, flat = len(shape), attrs["axis"] is None
    if flat:
        data, shape = emit(op.reshape(data, [-1])), (math.prod(shape),)
    axis = 0 if flat else int(attrs["axis"]) % rank
    largest = name == "relax.argmax"
    find = op.max if largest else op.min
    if "float" in str(data.ty.dtype):
        # TVM reduces from the lowest finite number up, so a row of -inf alone would never be found.
        end = (tirx.min_value if largest else tirx.max_value)(str(data.ty.dtype)).value
        bound = relax.const(end, str(data.ty.dtype))
        data = emit((op.maximum if largest else op.minimum)(data, bound), "finite")
    best = emit(find(data, axis=axis, keepdims=True), "best")
    column = [size if i == axis else 1 for i, size in enumerate(shape)]
    places = emit(op.reshape(op.arange(0, shape[axis], 1, "int32"), column), "places")
    hit = emit(op.equal(data, best), "hit")
    # Where all elements are NaN none equals the best: the last place then, not one out of range.
    last = shape[axis] - 1
    last = relax.const(last, "int32") if isinstance(last, int) else emit(_tensor_of_sizes(builder, [last]))
    place = emit(op.where(hit, places, last), "place")
    if flat and attrs["keepdims"]:
        return op.reshape(emit(op.min(place, axis=0)), [1] * rank)
    return op.min(place, axis=axis, keepdims=attrs["keepdims"] and not flat)


def _shape(name: str, data: Expr) -> tuple[Any, ...]:
    """Integers, and TVM's expressions where sizes are symbols."""
    if not isinstance(data.ty.shape, relax.ShapeExpr):
        raise InputError(f"{name}: the shape of its operand depends on the values of the input")
    return tuple(getattr(axis, "value", axis) for axis in data.ty.shape.values)


def _dimension(name: str, data: Expr, axis: Any) -> int:
    shape = _shape(name, data)
    if axis is None and len(shape) != 1:
        raise InputError(f"{name} over all dimensions of a tensor is not supported: give it an axis")
    return int(axis or 0) % len(shape)


def _is_long(size: Any) -> bool:
    return isinstance(size, int) and size > LONGEST_AXIS


def _limited(name: str, size: Any) -> None:
    if _is_long(size):
        raise InputError(f"{name} over {size} elements: tapml takes at most {LONGEST_AXIS} along the axis")


def _dtype(attrs: dict[str, Any], data: Expr, of: str = "dtype") -> str:
    # 64-bit sums are 32 bits wide here, like every other 64-bit number.
    wanted = stored(str(attrs.get(of) or "void"))
    return str(data.ty.dtype) if wanted == "void" else wanted


def _tensor_of_sizes(builder: Expr, values: list[Any]) -> Expr:
    # Opaque to fusion, which takes a size for a shape's and for an argument's at once.
    return builder.call_te(_sizes, values, primfunc_name_hint="sizes", primfunc_attrs={"op_pattern": 8})


def _sizes(values: list[Any]) -> Any:
    """A vector of sizes, which are expressions."""

    def chosen(place: Any) -> Any:
        found = values[-1]
        for number, value in reversed(list(enumerate(values[:-1]))):
            found = tirx.Select(place == number, value, found)
        return found.astype("int32")

    return te.compute((len(values),), chosen, name="sizes")
