"""Sums of products over some axes of a grid, as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def contract(a: np.ndarray, b: np.ndarray, extents: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """sum(a * b) over `axes`, which stay with extent 1. Both operands have an axis for each of `extents`, of that
    extent or 1; axes that neither has are of extent 1 in the result too, unless they are summed."""
    rank = len(extents)
    summed = set(axes)
    # What only one of them has can be summed before; what none has repeats.
    scale = 1
    for axis in axes:
        in_a, in_b = a.shape[axis] > 1, b.shape[axis] > 1
        if not in_a and not in_b:
            scale *= extents[axis]
        elif not in_b:
            a = a.sum(axis=axis, keepdims=True)
        elif not in_a:
            b = b.sum(axis=axis, keepdims=True)
    inner = [i for i in range(rank) if i in summed and a.shape[i] > 1]
    batch = [i for i in range(rank) if i not in summed and a.shape[i] > 1 and b.shape[i] > 1]
    rows = [i for i in range(rank) if i not in summed and a.shape[i] > 1 and i not in batch]
    columns = [i for i in range(rank) if i not in summed and b.shape[i] > 1 and i not in batch]
    left = _matrix(a, batch, rows, inner)
    right = _matrix(b, batch, inner, columns)
    product = (left @ right) * scale
    order = [*batch, *rows, *columns]
    product = product.reshape([extents[i] for i in order])
    shape = [extents[i] if i in order else 1 for i in range(rank)]
    result: np.ndarray = product.transpose([order.index(i) for i in sorted(order)]).reshape(shape)
    return result


def _matrix(array: np.ndarray, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    order = [*batch, *rows, *columns]
    rest = [i for i in range(array.ndim) if i not in order]
    shape = [math.prod(array.shape[i] for i in part) for part in (batch, rows, columns)]
    return np.ascontiguousarray(array.transpose([*order, *rest]).reshape(shape).astype(np.float64, copy=False))
