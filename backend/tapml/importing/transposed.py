"""Transposed convolution as a search: each element of the result sums the products that land on it.

TVM's own kernels spread the data with zeros between its elements first; drivers compile that for minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx


def conv_transpose(
    data: Any,
    weight: Any,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    dtype: str = "",
) -> Any:
    """`data` [n, c, ...] and `weight` [c, o / groups, ...] give [n, o, ...].

    `padding`: in front of each axis, then behind each. `dtype`: of the products, their sums and the result; that of
    `data` if nothing is said.
    """
    dtype = dtype or data.dtype
    rank = len(data.shape) - 2
    kernel = weight.shape[2:]
    before, after = padding[:rank], padding[rank:]
    sizes = [
        (data.shape[2 + i] - 1) * strides[i]
        + dilation[i] * (kernel[i] - 1)
        + 1
        - before[i]
        - after[i]
        + output_padding[i]
        for i in range(rank)
    ]
    # Of the channels of one group.
    given, made = data.shape[1] // groups, weight.shape[1]
    channel = te.reduce_axis((0, given), "c")
    taps = [te.reduce_axis((0, extent), f"k{i}") for i, extent in enumerate(kernel)]

    def total(batch: Any, out: Any, *at: Any) -> Any:
        far = [at[i] + before[i] - taps[i] * dilation[i] for i in range(rank)]
        places = [tirx.floordiv(far[i], strides[i]) for i in range(rank)]
        lands = [
            tirx.all(place >= 0, place < data.shape[2 + i], tirx.floormod(far[i], strides[i]) == 0)
            for i, place in enumerate(places)
        ]
        inside = [tirx.max(tirx.min(place, data.shape[2 + i] - 1), 0) for i, place in enumerate(places)]
        source = tirx.floordiv(out, made) * given + channel
        factors = data(batch, source, *inside), weight(source, tirx.floormod(out, made), *taps)
        product = factors[0].astype(dtype) * factors[1].astype(dtype)
        return te.sum(tirx.Select(tirx.all(*lands), product, tirx.const(0, dtype)), axis=[channel, *taps])

    return te.compute((data.shape[0], made * groups, *sizes), total, name="conv_transpose")
