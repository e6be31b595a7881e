"""Inputs that several calls share."""

from __future__ import annotations

import numpy as np

from tapml.bounds import Converted

_WEIGHTS = np.ones((256, 512), np.float32)


def test_what_comes_again_is_converted_once_more_and_then_kept() -> None:
    converted, states = Converted(), [np.full((1, 512), n, np.float32) for n in range(4)]
    found = []
    for state in states:
        assert converted.input(state, "float32", (1, 512)).value[0, 0] == state[0, 0]
        found.append(converted.input(_WEIGHTS, "float32", (256, 512)))
    assert found[1] is found[2] is found[3]
    assert found[0] is not found[1]
    assert np.array_equal(found[0].value, found[3].value)
    assert found[3].value.dtype == np.float64
    # The same elements in another shape are another input.
    assert converted.input(_WEIGHTS, "float32", (512, 256)).value.shape == (512, 256)


def test_no_more_is_kept_than_some_megabytes() -> None:
    converted, many = Converted(), [_WEIGHTS.reshape(64, 2048) + n for n in range(64)]
    for array in many:
        for _ in range(3):
            converted.input(array, "float32", (64, 2048))
    assert sum(one.value.nbytes for _, one in converted._kept.values()) == 32 << 20
    # The last ones are.
    assert converted.input(many[-1], "float32", (64, 2048)) is converted.input(many[-1], "float32", (64, 2048))
    assert converted.input(many[0], "float32", (64, 2048)).value[0, 0] == 1.0
