"""Two runs beside each other."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from helpers import FakeRunner, all_pass, verdict
from tapml.cli.main import main
from tapml.devices import Blobs, DeviceHub
from tapml.history import Recorder
from tapml.reports.comparison import show_comparison
from tapml.results.comparison import ComparedOutcome, RunSide, compared
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun


def outcome(
    said: Any, digest: str = "d", error: float | None = 0.0, gpu: float | None = None, share: Any = None
) -> ComparedOutcome:
    return {
        "verdict": said, "kernel_digest": digest, "bound_share": share, "max_abs_error": error, "seconds": 1.0,
        "gpu_seconds": gpu,
    }  # fmt: skip


def side(name: str) -> RunSide:
    return {"run": name, "device": "One 1", "adapter": "", "created": "2026-11-23T20:00:00+00:00", "tests": 0}


def test_changes_are_told_worst_first() -> None:
    before = {
        "a": ("k", outcome("pass", gpu=1.0)), "b": ("k", outcome("fail", gpu=2.0)), "c": ("l", outcome("pass")),
        "d": ("m", outcome("fail")), "gone": ("m", outcome("pass")),
    }  # fmt: skip
    after = {
        "new": ("m", outcome("pass")), "a": ("k", outcome("error", "e", gpu=3.0)), "b": ("k", outcome("pass", "e")),
        "c": ("l", outcome("pass", "")), "d": ("m", outcome("unbounded")),
    }  # fmt: skip
    found = compared((side("x"), before), (side("y"), after))
    changes = [(test["test"], test["change"]) for test in found["tests"]]
    assert changes == [
        ("a", "worse"), ("b", "better"), ("d", "other"), ("new", "added"), ("gone", "removed"), ("c", "same"),
    ]  # fmt: skip
    # Of an unknown digest nothing is said.
    assert found["summary"]["kernels_changed"] == ["k"]
    # The GPU's time is of "a" alone: nobody knows it of the others.
    assert (found["summary"]["seconds"], found["summary"]["gpu"]) == ([1.0, 3.0], True)


def test_errors_are_held_against_the_bound_where_both_runs_tell_it() -> None:
    """An element that is more wrong is another one than the one with the largest error."""
    before = {
        "a": ("grew", outcome("fail", error=1.0, share=2.0)), "b": ("grew", outcome("pass", share=0.5)),
        "c": ("same", outcome("fail", error=1.0, share=2.0)), "d": ("old", outcome("pass", error=1.0)),
        "e": ("endless", outcome("fail", share="Infinity")),
    }  # fmt: skip
    after = {
        "a": ("grew", outcome("fail", error=1.0, share=354.1)), "b": ("grew", outcome("pass", share=0.5)),
        "c": ("same", outcome("fail", error=9.0, share=3.0)), "d": ("old", outcome("pass", error=3.0, share=1.0)),
        "e": ("endless", outcome("fail", share="Infinity")),
    }  # fmt: skip
    shown = Console(file=io.StringIO(), width=200)
    show_comparison(shown, compared((side("x"), before), (side("y"), after)))
    rows = [line.split() for line in shown.file.getvalue().splitlines() if " → " in line]  # type: ignore[attr-defined]
    assert [row[0] for row in rows] == ["grew", "old"]
    assert " ".join(rows[0]).endswith("2 × → 354 × 1.00e+00 → 1.00e+00 - → -")
    assert " ".join(rows[1]).endswith("- → 100 % 1.00e+00 → 3.00e+00 - → -")


def fails_first(message: dict[str, Any], runner: FakeRunner) -> None:
    first, *rest = message["params"]["tests"]
    runner.progress(message, {**verdict(first), "verdict": "fail", "message": "wrong"})
    for test in rest:
        runner.verdict(message, test)
    runner.finish(message)


@pytest.fixture
def runs(suite: Suite, tmp_path: Path) -> Path:
    """A suite with three runs: One 1 passes, Two 1 passes, One 2 fails in one test, its kernel edited."""
    path = tmp_path / "copy.suite"
    shutil.copytree(suite.path, path)
    hub = DeviceHub()
    for name, answer in (("One 1", all_pass), ("Two 1", all_pass), ("One 2", fails_first)):
        if name == "One 2":
            kernel = path / "kernels" / f"{suite.tests[0].kernel}.wgsl"
            kernel.write_text(kernel.read_text() + "// mine\n")
        device = FakeRunner(hub, answer, name).device
        OperatorRun(JobContext(Suite(path), [device], Blobs()), history=Recorder(None, "validate")).run()
    return path


def test_the_last_run_is_held_against_the_one_before_on_its_device(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = runs.parent / "found.json"
    assert main(["compare", str(runs), "--json", str(file)]) == 1
    found = json.loads(file.read_text())
    assert (found["before"]["device"], found["after"]["device"]) == ("One 1", "One 2")
    assert found["format"] == "tapml.compare/1"
    assert found["summary"]["worse"] == 1
    first = Suite(runs).tests[0]
    assert found["summary"]["kernels_changed"] == [first.kernel]
    assert found["tests"][0]["test"] == first.id
    out = capsys.readouterr().out
    assert f"{first.kernel} (other WGSL)" in out
    assert "1 worse" in out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--device", "two", "--device", "one"], 1, "1 worse"),
        (["--device", "One", "--device", "Two"], 0, "1 better"),
        (["--before", "1", "--after", "3"], 0, "1 better"),
        (["--list"], 0, "One 2"),
        (["--device", "two"], 2, "there is no run on Two 1 before that of"),
        (["--device", "three"], 2, "no run on 'three': there are runs on One, Two"),
        (["--device", "Onee"], 2, "did you mean One?"),
        (["--before", "9"], 2, "there is no run 9: `--list` numbers 3"),
        (["--before", "zzzz"], 2, "no run is called 'zzzz'"),
    ],
)
def test_runs_are_chosen_by_device_and_number(
    runs: Path, options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs), *options]) == code
    read = capsys.readouterr()
    assert said in read.out + read.err


def test_numbers_of_runs_belong_to_options(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in (["1", "9"], ["1"]):
        assert main(["compare", str(runs), *more]) == 2
        assert "--before and --after choose among a suite's runs" in " ".join(capsys.readouterr().err.split())


def test_of_two_tabs_each_is_a_run_of_its_own(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = DeviceHub()
    for answers in ((all_pass, all_pass), (all_pass, fails_first)):
        tabs = [FakeRunner(hub, answer, "Three 1").device for answer in answers]
        OperatorRun(JobContext(Suite(runs), tabs, Blobs()), history=Recorder(None, "validate")).run()
        for tab in tabs:
            tab.leave("closed")
    assert main(["compare", str(runs), "--list"]) == 0
    listed = capsys.readouterr().out
    assert listed.count("Three 1 (2)") == 2
    for options, code in (([], 0), (["--before", "4", "--after", "2"], 1), (["--device", "Three 1 (2)"], 1)):
        assert main(["compare", str(runs), *options]) == code, options


def test_the_runs_of_a_suite_are_a_document(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--list", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "tapml.runs/1"
    assert sorted(side["device"] for side in document["runs"]) == ["One 1", "One 2", "Two 1"]


def test_two_files_are_compared(suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, answer in (("a", all_pass), ("b", fails_first)):
        document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), answer).device], Blobs())).run()
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 1
    assert "1 worse" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "b.json")]) == 2
    assert "is of one device" in capsys.readouterr().err
    (tmp_path / "c.json").write_text("{}")
    assert main(["compare", str(tmp_path / "c.json"), str(tmp_path / "b.json")]) == 2
    assert "c.json is no validation" in capsys.readouterr().err
