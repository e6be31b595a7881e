"""Weights that lie in 16 bits: nothing is lost, and the runtime makes the same of every pattern."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tapml.compiled.stored import TYPES, Stored, narrowed, stored_as, widened

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "stored.json").read_text())
PATTERNS = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("kind", TYPES)
def test_every_pattern_becomes_its_number_and_that_pattern_again(kind: Stored) -> None:
    wide = widened(PATTERNS.view(np.uint8), kind)
    assert hashlib.sha256(wide.tobytes()).hexdigest() == VECTORS[kind]
    numbers = wide.view(np.float32)
    if kind == "float16":
        np.testing.assert_array_equal(numbers, PATTERNS.view(np.float16).astype(np.float32))
    else:
        np.testing.assert_array_equal(numbers.view(np.uint32), PATTERNS.astype(np.uint32) << 16)
    real = np.isfinite(numbers)
    again = narrowed(np.ascontiguousarray(numbers[real]).view(np.uint8), kind).view(np.uint16)
    np.testing.assert_array_equal(again, PATTERNS[real])


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([1.0, -0.0, 65504.0, 2.0**-24, np.inf], "float16"),
        ([1.0, 65536.0, -(2.0**-100)], "bfloat16"),
        ([1.0, 0.1], None),
        ([1.0 + 2.0**-10, 2.0**20], None),
        ([2.0**-25], "bfloat16"),
        ([], None),
    ],
)
def test_what_holds_all_numbers_to_the_bit(numbers: list[float], kind: Stored | None) -> None:
    data = np.float32(numbers).tobytes()
    assert stored_as([data]) == kind
    assert stored_as([data[:3], data[3:5], data[5:]]) == kind


def test_what_is_no_words_stays_as_it_is() -> None:
    assert stored_as([b"\0\0\0\0\0"]) is None
