"""Convolutions of 3x3 windows that move by one, which a kernel may compute by Winograd's F(2x2, 3x3).

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.1: four elements of the output
are A^T [(G g G^T) * (B^T d B)] A, of the weights g and a square d of 4x4 elements of the image, the products summed
over the channels. An element of the output is made of its own window alone, as in the sum as it is written: where a
window is all zeros, so are the nine products that it takes. But these multiply each element of the window by sums of
the nine weights, not by its own weight alone. Where large elements meet weights that are small or 0, what is rounded is
much larger than the terms as they are written, and at the output's edge than those of all neighbours, too.

No row of G is longer than 1. So by the inequality of Cauchy and Schwarz no element of G g G^T is larger than the root
of the sum of g's squares, three times their root mean square, and what does not conspire adds up by its squares, too:
in the size of a sum each element of a window counts with the root mean square of the nine weights, where that is more.

Where both factors are float16, so may be G g G^T and B^T d B, as subgroup matrices take them: computed in float32, and
rounded once, the latter's quarter. That of the nine products that an element takes, in each channel, is much more than
a sum in float32 is off by. No element of G g G^T is larger than three times the root mean square of the weights, and an
element of the window is in four of those nine squares' elements, once. So the sizes of these products are together 12
times those that an element counts with, and their squares 144 times (of four elements the square of the sum is four
times that of the squares at most).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from tapml.bounds.contraction import contract
from tapml.bounds.uncertain import smallest_normal, unit
from tapml.operators.affine import affine
from tapml.operators.program import Expression, parts_of

_EXTENT = 3
"""Of a window, along either axis."""

_LEAST_CHANNELS = 8
"""Terms for each of a window's places: with fewer, nobody takes this algorithm, which has to transform the image."""


class Windows(NamedTuple):
    """`image`: which factor of the product has the windows, 0 or 1; the other one has the weights. `axes`: of the grid,
    those within a window. `halved`: whether what becomes of both factors may be float16 before it is multiplied."""

    image: int
    axes: tuple[int, int]
    halved: bool


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
            return Windows(image, (first, second), all(load.dtype == "float16" for load in loads))
    return None


USUALLY_HALVED = 6.0
"""What products of float16 are off by together, its square, to the sum of the squares of terms that are alike."""


def halved_off(
    factors: tuple[np.ndarray, np.ndarray],
    windows: Windows,
    axes: Collection[int],
    size: np.ndarray,
    squares: np.ndarray,
    confidence: float,
    apart: int | None,
) -> np.ndarray:
    """What the products of float16 may be off by together. `size`, `squares`: the sums of the sizes of terms, and of
    their squares, as `evenly` has them; `confidence` as of sums, in units of sums that are rounded to nearest.

    Each number of a product is off by a unit at most, and by half of one where it is rounded to nearest; one that
    float16 has no normal number for may be 0.
    """
    image, weights = factors[windows.image], factors[1 - windows.image]

    def summed(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
        pair = (image, weights) if windows.image == 0 else (weights, image)
        return evenly(pair, windows, axes, 1, apart)

    of_weights, of_image = summed(np.ones_like(image), weights), summed(image, np.ones_like(weights))
    flushed = smallest_normal("float16") * (4 * 3 * of_weights + 4 * of_image)
    rounded = unit("float16") * np.minimum(2 * 12 * size, confidence * np.sqrt(2 * 144 * squares))
    found: np.ndarray = np.where(size > 0, rounded + flushed, 0.0)
    return found


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
