"""How a release goes on, and what stops it."""

from __future__ import annotations

import random

import pytest
from field_profiles import IDS, release, step_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from tapml.field.evidence import shows_above, shows_below
from tapml.field.releases import Counts, Release, advance

GRAY = [{"kind": "gray", "share": 0.01, "seconds": 60}, {"kind": "gray", "share": 0.1}, {"kind": "full"}]


def watched(rate: float, threshold: float, devices: int, luck: random.Random) -> str:
    """A release of one step that is looked at after every device: what becomes of it."""
    failed = 0
    for seen in range(1, devices + 1):
        failed += luck.random() < rate
        if shows_above(failed, seen, threshold, 0.01):
            return "above"
    return "below" if shows_below(failed, devices, threshold, 0.05) else "open"


def test_a_good_rate_is_hardly_ever_called_bad_however_often_it_is_looked_at() -> None:
    luck = random.Random(1)
    alarms = sum(watched(0.05, 0.05, 400, luck) == "above" for _ in range(300))
    assert alarms <= 9  # 3 are expected at most; ten or more have a chance of 1 in 1,000


def test_a_bad_rate_is_seen_and_a_good_one_passed() -> None:
    luck = random.Random(2)
    assert all(watched(0.2, 0.05, 400, luck) == "above" for _ in range(50))
    assert sum(watched(0.01, 0.05, 400, luck) == "below" for _ in range(50)) >= 45


def test_no_device_is_no_evidence() -> None:
    assert not shows_above(0, 0, 0.01, 0.5)
    assert not shows_below(0, 0, 0.01, 0.5)
    assert shows_below(0, 400, 0.01, 0.05)
    assert not shows_below(0, 200, 0.01, 0.05)


def test_a_gray_step_lasts_until_there_is_evidence_and_time_is_up() -> None:
    one = release(steps=GRAY, since=1000)
    assert advance(one, Counts(50), 600_000) is one
    assert advance(one, Counts(5000), 60_999) is one
    further = advance(one, Counts(5000), 61_000)
    assert (further.step, further.since, further.status) == (1, 61_000, "running")


def test_failures_roll_back_at_any_step_and_for_good() -> None:
    for step in range(3):
        gone = advance(release(steps=GRAY, step=step), Counts(300, failed=60), 5)
        assert gone.status == "rolled-back"
        assert gone.reason == "60 of 300 devices failed, and 1.00% may"
        assert advance(gone, Counts(10_000), 10**9) is gone


def test_slow_runs_roll_back_and_hold_back() -> None:
    limits = {"slow_ms": 200, "slow_rate": 0.05}
    one = release(steps=GRAY, thresholds=limits)
    assert advance(one, Counts(2000, slow=600), 5).reason == "600 of 2000 devices took over 200.0 ms, and 5.00% may"
    assert advance(one, Counts(2000, slow=100), 10**6) is one
    assert advance(one, Counts(2000, slow=10), 10**6).step == 1


@pytest.mark.parametrize("kind", ["simulation", "beta"])
def test_a_named_step_needs_each_of_its_devices_and_takes_no_failure(kind: str) -> None:
    one = release(steps=[{"kind": kind, "devices": IDS[:3]}, {"kind": "full"}])
    assert advance(one, Counts(2), 10) is one
    assert advance(one, Counts(3), 10).step == 1
    assert advance(one, Counts(1, failed=1), 10).reason == f"1 of 3 devices of the {kind} step failed"


@settings(max_examples=60, deadline=None)
@given(step_lists(), st.lists(st.tuples(st.integers(0, 2000), st.floats(0, 1)), max_size=12))
def test_a_release_goes_forward_step_by_step_or_back_and_never_past_its_end(
    steps: list[dict[str, object]], reports: list[tuple[int, float]]
) -> None:
    one: Release = release(steps=steps)
    for now, (devices, rate) in enumerate(reports):
        after = advance(one, Counts(devices, failed=int(devices * rate)), 1_000_000 * now)
        assert after.step - one.step in (0, 1)
        assert after.step < len(steps)
        assert one.status == "running" or after is one
        assert (after.status == "rolled-back") == bool(after.reason)
        one = after
