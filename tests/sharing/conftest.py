"""A test of the small suite with a failing result of a made-up device."""

from __future__ import annotations

import pytest

from repro_helpers import keep_result
from tapml.sharing import Repro, of_suite
from tapml.suite import Suite


@pytest.fixture
def test_id(suite: Suite) -> str:
    return next(test.id for test in suite.tests if "softmax" in test.kernel)


@pytest.fixture
def repro(suite: Suite, test_id: str) -> Repro:
    keep_result(suite, test_id)
    return of_suite(suite, test_id)
