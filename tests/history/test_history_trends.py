"""Trends of histories whose answers are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sql
from history_documents import day_of, device, document, result

from tapml.history import History, schema, trends
from tapml.suite import Suite

# Day, version, kernel, verdict. A verdict that changes while version and kernel stay is flaky: days 2, 3 and 5.
STORY = [
    (0, "Chromium 150", "aaaa", "pass"),
    (1, "Chromium 150", "aaaa", "pass"),
    (2, "Chromium 150", "aaaa", "fail"),
    (3, "Chromium 150", "aaaa", "pass"),
    (4, "Chromium 151", "aaaa", "fail"),
    (5, "Chromium 151", "aaaa", "error"),
    (6, "Chromium 151", "bbbb", "fail"),
]


@pytest.fixture
def told(history: History, suite: Suite) -> History:
    # Not in order: a process that was killed is recovered later.
    for day, version, digest, verdict in STORY[::2] + STORY[1::2]:
        tests = [result(verdict=verdict, seconds={"run": (day + 1) / 1000}, max_ulp=day)]
        history.record(document(suite, day, tests, devices=[device(version)], digest=digest), source="validate")
    return history


def only(history: History) -> dict[str, Any]:
    (trend,) = history.trends()["trends"]
    return dict(trend)


def test_a_trend_tells_the_whole_story(told: History) -> None:
    trend = only(told)
    assert (trend["runs"], trend["state"], trend["last"]["verdict"]) == (7, "failing", "fail")
    assert day_of(trend["since"]) == 4
    assert trend["since"]["device"] == "Chromium 151"
    assert (trend["since"]["device_changed"], trend["since"]["kernel_changed"]) == (True, False)
    assert trend["new_failure"]
    assert (day_of(trend["first_passing"]), day_of(trend["first_failing"])) == (0, 2)
    assert trend["first_failing"]["device"] == "Chromium 150"
    assert (trend["flaky_runs"], trend["flaky_rate"]) == (3, 0.4286)
    assert trend["seconds"] == {"median": pytest.approx(0.004), "last": pytest.approx(0.007)}
    assert trend["gpu_seconds"] == {"median": None, "last": None}
    assert [tuple(version.values()) for version in trend["versions"]] == [
        ("Chromium 150", "SwiftShader 5.0", 4, 3, 1, 0, 0, 0, pytest.approx(0.0025)),
        ("Chromium 151", "SwiftShader 5.0", 3, 0, 2, 1, 0, 0, pytest.approx(0.006)),
    ]


def test_a_timeline_is_the_story_itself(told: History) -> None:
    (entry,) = told.timeline("n000.s0")
    points = entry["points"]
    assert [(day_of(p), p["device"], p["verdict"], p["max_ulp"]) for p in points] == [
        (day, version, verdict, day) for day, version, _, verdict in STORY
    ]
    assert [day_of(p) for p in points if p["flaky"]] == [2, 3, 5]
    assert [day_of(p) for p in points if p["device_changed"]] == [4]
    assert [day_of(p) for p in points if p["kernel_changed"]] == [6]
    assert entry["trend"] == only(told)


def test_an_old_streak_is_dated_beyond_the_runs_looked_at(told: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "WINDOW", 2)
    trend = only(told)
    assert trend["runs"] == 2
    assert day_of(trend["since"]) == 4
    assert trend["since"]["device"] == "Chromium 151"
    assert day_of(trend["first_failing"]) == 2
    assert day_of(trend["first_passing"]) == 0
    assert trend["new_failure"]
    assert trend["flaky_runs"] == 0, "rates are of the runs looked at"
    assert [day_of(p) for p in told.timeline("n000.s0")[0]["points"]] == [5, 6]


def test_a_test_that_always_passed(history: History, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(4):
        history.record(document(suite, day, [result()]), source="validate")
    for window in (500, 2):
        monkeypatch.setattr(trends, "WINDOW", window)
        trend = only(history)
        assert (trend["state"], trend["first_failing"], trend["new_failure"]) == ("passing", None, False)
        assert day_of(trend["since"]) == 0
        assert trend["flaky_rate"] == 0


def test_unbounded_is_failing(history: History, suite: Suite) -> None:
    for day, verdict in enumerate(("pass", "unbounded", "fail")):
        history.record(document(suite, day, [result(verdict=verdict)]), source="validate")
    trend = only(history)
    assert (trend["state"], trend["new_failure"]) == ("failing", True)
    assert day_of(trend["since"]) == day_of(trend["first_failing"]) == 1
    assert trend["versions"][0]["unbounded"] == 1


def test_a_test_that_never_passed_is_no_new_failure(history: History, suite: Suite) -> None:
    for day, verdict in enumerate(("unsupported", "error", "fail")):
        history.record(document(suite, day, [result(verdict=verdict)]), source="validate")
    trend = only(history)
    assert (trend["state"], trend["new_failure"], trend["first_passing"]) == ("failing", False, None)
    assert day_of(trend["since"]) == day_of(trend["first_failing"]) == 1


def test_a_mended_kernel_is_not_flaky(history: History, suite: Suite) -> None:
    for day, (verdict, digest) in enumerate((("pass", "a"), ("fail", "b"), ("pass", "a"), ("pass", "c"))):
        history.record(document(suite, day, [result(verdict=verdict)], digest=digest), source="validate")
    trend = only(history)
    assert trend["flaky_runs"] == 0
    assert (day_of(trend["since"]), trend["since"]["kernel_changed"]) == (2, True)


def test_a_run_of_one_kernel_only_is_not_mistaken_for_a_gap(history: History, suite: Suite) -> None:
    both = [result(), result("n001.s0", kernel="matmul")]
    for day, tests in enumerate((both, both[:1], both[:1], both)):
        history.record(document(suite, day, tests), source="validate")
    assert [(t["test"], t["runs"]) for t in history.trends()["trends"]] == [("n000.s0", 4), ("n001.s0", 2)]


def test_what_passed_only_when_it_ran_again_is_flaky(history: History, suite: Suite) -> None:
    history.record(document(suite, 0, [result()]), source="test")
    attempts = {(device()["id"], "n000.s0"): ["fail", "pass"]}
    history.record(document(suite, 1, [result()]), source="test", attempts=attempts)
    trend = only(history)
    assert (trend["state"], trend["flaky_runs"], trend["flaky_rate"]) == ("passing", 1, 0.5)
    assert history.timeline("n000.s0")[0]["points"][1]["attempts"] == ["fail", "pass"]


def test_gpus_have_trends_of_their_own_but_their_drivers_have_not(history: History, suite: Suite) -> None:
    """Or a database that several machines share would call every difference between them flaky."""

    def on(vendor: str, description: str) -> list[dict[str, Any]]:
        adapter = {"vendor": vendor, "architecture": "", "device": "", "description": description}
        return [device(adapter=adapter)]

    story = [
        ("apple", "M2", "pass"),
        ("google", "driver 5", "fail"),
        ("apple", "M2", "pass"),
        ("google", "driver 6", "fail"),
    ]
    for day, (vendor, description, verdict) in enumerate(story):
        run = document(suite, day, [result(verdict=verdict)], devices=on(vendor, description))
        history.record(run, source="validate")
    found = history.trends()["trends"]
    assert [(t["gpu"], t["state"], t["runs"], t["flaky_runs"]) for t in found] == [
        ("driver 6", "failing", 2, 0),
        ("M2", "passing", 2, 0),
    ]


def test_what_needs_a_look_comes_first(history: History, suite: Suite) -> None:
    stories = {
        "n000.s0": ("pass", "pass", "pass", "pass"),
        "n001.s0": ("pass", "fail", "pass", "pass"),
        "n002.s0": ("fail", "fail", "fail", "fail"),
        "n003.s0": ("pass", "pass", "pass", "fail"),
        "n004.s0": ("pass", "pass", "fail", "fail"),
        "n005.s0": ("unsupported",) * 4,
    }
    for day in range(4):
        tests = [result(name, verdicts[day]) for name, verdicts in stories.items()]
        history.record(document(suite, day, tests), source="validate")
    order = [trend["test"] for trend in history.trends()["trends"]]
    assert order == ["n003.s0", "n004.s0", "n002.s0", "n001.s0", "n000.s0", "n005.s0"]


def test_of_years_of_runs_the_last_ones_are_shown(suite: Suite, history: History) -> None:
    tests = [result(f"n{number:03}.s0") for number in range(10)]
    unnamed = dict.fromkeys(("vendor", "architecture", "device", "description"), "")
    devices = [device(), device("Firefox 140", adapter=unnamed)]
    history.record(document(suite, 0, tests, devices=devices), source="validate")
    with history.database.writing() as connection:
        (first,) = connection.execute(sql.select(schema.runs)).mappings()
        two = connection.execute(sql.select(schema.devices).order_by(schema.devices.c.id)).mappings().all()
        rows = connection.execute(sql.select(schema.results)).mappings().all()
        for day in range(1, 520):
            at = first["at"] + 86_400_000 * day
            connection.execute(sql.insert(schema.runs), {**first, "id": 1 + day, "uuid": f"run {day}", "at": at})
            again = [{**row, "id": row["id"] + 2 * day, "run": 1 + day} for row in two]
            connection.execute(sql.insert(schema.devices), again)
            many = [{**row, "device": row["device"] + 2 * day, "at": at} for row in rows]
            connection.execute(sql.insert(schema.results), many)
    found = history.trends()
    assert found["runs"] == 520
    assert len(found["trends"]) == 20
    line, _ = history.timeline("n005.s0")
    assert len(line["points"]) == 500
    assert [line["points"][at]["run"] for at in (0, -1)] == ["run 20", "run 519"]
    assert line["trend"]["runs"] == 500, "of the runs that are shown"
