"""Sums of products over some axes of a grid, as matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tapml.bounds.uncertain import NotDerivable


def contract(
    a: np.ndarray, b: np.ndarray, extents: Sequence[int], axes: Sequence[int], apart: int | None = None
) -> np.ndarray:
    """sum(a * b) over `axes`, which stay with extent 1. Both operands have an axis for each of `extents`, of that
    extent or 1; axes that neither has are of extent 1 in the result too, unless they are summed. Along the axis `apart`
    each sum is computed as if it were alone, to the last bit; raises NotDerivable where that is not known."""
    return Product(a, b, extents, axes, apart).sum()


class Product:
    """a * b, to be summed as `contract` says."""

    def __init__(
        self, a: np.ndarray, b: np.ndarray, extents: Sequence[int], axes: Sequence[int], apart: int | None = None
    ) -> None:
        self._operands, self._extents, self._axes = (a, b), extents, axes
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
        # A product of a matrix and many vectors rounds otherwise than each of them.
        batch = [i for i in range(rank) if i not in summed and ((a.shape[i] > 1 and b.shape[i] > 1) or i == apart)]
        rows = [i for i in range(rank) if i not in summed and a.shape[i] > 1 and i not in batch]
        columns = [i for i in range(rank) if i not in summed and b.shape[i] > 1 and i not in batch]
        self._summed_before = a is not self._operands[0] or b is not self._operands[1]
        one_has_it = apart is not None and a.shape[apart] != b.shape[apart]
        if apart is not None and (self._summed_before or (one_has_it and len(batch) > 1)):
            raise NotDerivable("sums of products of several calls that are no matrix products")
        self._matrices = _matrix(a, batch, rows, inner), _matrix(b, batch, inner, columns)
        self._scale, self._order = scale, [*batch, *rows, *columns]

    def sum(self) -> np.ndarray:
        """The sum, with an axis for each of the extents."""
        left, right = self._matrices
        product = (left @ right) * self._scale
        order = self._order
        extents = [max(ends) for ends in zip(*(operand.shape for operand in self._operands), strict=True)]
        product = product.reshape([extents[i] for i in order])
        shape = [extent if i in order else 1 for i, extent in enumerate(extents)]
        result: np.ndarray = product.transpose([order.index(i) for i in sorted(order)]).reshape(shape)
        return result

    def each(self, function: Callable[..., np.ndarray]) -> Product:
        """`function` of a times `function` of b: of an array, written to `out` where that is given. This product is not
        to be used any more: its copies, in which the operands' elements are many times where a convolution reads them
        so, become those of the other."""
        if self._summed_before:
            a, b = map(function, self._operands)
            return Product(a, b, self._extents, self._axes)
        pairs = zip(self._matrices, self._operands, strict=True)
        left, right = (function(m, out=None if np.may_share_memory(m, operand) else m) for m, operand in pairs)
        self._matrices = left, right
        return self


def _matrix(array: np.ndarray, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    order = [*batch, *rows, *columns]
    rest = [i for i in range(array.ndim) if i not in order]
    shape = [math.prod(array.shape[i] for i in part) for part in (batch, rows, columns)]
    found = array.transpose([*order, *rest]).reshape(shape).astype(np.float64, copy=False)
    _, height, width = shape
    # BLAS takes rows that lie apart (a part of a matrix's columns) as they are.
    apart = found.strides[1] >= width * found.itemsize and found.strides[2] == found.itemsize
    return found if height > 1 and width > 1 and apart else np.ascontiguousarray(found)
