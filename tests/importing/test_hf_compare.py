"""What is said of an export that differs from the model."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tapml.importing.hf_compare import _differs

pytestmark = pytest.mark.torch


class Model:
    """Only its name is read."""


@pytest.mark.parametrize(
    ("last", "length", "advice", "named"),
    [
        (0, 8, "(no --capacity helps: the first tokens differ)", []),
        (5, 8, "or give --capacity 5", []),
        (10, 45, "or give --capacity 32", ["window = 8", "max_position = 32"]),
        (0, 32, "or give --capacity 8", ["window = 8"]),
    ],
)
def test_only_a_capacity_that_helps_is_advised(last: int, length: int, advice: str, named: list[str]) -> None:
    error = _differs(Model(), {"window": 8, "max_position": 32}, last, length, 0.5, 2.0)
    assert str(error).endswith(advice)
    assert [name for name in ("window = 8", "max_position = 32") if name in str(error)] == named
