"""What is computed at import, as other roundings would make it."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.importing.refolded import moved


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_moved_to_their_neighbours(dtype: str) -> None:
    array = np.linspace(-3, 5, 1000).astype(dtype) / np.asarray(7, dtype)
    other = moved(array, np.random.default_rng(0))
    assert other.dtype == array.dtype
    changed = other != array
    assert 0.3 < changed.mean() < 0.6
    assert set((other - array)[changed] > 0) == {False, True}
    up, down = (np.nextafter(array, np.asarray(end, dtype)) for end in (np.inf, -np.inf))
    assert ((other == array) | (other == up) | (other == down)).all()


def test_what_came_out_exactly_stays() -> None:
    """Where it lies on a step, as halves do that are rounded to whole numbers, that is meant."""
    array = np.array([0, -0.0, 1, -7, 0.5, 2.25, 1023, np.finfo(np.float32).min, np.inf, -np.inf, np.nan], np.float32)
    for seed in range(8):
        np.testing.assert_array_equal(moved(array, np.random.default_rng(seed)), array)
