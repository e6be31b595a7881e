"""Inputs that several calls share, and how they are converted."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.bounds import Converted
from tapml.bounds.converted import any_subnormal

_WEIGHTS = np.ones((256, 512), np.float32)


def test_what_many_calls_are_still_to_read_is_kept_until_the_last_has() -> None:
    states = [np.full((1, 512), n, np.float32) for n in range(8)]
    converted = Converted(array for state in states for array in (state, _WEIGHTS))
    found = []
    for state in states:
        assert converted.input(state, "float32", (1, 512)).value[0, 0] == state[0, 0]
        found.append(converted.input(_WEIGHTS, "float32", (256, 512)))
    assert all(one is found[0] for one in found)
    assert found[0].value.dtype == np.float64
    assert converted._bytes == 0
    assert not converted._kept
    # The same elements in another shape are another input.
    assert converted.input(_WEIGHTS, "float32", (512, 256)).value.shape == (512, 256)


def test_absolute_values_of_what_is_kept_are_computed_once_and_stay() -> None:
    weights = np.linspace(-1, 1, 256 * 512, dtype=np.float32).reshape(256, 512)
    converted = Converted([weights] * 8)
    value = converted.input(weights, "float32", weights.shape).value
    size = converted.absolute(value)
    assert np.array_equal(size, np.abs(value))
    assert np.shares_memory(converted.absolute(value.reshape(512, 256)), size)
    with pytest.raises(ValueError, match="read-only"):
        np.abs(size, out=size)
    for part in (value[:128], value[:, 100:300], value.T, value[::-1, ::2]):
        found = converted.absolute(part)
        assert np.array_equal(found, np.abs(part))
        assert np.shares_memory(found, size)
    assert not np.shares_memory(converted.absolute(value.copy()), size)
    written = np.empty_like(value)
    assert converted.absolute(value, out=written) is written
    for _ in range(7):
        converted.input(weights, "float32", weights.shape)
    assert not converted._sizes


def test_what_few_calls_read_is_not_kept() -> None:
    converted = Converted([_WEIGHTS] * 3)
    first, second = (converted.input(_WEIGHTS, "float32", (256, 512)) for _ in range(2))
    assert first is not second
    assert np.array_equal(first.value, second.value)


def test_no_more_is_kept_than_some_megabytes() -> None:
    many = [_WEIGHTS.reshape(64, 2048) + n for n in range(64)]
    converted = Converted(array for array in many for _ in range(8))
    for array in many:
        converted.input(array, "float32", (64, 2048))
    assert sum(one.value.nbytes for one in converted._kept.values()) == 32 << 20
    assert converted.input(many[0], "float32", (64, 2048)) is converted.input(many[0], "float32", (64, 2048))
    assert converted.input(many[-1], "float32", (64, 2048)).value[0, 0] == 64.0


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("as_wide", [False, True], ids=["stored", "in float64"])
def test_subnormal_numbers_are_found_wherever_they_are(dtype: str, *, as_wide: bool) -> None:
    info = np.finfo(dtype)
    plain = np.zeros(1 << 17, dtype)
    plain[:6] = [0.0, -0.0, info.smallest_normal, -info.smallest_normal, np.inf, np.nan]
    for place, number in ((70_000, info.smallest_subnormal), (3, -info.smallest_normal / 2), (99_999, 0.0)):
        array = plain.copy()
        array[place] = number
        assert any_subnormal(array.astype(np.float64) if as_wide else array, dtype) == (number != 0)
