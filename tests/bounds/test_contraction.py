"""Sums of products as matrix products, against the sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.bounds.contraction import Product

_RANDOM = np.random.default_rng(0)


def _windows() -> np.ndarray:
    """[channel, row, column, row of the kernel, column of the kernel]: elements that are read many times."""
    image = _RANDOM.standard_normal((3, 6, 7))
    return np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        (_windows()[None], _RANDOM.standard_normal((4, 3, 1, 1, 3, 3)), (1, 4, 5)),
        (_RANDOM.standard_normal((1, 5, 6)), _RANDOM.standard_normal((4, 1, 6)), (2,)),
        (_RANDOM.standard_normal((4, 5, 6)), _RANDOM.standard_normal((4, 1, 6)), (2,)),
        # An axis that only one of them has, and one that none has.
        (_RANDOM.standard_normal((4, 5, 1)), _RANDOM.standard_normal((1, 5, 6)), (1, 2)),
        (_RANDOM.standard_normal((4, 5, 1)), _RANDOM.standard_normal((4, 1, 1)), (1,)),
    ],
)
def test_sums_of_products_and_of_their_sizes(a: np.ndarray, b: np.ndarray, axes: tuple[int, ...]) -> None:
    extents = np.broadcast_shapes(a.shape, b.shape)
    before = a.copy(), b.copy()
    product = Product(a, b, extents, axes)
    assert np.allclose(product.sum(), (a * b).sum(axis=axes, keepdims=True))
    sizes = product.each(np.abs).sum()
    assert np.allclose(sizes, (np.abs(a) * np.abs(b)).sum(axis=axes, keepdims=True))
    assert np.array_equal(sizes, Product(np.abs(a), np.abs(b), extents, axes).sum())
    # What was given is as it was.
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])
