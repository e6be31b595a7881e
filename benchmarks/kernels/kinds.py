"""Operators of many kinds and shapes, to find those for which a native kernel is far slower than TVM's
(`python -m benchmarks.kernels --kinds`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import relax

from benchmarks.kernels.works import Work, conv, matmul

op, nn = relax.op, relax.op.nn


def kinds() -> list[Work]:
    """Each in float32 and in float16: of those that both compilers have a kernel for."""
    found = [*_sums(), *_rows(), *_pools(), *_convolutions(), *_products(), *_norms(), *_moves(), *_elements()]
    return [replace(work, dtype=dtype) for dtype in ("float32", "float16") for work in found]


def _sums() -> Iterator[Work]:
    for shape, axes in (
        ((64, 128, 1024), (0,)), ((64, 128, 1024), (1,)), ((64, 128, 1024), (2,)), ((64, 128, 1024), (0, 1)),
        ((64, 128, 1024), (0, 2)), ((64, 128, 1024), (1, 2)), ((8, 64, 56, 56), (0, 2, 3)), ((8, 64, 56, 56), (1,)),
        ((1, 512, 7, 7), (2, 3)), ((1, 1280, 7, 7), (2, 3)), ((16, 3, 224, 224), (1,)), ((4096, 16), (1,)),
        ((100000, 7), (1,)), ((7, 100000), (0,)), ((1, 1000000), (1,)), ((30522, 384), (0,)), ((512, 512, 9), (2,)),
        ((512, 9, 512), (1,)), ((2048, 33), (1,)), ((2048, 65), (1,)), ((2048, 100), (1,)), ((2, 3, 1000, 1000), (3,)),
        ((2, 3, 1000, 1000), (2,)), ((8192, 512), (0,)),
    ):  # fmt: skip
        yield Work(f"sum {shape} {axes}", partial(lambda axes, _, x: op.sum(x, [*axes]), axes), [shape])
    for shape, axis in (
        ((64, 128, 1024), 1), ((1, 21, 512, 512), 1), ((4096, 10), 1), ((1, 50257), 1), ((512, 1000), 1),
        ((128, 4096), 0),
    ):  # fmt: skip
        yield Work(f"max {shape} {axis}", partial(lambda axis, _, x: op.max(x, axis), axis), [shape])
    yield Work("std (512, 4096) 1", lambda _, x: op.std(x, [1]), [(512, 4096)])
    yield Work("variance (512, 4096) 0", lambda _, x: op.variance(x, [0]), [(512, 4096)])
    yield Work("product (512, 1000) 1", lambda _, x: op.prod(x, [1]), [(512, 1000)])


def _rows() -> Iterator[Work]:
    for shape, axis in (
        ((64, 128, 1024), 1), ((8, 512, 64), 1), ((1, 21, 256, 256), 1), ((4096, 10), 1), ((12, 77, 77), 2),
        ((12, 197, 197), 2), ((1, 1000), 1), ((256, 50257), 1), ((64, 1024, 33), 2), ((8, 19, 128, 128), 1),
        ((2048, 256), 0),
    ):  # fmt: skip
        yield Work(f"softmax {shape} {axis}", partial(lambda axis, _, x: nn.softmax(x, axis), axis), [shape])
        yield Work(f"log-softmax {shape} {axis}", partial(lambda axis, _, x: nn.log_softmax(x, axis), axis), [shape])


def _pools() -> Iterator[Work]:
    image = [(1, 64, 56, 56)]
    for size, stride, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (7, 7, 0), (5, 1, 2), (5, 2, 2), (5, 3, 2), (9, 1, 4)):
        window = (size, size), (stride, stride), (pad, pad)
        for name, pool in (("max", nn.max_pool2d), ("average", nn.avg_pool2d)):
            what = f"{name} pool {size}x{size}, {stride} apart"
            yield Work(what, partial(lambda pool, window, _, x: pool(x, *window), pool, window), image)
    for shape in ((1, 1280, 7, 7), (1, 512, 32, 32)):
        yield Work(f"average pool of all {shape}", lambda _, x: nn.adaptive_avg_pool2d(x, (1, 1)), [shape])
    sound, voxels = [(1, 64, 16000)], [(1, 16, 32, 64, 64)]
    yield Work("average pool 25", lambda _, x: nn.avg_pool1d(x, 25, 1, 12), sound)
    yield Work("max pool 3, 2 apart", lambda _, x: nn.max_pool1d(x, 3, 2, 1), sound)
    yield Work("max pool 2x2x2, 2 apart", lambda _, x: nn.max_pool3d(x, (2,) * 3, (2,) * 3), voxels)
    small = [(1, 16, 16, 32, 32)]
    yield Work("average pool 3x3x3", lambda _, x: nn.avg_pool3d(x, (3,) * 3, (1,) * 3, (1,) * 3), small)


def _convolutions() -> Iterator[Work]:
    for name, image, weight, how in (
        ("1x1, 2 apart", (1, 256, 56, 56), (512, 256, 1, 1), {"strides": 2}),
        ("3x3, 2 apart", (1, 64, 56, 56), (128, 64, 3, 3), {"strides": 2, "padding": 1}),
        ("3x3, dilated", (1, 64, 56, 56), (64, 64, 3, 3), {"dilation": 2, "padding": 2}),
        ("3x3, 32 groups", (1, 128, 56, 56), (128, 4, 3, 3), {"groups": 32, "padding": 1}),
        ("3x3, 2 groups", (1, 64, 28, 28), (64, 32, 3, 3), {"groups": 2, "padding": 1}),
        ("5x5 depthwise, dilated", (1, 128, 28, 28), (128, 1, 5, 5), {"groups": 128, "padding": 4, "dilation": 2}),
        ("3x3 depthwise, 2 apart", (1, 64, 112, 112), (64, 1, 3, 3), {"groups": 64, "padding": 1, "strides": 2}),
        ("5x5 depthwise, 2 apart", (1, 240, 28, 28), (240, 1, 5, 5), {"groups": 240, "padding": 2, "strides": 2}),
        ("7x7 depthwise", (1, 96, 56, 56), (96, 1, 7, 7), {"groups": 96, "padding": 3}),
        ("31x31 depthwise", (1, 64, 32, 32), (64, 1, 31, 31), {"groups": 64, "padding": 15}),
        ("3x3 depthwise, 2 for each", (1, 32, 56, 56), (64, 1, 3, 3), {"groups": 32, "padding": 1}),
        ("7x7, 2 apart", (1, 3, 224, 224), (64, 3, 7, 7), {"strides": 2, "padding": 3}),
        ("16x16, 16 apart", (1, 3, 224, 224), (768, 3, 16, 16), {"strides": 16}),
        ("4x4, 4 apart", (1, 3, 224, 224), (96, 3, 4, 4), {"strides": 4}),
        ("2x2, 2 apart", (1, 96, 56, 56), (192, 96, 2, 2), {"strides": 2}),
        ("3x3 to 3", (1, 64, 128, 128), (3, 64, 3, 3), {"padding": 1}),
        ("1x1 to 1", (1, 64, 128, 128), (1, 64, 1, 1), {}),
        ("3x3 of 7x7x512", (1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
        ("1x7", (1, 128, 17, 17), (128, 128, 1, 7), {"padding": (0, 3)}),
        ("3x3, 8 images", (8, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    ):
        yield Work(f"convolution {name}", conv(**how), [image, weight])
    last = {"padding": 1, "data_layout": "NHWC", "kernel_layout": "OHWI"}
    yield Work("convolution 3x3, channels last", conv(**last), [(1, 56, 56, 64), (64, 3, 3, 64)])
    for name, sound, weight, how in (
        ("3", (1, 128, 3000), (256, 128, 3), {"padding": 1}),
        ("3, 2 apart", (1, 80, 3000), (384, 80, 3), {"padding": 1, "strides": 2}),
        ("10, 5 apart", (1, 1, 16000), (512, 1, 10), {"strides": 5}),
        ("4 depthwise", (1, 1536, 512), (1536, 1, 4), {"padding": 3, "groups": 1536}),
        ("128, 16 groups", (1, 768, 499), (768, 48, 128), {"padding": 64, "groups": 16}),
        ("31 depthwise", (1, 256, 400), (256, 1, 31), {"padding": 15, "groups": 256}),
    ):
        body = partial(lambda how, _, x, w: nn.conv1d(x, w, **how), how)
        yield Work(f"convolution {name}", body, [sound, weight])
    yield Work(
        "convolution 3x3x3", lambda _, x, w: nn.conv3d(x, w, padding=1), [(1, 16, 16, 32, 32), (32, 16, 3, 3, 3)]
    )
    for name, image, weight, how in (
        ("2x2, 2 apart", (1, 64, 56, 56), (64, 32, 2, 2), {"strides": 2}),
        ("4x4, 2 apart", (1, 64, 28, 28), (64, 32, 4, 4), {"strides": 2, "padding": 1}),
        ("3x3", (1, 32, 56, 56), (32, 32, 3, 3), {"padding": 1}),
    ):
        turned = partial(lambda how, _, x, w: nn.conv2d_transpose(x, w, **how), how)
        yield Work(f"transposed convolution {name}", turned, [image, weight])
    yield Work(
        "transposed convolution 16, 8 apart",
        lambda _, x, w: nn.conv1d_transpose(x, w, strides=8, padding=4),
        [(1, 256, 100), (256, 128, 16)],
    )
    gate = [(8, 8, 1, 1), (32, 8, 1, 1), (1, 32, 1, 1), (8, 32, 112, 112)]
    yield Work("gate of a convolution 1x1", _gated, gate)


def _gated(builder: Any, x: Any, w: Any, bias: Any, image: Any) -> Any:
    sums = builder.emit(op.add(builder.emit(nn.conv2d(x, w)), bias))
    return op.multiply(image, builder.emit(op.sigmoid(sums)))


def _products() -> Iterator[Work]:
    for left, right in (
        ((12, 16, 64), (12, 64, 16)), ((96, 197, 64), (96, 64, 197)), ((96, 197, 197), (96, 197, 64)),
        ((1, 768), (768, 50257)), ((2, 768), (768, 768)), ((5, 768), (768, 3072)), ((9, 768), (768, 3072)),
        ((64, 10), (10, 10)), ((1024, 3), (3, 64)), ((4096, 64), (64, 3)), ((1000, 1000), (1000, 1)),
        ((32, 1), (1, 32)), ((1000, 4, 4), (1000, 4, 4)), ((64, 1, 64), (64, 64, 512)), ((64, 1, 512), (64, 512, 64)),
        ((300, 300), (300, 300)), ((1, 25088), (25088, 4096)), ((1, 1280), (1280, 1000)), ((1, 3072), (3072, 3072)),
        ((1, 8192), (8192, 3072)),
    ):  # fmt: skip
        yield Work(f"product {left} by {right}", matmul, [left, right])


def _norms() -> Iterator[Work]:
    for shape, axes in (
        ((1, 64, 56, 56), (1, 2, 3)), ((16, 197, 768), (2,)), ((1, 256, 64, 64), (1,)), ((8, 1024), (1,)),
        ((1, 50, 50, 768), (3,)),
    ):  # fmt: skip
        size = tuple(shape[axis] for axis in axes)
        body = partial(lambda axes, _, x, w, b: nn.layer_norm(x, w, b, axes=[*axes]), axes)
        yield Work(f"LayerNorm {shape} {axes}", body, [shape, size, size])
    channels = [(64,), (64,)]
    yield Work(
        "InstanceNorm 64x128x128",
        lambda _, x, w, b: nn.instance_norm(x, w, b, 1, [2, 3]),
        [(1, 64, 128, 128), *channels],
    )
    yield Work(
        "GroupNorm 2x512x32x32",
        lambda _, x, w, b: nn.group_norm(x, w, b, num_groups=32, channel_axis=1, axes=[2, 3]),
        [(2, 512, 32, 32), (512,), (512,)],
    )


def _moves() -> Iterator[Work]:
    for shape, axes in (
        ((64, 56, 56, 3), (0, 3, 1, 2)), ((8, 12, 197, 64), (0, 2, 1, 3)), ((1024, 1024), (1, 0)),
        ((3, 1000, 7), (2, 1, 0)), ((16,) * 5, (4, 3, 2, 1, 0)), ((1, 3, 224, 224), (0, 2, 3, 1)),
    ):  # fmt: skip
        yield Work(f"transpose {shape} {axes}", partial(lambda axes, _, x: op.permute_dims(x, axes), axes), [shape])
    image = [(1, 64, 56, 56)]
    for method in ("nearest_neighbor", "linear"):
        body = partial(lambda method, _, x: op.image.resize2d(x, (112, 112), layout="NCHW", method=method), method)
        yield Work(f"resize {method}", body, image)
    yield Work("pad", lambda _, x: nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), image)
    yield Work("tile", lambda _, x: op.tile(x, [4, 3]), [(512, 512)])
    yield Work("repeat", lambda _, x: op.repeat(x, 4, 1), [(512, 512)])
    yield Work("slice", lambda _, x: op.strided_slice(x, [1], [100], [300]), [(4096, 768)])
    yield Work(
        "strided slice", lambda _, x: op.strided_slice(x, [1, 2], [0, 1], [1024, 512], [2, 3]), [(16, 1024, 512)]
    )
    yield Work("concat", lambda _, x, y, z: op.concat([x, y, z], -1), [(1024, 33), (1024, 64), (1024, 7)])
    yield Work("flip", lambda _, x: op.flip(x, 1), [(512, 4096)])
    yield Work("lower triangle", lambda _, x: op.tril(x, 0), [(1024, 1024)])
    many = {1: 4096}
    yield Work(
        "gather elements", lambda _, x, at: op.gather_elements(x, at, 1), [(512, 4096), (512, 64)], integers=many
    )
    yield Work("take columns", lambda _, x, at: op.take(x, at, 1), [(512, 4096), (100,)], integers=many)


def _elements() -> Iterator[Work]:
    big = (512, 4096)
    for name, other in (("a row", (4096,)), ("a column", (512, 1))):
        yield Work(f"add {name}", lambda _, x, y: op.add(x, y), [big, other])
    yield Work("add channels", lambda _, x, y: op.add(x, y), [(8, 64, 56, 56), (64, 1, 1)])
    yield Work("add in odd shapes", lambda _, x, y: op.add(x, y), [(33, 77, 13), (77, 1)])
    yield Work("where", lambda _, x, y: op.where(op.greater(x, y), x, y), [big, big])
    yield Work("erf", lambda _, x: op.erf(x), [big])
    yield Work("tanh", lambda _, x: op.tanh(x), [big])
    yield Work("power", lambda _, x, y: op.power(op.abs(x), y), [big, big])
