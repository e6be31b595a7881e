"""Maxima of windows and samples of volumes, in terms of what the importer converts (`torch_decompositions.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

# ---------------------------------------------------- maxima


def _largest(x: Any, tables: Sequence[Any], outside: Sequence[int]) -> Any:
    """Of windows, and where the first of equals is: `tables` by axis are int64[windows, places], and count from
    `outside`, how many elements of padding come before those of x."""
    import torch

    rank = len(tables)
    axes = x.shape[-rank:]
    low = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    place, inside = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.bool)
    for axis, (table, before, size) in enumerate(zip(tables, outside, axes, strict=True)):
        spread = [1] * (2 * rank)
        spread[axis], spread[rank + axis] = table.shape
        own = (table - before).reshape(spread)
        place = place * size + own.clamp(0, size - 1)
        inside = inside & (own >= 0) & (own < size)
    windows = place.shape[:rank]
    place, inside = place.reshape(*windows, -1), inside.expand(place.shape).reshape(*windows, -1)
    found = torch.where(inside, x.flatten(-rank)[..., place], low)
    # The last axis of `place` is a number of the window, the first of equals that is inside.
    first = torch.where(inside & (found == found.amax(-1, keepdim=True)), place, math.prod(axes)).amin(-1)
    return found.amax(-1), first


def _adaptive_maxima(x: Any, sizes: Any) -> Any:
    """Windows of several lengths: shorter ones have their last place several times."""
    import torch

    extents = x.shape[-len(sizes) :]
    if not all(isinstance(n, int) for n in (*extents, *sizes)):
        return NotImplemented
    tables = []
    for extent, size in zip(extents, sizes, strict=True):
        number = torch.arange(size)
        first, end = number * extent // size, ((number + 1) * extent + size - 1) // size
        longest = max(-(-(place + 1) * extent // size) - place * extent // size for place in range(size))
        tables.append(torch.minimum(first[:, None] + torch.arange(longest), end[:, None] - 1))
    return _largest(x, tables, [0] * len(sizes))


def _maxima_of_volumes(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    import torch

    def three(number: Any) -> list[int]:
        given = list(number) if isinstance(number, (list, tuple)) else [number]
        return given * (3 // len(given))

    kernel, pads, apart = three(kernel), three(padding), three(dilation)
    extents = x.shape[-3:]
    if not all(isinstance(n, int) for n in extents):
        return NotImplemented
    tables = []
    for extent, size, step, pad, gap in zip(extents, kernel, three(stride or kernel), pads, apart, strict=True):
        left = extent + 2 * pad - gap * (size - 1) - 1
        count = -(-left // step) + 1 if ceil else left // step + 1
        # No window begins in what is padded behind.
        count -= ceil and (count - 1) * step >= extent + pad
        tables.append((torch.arange(count) * step)[:, None] + torch.arange(size) * gap)
    return _largest(x, tables, pads)


# ---------------------------------------------------- samples


def _reflected(at: Any, low: float, high: float) -> Any:
    if low == high:
        return at * 0
    at = (at - low).abs()
    turns, rest = (at / (high - low)).floor(), at.fmod(high - low)
    return low + (rest + (turns % 2) * (high - low - 2 * rest))


def _sampled_volume(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """Of float[N, C, D, H, W] at float[N, d, h, w, 3], x first: between the eight that are around a place, or the
    nearest one. Beyond the volume are zeros, its border, or its mirror image."""
    import torch

    if x.dtype != torch.float32 or mode > 1:
        return NotImplemented
    batches, channels, *sizes = x.shape
    flat, axes = x.flatten(2), []
    for size, at in zip(sizes, grid.flip(-1).unbind(-1), strict=True):
        at = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        if padding == 2:
            at = _reflected(at, 0, size - 1) if corners else _reflected(at, -0.5, size - 0.5)
        axes.append(at.clamp(0, size - 1) if padding else at)

    def tap(places: Sequence[Any]) -> Any:
        place, inside = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.bool)
        for size, at in zip(sizes, places, strict=True):
            inside = inside & (at >= 0) & (at < size)
            place = place * size + at.clamp(0, size - 1).to(torch.int64)
        picked = flat.gather(2, place.reshape(batches, 1, -1).expand(batches, channels, -1))
        return torch.where(inside.unsqueeze(1), picked.reshape(batches, channels, *grid.shape[1:4]), 0.0)

    if mode == 1:
        return tap([at.round() for at in axes])
    made: Any = 0
    lowest = [at.floor() for at in axes]
    for corner in range(8):
        ends = [corner >> axis & 1 for axis in range(3)]
        shares = [at - low if end else low + 1 - at for at, low, end in zip(axes, lowest, ends, strict=True)]
        picked = tap([low + end for low, end in zip(lowest, ends, strict=True)])
        made = made + picked * (shares[0] * shares[1] * shares[2]).unsqueeze(1)
    return made


WINDOWS: dict[str, Callable[..., Any]] = {
    "aten.adaptive_max_pool2d": _adaptive_maxima,
    "aten.adaptive_max_pool3d": _adaptive_maxima,
    "aten.max_pool3d_with_indices": _maxima_of_volumes,
    "aten.grid_sampler_3d": _sampled_volume,
}
"""By the operator's name."""
