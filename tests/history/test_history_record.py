"""Runs get into the history once, whole, and whatever they say."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
from history_documents import WORST, device, document, result
from recording_process import record_runs

from helpers import FakeRunner, verdict
from made_runs import answering, failing
from tapml.ci.places import device_here
from tapml.ci.plan import plan
from tapml.ci.run import CiRun
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError
from tapml.history import History, Recorder, open_history
from tapml.history.store import family
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.journal import Journal
from tapml.validation.operatorwise import OperatorRun, recover


def test_nothing_recorded_is_an_empty_history(history: History) -> None:
    assert history.trends() == {"runs": 0, "trends": []}
    assert history.timeline("n000.s0") == []
    if history.database.path is not None:
        assert not history.database.path.exists(), "asking makes no file"


def test_a_run_is_there_with_all_that_is_asked_for(history: History, suite: Suite) -> None:
    devices = [device(), device("Firefox 140.3esr")]
    bad = result("n001.s0", "fail", kernel="matmul", message="3 of 96 elements differ")
    attempts = {(entry["id"], "n001.s0"): ["fail", "fail"] for entry in devices}
    run = document(suite, 0, [result(), bad], devices=devices)
    assert history.record(run, source="test", attempts=attempts) == 4
    found = history.trends()
    assert found["runs"] == 1
    assert [(t["test"], t["device"], t["state"]) for t in found["trends"]] == [
        ("n001.s0", "Chromium", "failing"),
        ("n001.s0", "Firefox", "failing"),
        ("n000.s0", "Chromium", "passing"),
        ("n000.s0", "Firefox", "passing"),
    ]
    chromium, firefox = history.timeline("n001.s0")
    assert (chromium["device"], chromium["gpu"]) == ("Chromium", "SwiftShader 5.0")
    (point,) = chromium["points"]
    assert point | {"at": 0} == {
        "run": "run 0", "at": 0, "created": "2026-03-01T12:00:00+00:00", "device": "Chromium 150", "verdict": "fail",
        "flaky": False, "attempts": ["fail", "fail"], "bound_share": 2.0, "max_abs_error": 1e-7, "max_ulp": 2.0,
        "mismatched": 3, "total": 96, "variant": "256", "message": "3 of 96 elements differ", "seconds": 0.002,
        "gpu_seconds": 0.001, "kernel_digest": "aaaa", "kernel_changed": False, "device_changed": False,
    }  # fmt: skip
    assert firefox["points"][0]["device"] == "Firefox 140.3esr"
    assert [t["test"] for t in history.trends(kernel="softmax")["trends"]] == ["n000.s0", "n000.s0"]


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"worst": {**WORST, "got": "NaN"}}, "Infinity"),
        ({"worst": {**WORST, "bound": None}, "tolerances": [{"absolute": 0.25, "relative": 0.75}]}, 0.5),
        ({"worst": {**WORST, "bound": "Infinity"}}, None),
        ({"worst": None, "max_abs_error": None}, None),
        ({"worst": None, "max_abs_error": 0.0}, 0.0),
    ],
)
def test_the_share_of_the_bound_is_kept(history: History, suite: Suite, changes: Any, share: Any) -> None:
    history.record(document(suite, 0, [result(**changes)]), source="test")
    (device,) = history.timeline("n000.s0")
    assert device["points"][0]["bound_share"] == share
    (side,) = history.sides()
    assert history.outcomes(side)[1]["n000.s0"][1]["bound_share"] == share


def test_recording_twice_does_nothing(history: History, suite: Suite) -> None:
    run = document(suite, 0, [result()])
    assert history.record(run, source="validate") == 1
    assert history.record(run, source="validate") == 0
    old = {**document(suite, 1, [result()]), "run": None, "kernel_digests": {}}
    assert [history.record(old, source="validate") for _ in range(2)] == [1, 0]
    assert history.trends()["runs"] == 2


def test_devices_of_a_run_may_come_one_by_one(history: History, suite: Suite) -> None:
    """As they do when a killed process is recovered from."""
    for name in ("Chromium 150", "Firefox 140"):
        assert history.record(document(suite, 0, [result()], devices=[device(name)]), source="validate") == 1
    assert history.trends()["runs"] == 1
    assert [entry["device"] for entry in history.timeline("n000.s0")] == ["Chromium", "Firefox"]


def test_suites_share_a_database_and_see_their_own_runs(history: History, suite: Suite) -> None:
    history.record(document(suite, 0, [result()]), source="validate")
    history.record({**document(suite, 1, [result(verdict="fail")]), "suite": "another"}, source="validate")
    assert history.trends()["runs"] == 1
    assert history.trends()["trends"][0]["state"] == "passing"


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE tapml_results; --",
        '"; DELETE FROM tapml_runs WHERE ""=""',
        "100% %s %(x)s :name \\ $1",
        "\0 NUL and half a pair \ud800",
        "<script>alert(1)</script>",
        "long " * 10_000,
    ],
)
def test_words_of_strangers_are_only_words(history: History, suite: Suite, text: str) -> None:
    run = document(suite, 0, [result(message=text, kernel=text, variant=text)], devices=[device(name=text, id=text)])
    assert history.record(run, source="validate") == 1
    (entry,) = history.timeline("n000.s0")
    shown = entry["points"][0]["message"]
    assert shown == text[:2000].replace("\0", "\ufffd").replace("\ud800", "?")
    assert history.trends()["runs"] == 1
    assert history.timeline(text) == []
    assert history.trends(kernel=text) == history.trends()


def test_numbers_that_are_none_are_left_out(history: History, suite: Suite) -> None:
    odd = result(verdict="fail", max_abs_error=None, max_ulp=None, max_rel_error=None, seconds={}, total=2**40)
    history.record(document(suite, 0, [odd]), source="validate")
    (entry,) = history.timeline("n000.s0")
    point = entry["points"][0]
    assert (point["max_abs_error"], point["max_ulp"], point["seconds"]) == (None, None, None)
    assert point["total"] == 2**40
    assert entry["trend"]["seconds"] == {"median": None, "last": None}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Chromium 156", "Chromium"),
        ("Firefox 140.3.0esr", "Firefox"),
        ("node-dawn 0.6.2", "node-dawn"),
        ("Safari 26.1", "Safari"),
        ("Deno v2.9.6", "Deno"),
        ("WebKit (GTK) 2.50-beta1", "WebKit (GTK)"),
        ("my laptop", "my laptop"),
        ("", ""),
    ],
)
def test_a_family_is_a_name_without_its_version(name: str, expected: str) -> None:
    assert family(name) == expected


def test_processes_that_record_at_once_lose_nothing(suite: Suite, url: str) -> None:
    """They also make the tables at once."""
    context = multiprocessing.get_context("spawn")
    processes, runs = 3, 10
    start = context.Barrier(processes)
    started = [
        context.Process(target=record_runs, args=(suite.path, url, number * runs, runs, start))
        for number in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0] * processes
    history = open_history(suite, url)
    assert history.trends()["runs"] == processes * runs
    for test in ("n000.s0", "n001.s0"):
        (entry,) = history.timeline(test)
        assert [point["run"] for point in entry["points"]] == [f"run {day}" for day in range(processes * runs)]


def test_a_transaction_that_breaks_leaves_nothing(history: History, suite: Suite) -> None:
    history.record(document(suite, 0, [result()]), source="validate")
    broken = document(suite, 1, [result(), result("n001.s0", total=2**200)])
    with pytest.raises(InputError, match="cannot be written"):
        history.record(broken, source="validate")
    assert history.trends()["runs"] == 1
    assert len(history.timeline("n000.s0")[0]["points"]) == 1


# ------------------------------------------------------------ from real runs


def _all_pass(call: dict[str, Any], runner: FakeRunner) -> None:
    for test in call["params"]["tests"]:
        runner.progress(call, verdict(test))
    runner.finish(call)


def _validate(suite: Suite, url: str | None, **options: Any) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []

    def emit(event: dict[str, Any]) -> None:
        if event["type"] == "message":
            warnings.append(event["text"])

    runner = FakeRunner(DeviceHub(), _all_pass, "Fake 1")
    run = OperatorRun(
        JobContext(suite, [runner.device], Blobs(), emit=emit), save=True, history=Recorder(url, "validate"), **options
    )
    return run.run(), warnings


def test_a_validation_records_what_ran_and_with_which_kernel(suite: Suite, url: str) -> None:
    _validate(suite, url)
    kernel = suite.kernels[0]
    wgsl = suite.path / "kernels" / f"{kernel}.wgsl"
    wgsl.write_text(wgsl.read_text() + "// changed\n")
    document, warnings = _validate(suite, url, kernels=[kernel])
    assert warnings == []
    history = open_history(suite, url)
    assert history.trends()["runs"] == 2
    by_kernel = {trend["kernel"]: trend for trend in history.trends()["trends"]}
    assert set(by_kernel) == set(suite.kernels)
    assert {name: trend["runs"] for name, trend in by_kernel.items()} == {
        name: 2 if name == kernel else 1 for name in suite.kernels
    }
    test = next(test for test in suite.tests if test.kernel == kernel)
    assert [point["kernel_changed"] for point in history.timeline(test.id)[0]["points"]] == [False, True]
    assert history.record(document, source="validate") == 0, "the run itself has recorded it"


def test_without_a_database_a_suite_keeps_its_own(suite: Suite) -> None:
    _validate(suite, None)
    assert (suite.path / "results" / "history.sqlite3").is_file()
    assert open_history(suite).trends()["runs"] == 1
    assert [path.name for path in (suite.path / "results").glob("history*")] == ["history.sqlite3"], "no log is left"


def test_retries_are_one_flaky_result_of_one_run(suite: Suite, url: str) -> None:
    unlucky = suite.tests[0]

    def verdicts(kernel: str, test: str, attempt: int) -> dict[str, Any]:
        return failing() if test == unlucky.id and attempt == 1 else {}

    place = device_here("chromium", answering(DeviceHub(), "Chromium 150", verdicts).device, Blobs())
    CiRun(plan([suite.path]), [place], retries=2, history=Recorder(url, "test")).run()
    history = open_history(suite, url)
    found = history.trends()
    assert found["runs"] == 1
    assert {trend["test"] for trend in found["trends"]} == {test.id for test in suite.tests}
    assert [trend["test"] for trend in found["trends"] if trend["flaky_runs"]] == [unlucky.id]
    (point,) = history.timeline(unlucky.id)[0]["points"]
    assert (point["verdict"], point["attempts"]) == ("pass", ["fail", "pass"])
    (other,) = history.timeline(suite.tests[1].id)[0]["points"]
    assert other["attempts"] == []


def test_verdicts_outlive_a_broken_history(suite: Suite) -> None:
    (suite.path / "results").mkdir(exist_ok=True)
    (suite.path / "results" / "history.sqlite3").write_bytes(b"nothing that SQLite has written " * 100)
    document, warnings = _validate(suite, None)
    assert document["summary"]["pass"] == len(suite.tests)
    assert len(suite.results("validation")) == 1
    (warning,) = warnings
    assert "this run is not in the history" in warning
    assert "is damaged" in warning
    assert "history.sqlite3" in warning


def test_verdicts_outlive_a_folder_that_cannot_be_written(suite: Suite) -> None:
    results = suite.path / "results"
    if results.exists():
        results.rmdir()
    results.write_text("a file where the folder should be")
    document, warnings = _validate(suite, None)
    assert document["summary"]["pass"] == len(suite.tests)
    assert len(warnings) == 2
    assert "the results cannot be kept in" in warnings[0]
    assert "this run is not in the history" in warnings[1]


def test_what_a_killed_process_had_validated_is_recorded(suite: Suite, url: str, monkeypatch: Any) -> None:
    document, _ = _validate(suite, None)
    begin = {**document, "run": "killed", "tests": [], "interrupted": True}
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)  # no process has this number
    with contextlib.suppress(KeyboardInterrupt), Journal(suite, "Fake 1", begin) as journal:
        for found in document["tests"][:2]:
            journal.write(found)
        raise KeyboardInterrupt
    assert recover(suite, Recorder(url, "validate")) == []
    trends = open_history(suite, url).trends()["trends"]
    tests = {found["id"] for found in document["tests"][:2]}
    assert tests <= {trend["test"] for trend in trends if trend["last"]["run"] == "killed"}
    assert list((suite.path / "results" / "running").glob("*.jsonl")) == []


def test_a_document_in_tables_of_another_hand_is_no_pass(
    history: History, suite: Suite, execute: Callable[[str], None]
) -> None:
    """A suite comes with its history, and its author may have written anything there."""
    history.record(document(suite, 0, [result()]), source="validate")
    execute("UPDATE tapml_results SET verdict = 'excellent'")
    (trend,) = history.trends()["trends"]
    assert trend["state"] == "failing"


def test_a_suite_that_is_read_only_shows_its_history(suite: Suite, monkeypatch: Any) -> None:
    history = open_history(suite)
    history.record(document(suite, 0, [result()]), source="validate")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert history.trends()["runs"] == 1
    path = history.database.path
    assert path is not None
    assert [found.name for found in path.parent.glob("history*")] == ["history.sqlite3"]
