"""ONNX's ConvTranspose, DeformConv and Col2Im."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import te, tirx
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.kernel_calls import as_dtype, call
from tapml.importing.onnx_operands import fixed_shape, numbers, text, within, zero
from tapml.importing.relax_ir import Expr, tensor_dtype
from tapml.importing.transposed import conv_transpose


def transposed_convolution(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Of the sizes that `output_shape` or `auto_pad` asks for; None where neither does."""
    mode = text(attributes.get("auto_pad", b"NOTSET"))
    wanted = attributes.get("output_shape")
    if wanted is None and mode in ("NOTSET", ""):
        return None
    data, weight, bias = (*inputs, None)[:3]
    sizes, kernel = (fixed_shape(tensor, "ConvTranspose")[2:] for tensor in (data, weight))
    rank = len(sizes)
    strides, dilations = (list(attributes.get(name) or [1] * rank) for name in ("strides", "dilations"))
    more = list(attributes.get("output_padding") or [0] * rank)
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    before, after = [0] * rank, [0] * rank
    for i, result in enumerate(list(wanted)[-rank:] if wanted is not None else ()):
        total = (sizes[i] - 1) * strides[i] + more[i] + (kernel[i] - 1) * dilations[i] + 1 - result
        front = max(total, 0) // 2 if mode == "SAME_UPPER" else (max(total, 0) + 1) // 2
        before[i], after[i] = front, total - front
    numbers_ = (strides, [*before, *after], more, dilations, int(attributes.get("group", 1)))
    result = call(builder, conv_transpose, [data, weight], *numbers_, name="conv_transpose")
    return result if bias is None else op.add(result, _column(builder, bias, rank))


def _column(builder: Expr, bias: Expr, rank: int) -> Expr:
    return builder.emit(op.reshape(bias, [1, -1, *[1] * rank]))


def deformable_convolution(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Of two spatial axes. Raises InputError for others."""
    data, weight, offset, bias, mask = (*inputs, None, None)[:5]
    shape, kernel = fixed_shape(data, "DeformConv"), fixed_shape(weight, "DeformConv")[2:]
    if len(shape) != 4:
        raise InputError(f"DeformConv of {len(shape) - 2} spatial axes is not supported: tapml takes two")
    batch, _, *places = fixed_shape(offset, "DeformConv")
    groups = int(attributes["offset_group"])
    split = builder.emit(op.reshape(offset, [batch, groups, *kernel, 2, *places]))
    operands = [data, split]
    if mask is not None:
        operands.append(builder.emit(op.reshape(mask, [batch, groups, *kernel, *places])))
    window = [tuple(attributes.get(name) or default) for name, default in _WINDOW]
    columns = call(builder, _sampled, operands, *window, name="deform_columns", alone=True)
    result = call(builder, _joined, [columns, weight], int(attributes["group"]), name="deform_conv")
    return result if bias is None else op.add(result, _column(builder, bias, 2))


_WINDOW = (("strides", (1, 1)), ("pads", (0, 0, 0, 0)), ("dilations", (1, 1)))


def _sampled(data: Any, offset: Any, *rest: Any) -> Any:
    """What each element of the kernel reads: [n, c, kernel height and width, height, width]."""
    *masks, strides, pads, dilations = rest
    batch, channels, height, width = data.shape
    _, groups, *kernel, _, high, wide = offset.shape
    each = channels // groups

    def element(n: Any, c: Any, i: Any, j: Any, y: Any, x: Any) -> Any:
        group = tirx.floordiv(c, each)
        at = [
            (place * strides[axis] + tap * dilations[axis] - pads[axis]).astype(data.dtype)
            + offset(n, group, i, j, axis, y, x)
            for axis, (place, tap) in enumerate(((y, i), (x, j)))
        ]
        found = bilinear(lambda row, column: data(n, c, row, column), at, (height, width), str(data.dtype))
        return found * masks[0](n, group, i, j, y, x) if masks else found

    return te.compute((batch, channels, *kernel, high, wide), element, name="columns")


def bilinear(read: Any, at: Sequence[Any], sizes: Sequence[Any], dtype: str) -> Any:
    """Between four elements, of which those outside are 0."""
    low, share = [], []
    for place, size in zip(at, sizes, strict=True):
        # Farther outside it is 0 all the same, and every integer holds it.
        near = tirx.max(tirx.min(place, (size + 1).astype(dtype)), tirx.const(-2, dtype))
        low.append(te.floor(near).astype("int32"))
        share.append(near - te.floor(near))
    total: Any = None
    for row in (0, 1):
        for column in (0, 1):
            corner = [low[0] + row, low[1] + column]
            inside = tirx.all(*(tirx.all(c >= 0, c < s) for c, s in zip(corner, sizes, strict=True)))
            weight: Any = (share[0] if row else 1 - share[0]) * (share[1] if column else 1 - share[1])
            value = read(*(within(c, s.astype("int32")) for c, s in zip(corner, sizes, strict=True)))
            part = tirx.Select(inside, weight * value, zero(dtype))
            total = part if total is None else total + part
    return total


def _joined(columns: Any, weight: Any, groups: int) -> Any:
    batch, _, *_, height, width = columns.shape
    made, own, *kernel = weight.shape
    each = made // groups
    channel = te.reduce_axis((0, own), "c")
    taps = [te.reduce_axis((0, extent), f"k{i}") for i, extent in enumerate(kernel)]

    def total(n: Any, o: Any, y: Any, x: Any) -> Any:
        source = tirx.floordiv(o, each) * own + channel
        return te.sum(columns(n, source, *taps, y, x) * weight(o, channel, *taps), axis=[channel, *taps])

    return te.compute((batch, made, height, width), total, name="deform_conv")


def col2im(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Expr:
    """Each element of the image sums what lies over it, along any number of axes."""
    data, *shapes = inputs
    fixed_shape(data, "Col2Im")
    image, block = ([int(n) for n in numbers(shape, "Col2Im", "shape")] for shape in shapes)
    rank = len(image)
    strides, dilations = (list(attributes.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads") or [0] * (2 * rank))
    made = call(builder, _over, [data], image, block, strides, dilations, pads, name="col2im")
    return as_dtype(builder, made, tensor_dtype(data.ty))


def _over(
    data: Any,
    image: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Any:
    rank, size = len(image), math.prod(block)
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]
    taps = [te.reduce_axis((0, extent), f"k{i}") for i, extent in enumerate(block)]

    def total(n: Any, c: Any, *at: Any) -> Any:
        far = [at[i] + pads[i] - taps[i] * dilations[i] for i in range(rank)]
        places = [tirx.floordiv(far[i], strides[i]) for i in range(rank)]
        lands = [
            tirx.all(tirx.floormod(far[i], strides[i]) == 0, place >= 0, place < counts[i])
            for i, place in enumerate(places)
        ]
        tap: Any = 0
        column: Any = 0
        for i in range(rank):
            tap = tap * block[i] + taps[i]
            column = column * counts[i] + within(places[i], counts[i])
        return te.sum(tirx.Select(tirx.all(*lands), data(n, c * size + tap, column), zero(data.dtype)), axis=taps)

    return te.compute((data.shape[0], data.shape[1] // size, *image), total, name="col2im")
