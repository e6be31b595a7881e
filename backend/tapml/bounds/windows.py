"""Convolutions of 3x3 windows that move by one, which a kernel may compute by Winograd's F(2x2, 3x3).

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.1: four elements of the output
are A^T [(G g G^T) * (B^T d B)] A, of the weights g and a square d of 4x4 elements of the image, the products summed
over the channels. An element of the output is made of its own window alone, as in the sum as it is written: where a
window is all zeros, so are the nine products that it takes. But these multiply each element of the window by sums of
the nine weights, not by its own weight alone. Where large elements meet weights that are small or 0, what is rounded is
much larger than the terms as they are written, and at the output's edge than those of all neighbours, too.

Where both factors are float16, so may be what becomes of them before it is multiplied, as subgroup matrices take it.

No row of G is longer than 1. So by the inequality of Cauchy and Schwarz no element of G g G^T is larger than the root
of the sum of g's squares, three times their root mean square, and what does not conspire adds up by its squares, too:
in the size of a sum each element of a window counts with the root mean square of the nine weights, where that is more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from tapml.bounds.contraction import contract
from tapml.operators.affine import affine
from tapml.operators.program import Expression, parts_of

_EXTENT = 3
"""Of a window, along either axis."""

_LEAST_CHANNELS = 8
"""Terms for each of a window's places: with fewer, nobody takes this algorithm, which has to transform the image."""


class Windows(NamedTuple):
    """`image`: which factor of the product has the windows, 0 or 1; the other one has the weights. `axes`: of the grid,
    those within a window."""

    image: int
    axes: tuple[int, int]


def windows_of(update: Expression, extents: Mapping[str, int], reductions: Collection[str]) -> Windows | None:
    """The windows of a sum of products of two elements, over the `reductions` among the variables of `extents`, in the
    order of the grid's axes; None where there are none of 3x3 that move by one, of enough channels."""
    if math.prod(extents[variable] for variable in reductions) < _LEAST_CHANNELS * _EXTENT**2:
        return None
    loads = [_load(factor) for factor in update.operands]
    order = [*extents]
    for image, (own, other) in enumerate((loads, loads[::-1])):
        moving = [pair for index in own.operands if (pair := _pair(index, extents, reductions)) is not None]
        if len(moving) == 2 and all(_moves_alone(pair, own, other) for pair in moving):
            first, second = sorted(order.index(within) for _, within in moving)
            return Windows(image, (first, second))
    return None


def dtype_between(update: Expression, windows: Windows | None) -> str:
    """Of what a kernel may round to before it adds up: the dtype of the sum, but float16 where windows and weights
    are."""
    halved = windows is not None and all(_load(factor).dtype == "float16" for factor in update.operands)
    return "float16" if halved else update.dtype


def _load(factor: Expression) -> Expression:
    """Without conversions."""
    while factor.kind == "cast":
        (factor,) = factor.operands
    return factor


def _pair(index: Expression, extents: Mapping[str, int], reductions: Collection[str]) -> tuple[str, str] | None:
    """(y, ky) of an index y + ky, perhaps with a constant: ky is summed, from 0 to 2, and y is not."""
    found = affine(index)
    if found is None or sorted(found[1].values()) != [1, 1] or not found[1].keys() <= extents.keys():
        return None
    outer, within = sorted(found[1], key=lambda variable: variable in reductions)
    summed = outer not in reductions and within in reductions
    return (outer, within) if summed and extents[within] == _EXTENT else None


def _moves_alone(pair: tuple[str, str], own: Expression, other: Expression) -> bool:
    """Whether the windows' factor has the pair's variables in one index each, and the other one does not move."""
    outer, within = pair
    return outer not in _variables(other) and all(_variables(own).count(variable) == 1 for variable in (outer, within))


def _variables(load: Expression) -> list[object]:
    return [part.value for part in parts_of(load) if part.kind == "variable"]


def evenly(
    factors: tuple[np.ndarray, np.ndarray], windows: Windows, axes: Collection[int], power: int, apart: int | None
) -> np.ndarray:
    """The sum over `axes` of |image|^power times what the window's nine weights have of it in the root mean square.

    Both factors have an axis for each of the grid's, of its extent or 1; the summed axes stay with extent 1. `apart` as
    of `contract`.
    """
    image, weights = factors[windows.image], factors[1 - windows.image]
    sizes = _over_window(image, windows.axes, power)
    mean = _over_window(weights, windows.axes, 2) / _EXTENT**2
    return contract(
        sizes,
        mean if power == 2 else np.sqrt(mean),
        np.broadcast_shapes(sizes.shape, mean.shape),
        [axis for axis in axes if axis not in windows.axes],
        apart,
    )


def _over_window(array: np.ndarray, axes: tuple[int, int], power: int) -> np.ndarray:
    """The sum of |array|^power over a window's places; element by element in one order, whatever lies beside them."""
    total = np.zeros([1 if axis in axes else extent for axis, extent in enumerate(array.shape)])
    for places in itertools.product(range(_EXTENT), repeat=2):
        at = [slice(None)] * array.ndim
        for axis, place in zip(axes, places, strict=True):
            # What does not depend on the place is the same in all.
            at[axis] = slice(place, place + 1) if array.shape[axis] > 1 else slice(None)
        part = array[tuple(at)]
        total += np.square(part) if power == 2 else np.abs(part)
    return total
