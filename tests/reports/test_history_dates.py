"""A suite's history may be a stranger's: what is no date is shown as it is."""

from __future__ import annotations

import pytest

from tapml.reports.history import _date


@pytest.mark.parametrize("text", ["x", "", "9999-99-99", "2026-11-21T10:00:00+99:00", "x" * 1000])
def test_what_is_no_date_is_shown_as_it_is(text: str) -> None:
    assert _date(text) == text[:20]


def test_a_date_is_shown_to_the_minute() -> None:
    assert _date("2026-11-21T10:00:00").startswith("2026-11-21 10:00")
