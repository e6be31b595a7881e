"""What the page tells of a tensor, whatever is in it."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.server.statistics import statistics


@pytest.mark.parametrize(
    "values", [[1e300], [1.0, np.nextafter(1.0, 2.0)], [-1.7e308, 1.7e308]], ids=["huge", "narrow", "wide"]
)
def test_a_range_that_cannot_be_divided_has_no_histogram(values: list[float]) -> None:
    found = statistics(np.array(values))
    assert (found["min"], found["max"]) == (values[0], values[-1])
    assert found["histogram"] is None


def test_equal_numbers_have_one() -> None:
    assert sum(statistics(np.ones(5, np.float32))["histogram"]["counts"]) == 5
