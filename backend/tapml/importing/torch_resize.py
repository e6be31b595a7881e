"""Resizing as PyTorch does it: along one axis after the other, each element of a few of the input's.

TVM's importer takes the ratio of the sizes where PyTorch takes the factor that was given, and knows no antialiasing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.importing.relax_ir import tensor_dtype
from tapml.importing.torch_arithmetic import Converter

Taps = list[tuple[np.ndarray, np.ndarray | None]]
"""Places in the input, and what their elements are multiplied by: one of each for each place of the output."""


def resizing() -> dict[str, Converter]:
    """By the operator's name as the importer spells it."""
    found: dict[str, Converter] = {f"upsample_nearest{rank}d.vec": partial(_resized, _nearest) for rank in (1, 2, 3)}
    for name, taps in (("linear1d", _linear), ("bilinear2d", _linear), ("trilinear3d", _linear), ("bicubic2d", _cubic)):
        found[f"upsample_{name}.vec"] = partial(_resized, taps)
    return found | {f"_upsample_{name}2d_aa.default": _antialiased for name in ("bilinear", "bicubic")}


def _resized(taps: Callable[[int, int, float | None, bool], Taps], node: Any, importer: Any) -> Any:
    data, _, *corners, factors = importer.retrieve_args(node)
    emit, dtype = importer.block_builder.emit, tensor_dtype(data.ty)
    for number, size in enumerate(node.meta["val"].shape[2:]):
        axis, extent = 2 + number, getattr(data.ty.shape.values[2 + number], "value", None)
        if extent is None or not isinstance(size, int):
            raise ValueError("it resizes an axis whose size differs among the inputs")
        parts = []
        for places, weights in taps(
            int(extent), size, factors[number] if factors else None, bool(corners and corners[0])
        ):
            part = emit(op.take(data, relax.const(places.astype(np.int64)), axis=axis))
            if weights is not None:
                column = weights.astype(np.float32).reshape([-1, *([1] * (data.ty.ndim - axis - 1))])
                part = emit(op.multiply(part, relax.const(column.astype(dtype))))
            parts.append(part)
        data = parts[0]
        for part in parts[1:]:
            data = emit(op.add(data, part))
    return data


def _antialiased(node: Any, importer: Any) -> Any:
    """Each element of as many as the image shrinks by: products with what PyTorch makes of an identity matrix."""
    import torch

    data, _, corners, *factors = importer.retrieve_args(node)
    emit, dtype = importer.block_builder.emit, tensor_dtype(data.ty)
    for number, size in enumerate(node.meta["val"].shape[2:]):
        extent = getattr(data.ty.shape.values[2 + number], "value", None)
        if extent is None or not isinstance(size, int):
            raise ValueError("it resizes an axis whose size differs among the inputs")
        identity, factor = torch.eye(int(extent)), factors[number] if factors else None
        weights = node.target(identity[None, None], [size, int(extent)], corners, factor, None)[0, 0]
        matrix = (weights.T if number else weights).contiguous().numpy().astype(dtype)
        operands = (data, relax.const(matrix)) if number else (relax.const(matrix), data)
        data = emit(op.matmul(*operands))
    return data


def _scale(extent: int, size: int, factor: float | None, corners: bool) -> np.float32:
    if corners:
        return np.float32((extent - 1) / (size - 1)) if size > 1 else np.float32(0)
    return np.float32(1.0 / factor) if factor else np.float32(extent) / np.float32(size)


def _nearest(extent: int, size: int, factor: float | None, corners: bool) -> Taps:
    places = np.floor(np.arange(size, dtype=np.float32) * _scale(extent, size, factor, False))
    return [(np.minimum(places, extent - 1), None)]


def _sources(extent: int, size: int, factor: float | None, corners: bool) -> np.ndarray:
    """Rounded once, as by the instruction that multiplies and adds: PyTorch is built with it."""
    places, scale = np.arange(size, dtype=np.float64), float(_scale(extent, size, factor, corners))
    return (places * scale if corners else (places + 0.5) * scale - 0.5).astype(np.float32)


def _linear(extent: int, size: int, factor: float | None, corners: bool) -> Taps:
    import torch

    rows = torch.from_numpy(_every(2, extent))[None]
    weights = torch.ops.aten.upsample_linear1d.default(rows, [size], corners, factor)[0]
    low = np.floor(np.maximum(_sources(extent, size, factor, corners), 0))
    return _taps(low, weights.numpy(), extent)


def _cubic(extent: int, size: int, factor: float | None, corners: bool) -> Taps:
    import torch

    rows = torch.from_numpy(_every(4, extent))[None, :, None]
    weights = torch.ops.aten.upsample_bicubic2d.default(rows, [1, size], corners, None, factor)[0, :, 0]
    return _taps(np.floor(_sources(extent, size, factor, corners)) - 1, weights.numpy(), extent)


def _every(count: int, extent: int) -> np.ndarray:
    """Rows that are 1 at every so manieth place, the first from 0, the second from 1 and so on. What PyTorch makes of
    them are the weights of places that follow each other, for of `count` of these each is in another row."""
    return np.equal.outer(np.arange(count), np.arange(extent) % count).astype(np.float32)


def _taps(low: np.ndarray, weights: np.ndarray, extent: int) -> Taps:
    """The places from `low` on, each with what PyTorch itself multiplies it by: the part of the way to the next place
    is a difference of large numbers, so that roundings on the way to it are seen in what is resized."""
    found: Taps = []
    before = np.full_like(low, -1)
    for step in range(len(weights)):
        places = np.clip(low + step, 0, extent - 1)
        own = weights[places.astype(np.int64) % len(weights), np.arange(len(low))]
        # Beyond the edge it is the same place again, which has its whole weight already.
        found.append((places, np.where(places == before, np.float32(0), own)))
        before = places
    return found
