"""ONNX's operators on quantized tensors; ONNX Runtime's own are in `onnx_qlinear`.

Products of 8-bit integers are summed in int32, exactly; scales are applied in float32, and what is stored in 8 or 16
bits is rounded to even and saturates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype
from tapml.importing.relax_ir import Expr, elements, tensor_dtype

Attributes = Mapping[str, Any]


# ------------------------------------------------ from and to numbers


def quantize_linear(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """By one scale, one for each place along an axis, or one for each block of an axis."""
    data, scale, zero = (*inputs, None)[:3]
    dtype = _dtype(attributes.get("output_dtype", 0)) or "uint8"
    return quantized(builder, data, scale, zero, dtype, attributes.get("axis", 1), attributes.get("block_size", 0))


def dequantize_linear(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """As quantize_linear. In the dtype of the scale, or what is asked for."""
    data, scale, zero = (*inputs, None)[:3]
    if (constant := _constant_matrix(data, scale, zero, attributes)) is not None:
        return constant
    found = dequantized(builder, data, scale, zero, attributes.get("axis", 1), attributes.get("block_size", 0))
    return as_dtype(builder, found, _dtype(attributes.get("output_dtype", 0)) or tensor_dtype(scale.ty))


def _constant_matrix(data: Expr, scale: Expr, zero: Any, attributes: Attributes) -> Expr | None:
    """Of a matrix of small integers that are the file's own, in float32: products read the integers then, as they are
    (onnx_packed.py), and not a matrix that is computed anew at every call."""
    given = [part for part in (data, scale, zero) if part is not None]
    if data.ty.ndim != 2 or not all(isinstance(part, tvm.ir.GenericConst) for part in given):
        return None
    arrays = [elements(part) for part in given]
    name, axis, block = str(arrays[0].dtype), attributes.get("axis", 1), attributes.get("block_size", 0)
    if name not in ("int8", "uint8", "int4", "uint4") or arrays[1].dtype != np.float32:
        return None
    if _dtype(attributes.get("output_dtype", 0)) not in (None, "float32"):
        return None
    scales, *zeros = (_of_each(array, arrays[0].shape, axis, block) for array in arrays[1:])
    integers = arrays[0].astype(np.int32) - (zeros[0].astype(np.int32) if zeros else 0)
    return relax.const(integers.astype(np.float32) * scales, "float32")


def _of_each(values: np.ndarray, shape: Sequence[int], axis: int, block: int) -> np.ndarray:
    """As `along`, of constants of a matrix."""
    axis %= 2
    if block:
        found: np.ndarray = np.repeat(values, block, axis)[: shape[0], : shape[1]]
        return found
    return values.reshape((-1, 1) if axis == 0 and values.size > 1 else (1, -1))


def quantized(
    builder: Expr, data: Expr, scale: Expr, zero: Any, dtype: str = "uint8", axis: int = 1, block: int = 0
) -> Expr:
    emit = builder.emit
    dtype = (tensor_dtype(zero.ty) or dtype) if zero is not None else dtype
    numbers = as_dtype(builder, data, "float32")
    scale = as_dtype(builder, along(builder, data, scale, axis, block), "float32")
    places = emit(op.round(emit(op.divide(numbers, scale))))
    zero = None if zero is None else along(builder, data, zero, axis, block)
    return _saturated(builder, places, zero, dtype)


def _saturated(builder: Expr, places: Expr, zero: Any, dtype: str) -> Expr:
    """Whole numbers and their zero point in `dtype`."""
    if zero is not None:
        places = builder.emit(op.add(places, as_dtype(builder, zero, "float32")))
    ends = np.iinfo(dtype)
    return builder.emit(op.astype(builder.emit(op.clip(places, ends.min, ends.max)), dtype))


def dequantized(builder: Expr, data: Expr, scale: Expr, zero: Any, axis: int = 1, block: int = 0) -> Expr:
    """float32 of a quantized tensor."""
    if "float" not in (tensor_dtype(data.ty) or "") and zero is not None:
        zero = as_dtype(builder, along(builder, data, zero, axis, block), "int32")
        data = builder.emit(op.subtract(as_dtype(builder, data, "int32"), zero))
    scale = as_dtype(builder, along(builder, data, scale, axis, block), "float32")
    return builder.emit(op.multiply(as_dtype(builder, data, "float32"), scale))


def along(builder: Expr, data: Expr, values: Expr, axis: int, block: int = 0) -> Expr:
    """One value for all, for each place along an axis, or for each block of them: so that it broadcasts."""
    emit, rank, sizes = builder.emit, data.ty.ndim, [getattr(s, "value", s) for s in values.ty.shape]
    if all(size == 1 for size in sizes) and not block:
        return emit(op.reshape(values, [])) if sizes else values
    axis %= rank
    if block:
        repeated = emit(op.repeat(values, block, axis))
        size = data.ty.shape[axis]
        same = getattr(size, "value", None) == sizes[axis] * block
        return repeated if same else emit(op.strided_slice(repeated, [axis], [0], [size]))
    if len(sizes) != 1:
        return values
    return emit(op.reshape(values, [sizes[0] if place == axis else 1 for place in range(rank)]))


def _dtype(onnx_type: int) -> str | None:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(onnx_type)) if onnx_type else None


# ------------------------------------------------ products of integers


def matmul_integer(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """In int32. A zero point is one for all, one for each row of a, or one for each column of b."""
    a, b, a_zero, b_zero = (*inputs, None, None)[:4]
    rows, columns = centred(builder, a, a_zero, -2), centred(builder, b, b_zero, -1)
    return op.matmul(rows, columns, out_dtype="int32")


def qlinear_matmul(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    product = builder.emit(matmul_integer(builder, [a, b, a_zero, b_zero], {}))
    scales = _beside(builder, a_scale, a, -2), _beside(builder, b_scale, b, -1)
    return scaled(builder, product, scales, y_scale, y_zero)


def conv_integer(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """In int32. What is padded is the zero point."""
    data, weight, zero, weight_zero = (*inputs, None, None)[:4]
    return convolved(builder, centred(builder, data, zero, 1), centred(builder, weight, weight_zero, 0), attributes)


def qlinear_conv(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    data, scale, zero, weight, weight_scale, weight_zero, y_scale, y_zero, bias = (*inputs, None)[:9]
    last = bool(attributes.get("channels_last"))
    data = channels_first(builder, data) if last else data
    total = builder.emit(conv_integer(builder, [data, weight, zero, weight_zero], attributes))
    if bias is not None:
        total = builder.emit(op.add(total, _place(builder, as_dtype(builder, bias, "int32"), total)))
    found = scaled(builder, total, (scale, _place(builder, weight_scale, total)), y_scale, y_zero)
    return channels_last(builder, found) if last else found


def scaled(builder: Expr, total: Expr, scales: Sequence[Expr], y_scale: Expr, y_zero: Expr) -> Expr:
    emit = builder.emit
    a, b, y = (as_dtype(builder, scale, "float32") for scale in (*scales, y_scale))
    scale = emit(op.divide(emit(op.multiply(one(builder, a), one(builder, b))), one(builder, y)))
    places = emit(op.round(emit(op.multiply(as_dtype(builder, total, "float32"), scale))))
    return _saturated(builder, places, one(builder, y_zero), tensor_dtype(y_zero.ty) or "uint8")


def convolved(builder: Expr, data: Expr, weight: Expr, attributes: Attributes, dtype: str = "int32") -> Expr:
    """Summed in `dtype`, by the attributes of ONNX's convolutions."""
    kernel = [int(size) for size in list(weight.ty.shape)[2:]]
    axes = len(kernel)
    strides, dilations = (list(attributes.get(of) or [1] * axes) for of in ("strides", "dilations"))
    pads = list(attributes.get("pads") or [0] * 2 * axes)
    mode = attributes.get("auto_pad", b"NOTSET").decode()
    if mode.startswith("SAME"):
        pads = [0] * 2 * axes
        for axis, size in enumerate(list(data.ty.shape)[2:]):
            if not isinstance(getattr(size, "value", None), int):
                raise InputError("a convolution with auto_pad along an axis whose size varies")
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            missing = max((-(-int(size) // strides[axis]) - 1) * strides[axis] + reach - int(size), 0)
            before = missing // 2 if mode == "SAME_UPPER" else missing - missing // 2
            pads[axis], pads[axes + axis] = before, missing - before
    if axes not in (1, 2, 3):
        raise InputError(f"a convolution along {axes} axes: WebGPU's kernels have 1 to 3")
    convolve = (op.nn.conv1d, op.nn.conv2d, op.nn.conv3d)[axes - 1]
    groups = int(attributes.get("group", 1))
    return convolve(data, weight, strides=strides, padding=pads, dilation=dilations, groups=groups, out_dtype=dtype)


def centred(builder: Expr, data: Expr, zero: Any, axis: int) -> Expr:
    """8-bit integers as int32, less their zero point: one for all, or one for each place along `axis`."""
    data = as_dtype(builder, data, "int32")
    if zero is None:
        return data
    zero = as_dtype(builder, zero, "int32")
    zero = along(builder, data, zero, axis) if axis >= 0 else _beside(builder, zero, data, axis)
    return builder.emit(op.subtract(data, zero))


def _beside(builder: Expr, values: Expr, data: Expr, axis: int) -> Expr:
    if values.ty.ndim != 1 or data.ty.ndim < 2:
        return values
    shape = [1, 1]
    shape[axis] = values.ty.shape[0]
    return builder.emit(op.reshape(values, shape))


def channels_first(builder: Expr, data: Expr) -> Expr:
    """What has its channels along the last axis."""
    rank = data.ty.ndim
    return builder.emit(op.permute_dims(data, [0, rank - 1, *range(1, rank - 1)]))


def channels_last(builder: Expr, data: Expr) -> Expr:
    rank = data.ty.ndim
    return builder.emit(op.permute_dims(data, [0, *range(2, rank), 1]))


def _place(builder: Expr, values: Expr, data: Expr) -> Expr:
    """One value for each channel, or for all."""
    return along(builder, data, values, 1)


def one(builder: Expr, value: Any) -> Any:
    """A scalar of what may be a vector of one, or left out."""
    single = value is not None and value.ty.ndim == 1 and getattr(value.ty.shape[0], "value", 0) == 1
    return builder.emit(op.reshape(value, [])) if single else value


def dynamically(builder: Expr, data: Expr) -> tuple[Expr, Expr, Expr]:
    """DynamicQuantizeLinear: uint8, its scale (1 where all is 0, as ONNX Runtime has it) and its zero point."""
    emit, nothing, most = builder.emit, relax.const(0.0, "float32"), relax.const(255.0, "float32")
    low, high = emit(op.minimum(emit(op.min(data)), nothing)), emit(op.maximum(emit(op.max(data)), nothing))
    scale = emit(op.divide(emit(op.subtract(high, low)), most))
    scale = emit(op.where(emit(op.equal(scale, nothing)), relax.const(1.0, "float32"), scale))
    place = emit(op.round(emit(op.divide(emit(op.subtract(nothing, low)), scale))))
    zero = emit(op.astype(emit(op.clip(place, 0, 255)), "uint8"))
    return quantized(builder, data, scale, zero), scale, zero
