"""What is made of errors in float64 before they are stored: against numpy's own, slower functions."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.bounds.derive import _median, _rounded_up

LARGEST = float(np.finfo(np.float32).max)


def test_a_bound_is_stored_as_the_next_number_that_is_no_less() -> None:
    random = np.random.default_rng(0)
    bounds = np.concatenate([
        10.0 ** random.uniform(-50, 45, 4000),
        random.uniform(0, 1, 4000).astype(np.float32),
        [0.0, 2.0**-150, 2.0**-149, 1.5 * 2.0**-149, 1.0, 1.0 + 2.0**-40, LARGEST, LARGEST * 1.0000001, np.inf],
    ])  # fmt: skip
    with np.errstate(over="ignore"):
        nearest = bounds.astype(np.float32)
        expected = np.where(nearest < bounds, np.nextafter(nearest, np.float32(np.inf)), nearest)
    np.testing.assert_array_equal(_rounded_up(bounds), expected)
    assert _rounded_up(np.array(np.nan)).dtype == np.float32
    assert np.isnan(_rounded_up(np.array(np.nan)))
    assert _rounded_up(np.array(1.0 + 2.0**-40)) > 1.0  # of no dimensions


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 4096, 4097])
def test_the_median_is_numpys(count: int) -> None:
    values = np.random.default_rng(count).exponential(1.0, count).astype(np.float32)
    expected = float(np.median(values))
    assert _median(values) == expected
