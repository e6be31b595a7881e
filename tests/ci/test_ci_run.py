"""`tapml test` with devices that answer as the test says: retries, baselines, shards, exit codes, reports."""

from __future__ import annotations

import datetime
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers import FakeRunner
from made_runs import FakeServer, Verdicts, answering, erring, failing
from tapml.cli import main
from tapml.devices import DeviceHub
from tapml.errors import ToolchainError
from tapml.history import open_history
from tapml.suite import Suite
from tapml.validation.events import Cancel

Run = Callable[..., tuple[int, dict[str, Any]]]

PNG = b"\x89PNG\r\n\x1a\n"


class Bench:
    """The command with fake devices; `verdicts` may be changed between runs."""

    def __init__(self, suite: Suite, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.suite = suite
        self.verdicts: dict[str, Verdicts] = {}
        self.hello: dict[str, dict[str, Any]] = {}
        self.cannot_start: dict[str, str] = {}
        self.runners: dict[str, FakeRunner] = {}
        self.folder = folder
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str | Path, suites: tuple[Path, ...] = ()) -> tuple[int, dict[str, Any]]:
        """Exit code and document; every device runs anew."""
        self.runners = {}
        hub = DeviceHub()
        for name in ("chromium", "firefox"):
            verdicts = self.verdicts.get(name, fails())
            self.runners[name] = answering(hub, f"{name} 1", verdicts, **self.hello.get(name, {}))
        server = FakeServer(self.runners, {"chromium": PNG, "firefox": None})
        started = server.state.device

        def device(name: str, *rest: Any) -> Any:
            if name in self.cannot_start:
                raise ToolchainError(self.cannot_start[name])
            return started(name, *rest)

        server.state.device = device
        self._monkeypatch.setattr("tapml.cli.test_command.served", server.serve)
        out = self.folder / "run.json"
        out.unlink(missing_ok=True)
        paths = suites or (self.suite.path,)
        code = main(["test", *map(str, paths), "--json", str(out), *map(str, arguments)])
        return code, json.loads(out.read_text()) if out.exists() else {}

    def tested(self, name: str) -> list[str]:
        """Ids in the order in which the device was asked for them."""
        return [test["id"] for call in self.runners[name].calls for test in call["params"]["tests"]]


@pytest.fixture
def bench(suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return Bench(suite, monkeypatch, tmp_path)


def fails(*kernels: str, until: int = 99, **changes: Any) -> Verdicts:
    """These kernels' tests fail, in their first attempts until `until`."""

    def verdicts(kernel: str, test: str, attempt: int) -> Mapping[str, Any]:
        return failing(**changes) if kernel in kernels and attempt <= until else {}

    return verdicts


def of_kernel(suite: Suite, kernel: str) -> list[str]:
    return [test.id for test in suite.tests if test.kernel == kernel]


def test_all_tests_on_all_devices_and_exit_0(bench: Bench) -> None:
    code, found = bench("--device", "chromium", "--device", "firefox")
    assert code == 0
    assert found["format"] == "tapml.test/1"
    assert [device["requested"] for device in found["devices"]] == ["chromium", "firefox"]
    (suite,) = found["suites"]
    assert suite["tests"] == len(bench.suite.tests)
    pairs = {(test["suite"], test["device"], test["id"]) for test in found["tests"]}
    assert len(pairs) == found["summary"]["total"] == found["summary"]["pass"] == 2 * len(bench.suite.tests)
    assert {test["outcome"] for test in found["tests"]} == {"pass"}
    assert len(bench.suite.results("validation")) == 2, "kept in the suite as `tapml validate` does"


def test_several_suites_are_one_run(bench: Bench, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "other.suite"
    shutil.copytree(bench.suite.path, other)
    code, found = bench(suites=(bench.suite.path, other))
    assert code == 0
    assert [suite["id"] for suite in found["suites"]] == ["small", "small-2"]
    assert found["summary"]["total"] == 2 * len(bench.suite.tests)
    code, _ = bench("--baseline", "b.json", "--update-baseline", suites=(bench.suite.path, other))
    assert code == 2, "a baseline goes by names"


def test_what_fails_runs_again_and_keeps_failing(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    bench.verdicts["chromium"] = fails(kernel)
    code, found = bench("--retries", "2")
    assert code == 1
    bad = of_kernel(bench.suite, kernel)
    assert bench.tested("chromium") == [test.id for test in bench.suite.tests] + bad + bad
    for test in found["tests"]:
        assert test["attempts"] == (["fail"] * 3 if test["id"] in bad else ["pass"])
        assert test["fails_run"] == (test["id"] in bad)
        assert not test["flaky"]
    assert found["summary"]["failing_kernels"] == [kernel]


def test_a_flaky_test_does_not_fail_the_run_unless_asked(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    bench.verdicts["chromium"] = fails(kernel, until=1)
    code, found = bench("--retries", "3")
    assert code == 0
    flaky = [test for test in found["tests"] if test["flaky"]]
    assert [test["id"] for test in flaky] == of_kernel(bench.suite, kernel)
    assert flaky[0]["attempts"] == ["fail", "pass"]
    assert flaky[0]["earlier"][0]["message"] == "7 of 96 elements differ"
    assert flaky[0]["earlier"][0]["first"]["got"] == "NaN"
    code, _ = bench("--retries", "3", "--fail-on-flaky")
    assert code == 1
    code, found = bench()
    assert code == 1
    assert found["summary"]["flaky"] == 0


def test_retries_are_of_one_device_only(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    bench.verdicts["firefox"] = fails(kernel)
    bench("--device", "chromium", "--device", "firefox", "--retries", "1")
    assert bench.tested("chromium") == [test.id for test in bench.suite.tests]
    assert bench.tested("firefox") == [test.id for test in bench.suite.tests] + of_kernel(bench.suite, kernel)


def test_shards_are_disjoint_and_together_everything(bench: Bench) -> None:
    seen: list[str] = []
    for index in (1, 2, 3):
        code, found = bench("--shard", f"{index}/3")
        assert code == 0
        assert found["shard"] == f"{index}/3"
        assert len(found["tests"]) > 0
        kernels = {test["kernel"] for test in found["tests"]}
        sent = {kernel["kernel"] for call in bench.runners["chromium"].calls for kernel in call["params"]["kernels"]}
        assert sent == kernels, "only what this shard tests is compiled"
        seen += [test["id"] for test in found["tests"]]
    assert sorted(seen) == sorted(test.id for test in bench.suite.tests)


def test_more_shards_than_tests_leave_some_empty_and_good(bench: Bench) -> None:
    code, found = bench("--shard", "1/999", "--junit", bench.folder / "j.xml", "--html", bench.folder / "r.html")
    assert code == 0
    assert found["tests"] == []


def test_a_baseline_from_recording_to_fixed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = bench.suite.kernels[:2]
    baseline = bench.folder / "baseline.json"
    use = ("--baseline", baseline)
    bench.verdicts["chromium"] = fails(first)
    assert bench(*use)[0] == 2, "there is none yet"
    code, _ = bench(*use, "--update-baseline")
    assert code == 0
    entries = json.loads(baseline.read_text())["expected"]
    assert [entry["test"] for entry in entries] == of_kernel(bench.suite, first)
    today = datetime.date.today()
    assert {entry["expires"] for entry in entries} == {(today + datetime.timedelta(90)).isoformat()}
    assert today.isoformat() in entries[0]["reason"]

    code, found = bench(*use, "--retries", "2")
    assert code == 0
    assert found["summary"]["expected"] == len(entries)
    assert bench.tested("chromium") == [test.id for test in bench.suite.tests], "an expected failure is no retry"

    # Worse: another kernel, then an error instead of a fail.
    bench.verdicts["chromium"] = fails(first, second)
    code, found = bench(*use)
    assert code == 1
    assert {test["kernel"] for test in found["tests"] if test["fails_run"]} == {second}
    bench.verdicts["chromium"] = lambda kernel, test, attempt: erring() if kernel == first else {}
    code, found = bench(*use)
    assert code == 1
    assert {test["outcome"] for test in found["tests"] if test["kernel"] == first} == {"error"}

    # People write reasons; an update keeps those that still hold, and what this run was not about.
    document = json.loads(baseline.read_text())
    document["expected"][0].update(reason="issue 77", expires=None)
    elsewhere = {**document["expected"][0], "device": "firefox", "reason": "of another device"}
    gone = {**document["expected"][0], "test": "n999.s0", "reason": "carved again since"}
    document["expected"] += [elsewhere, gone]
    baseline.write_text(json.dumps(document))
    bench.verdicts["chromium"] = fails(first, second)
    code, _ = bench(*use, "--update-baseline", "--reason", "new driver", "--expires", "never")
    assert code == 0
    entries = json.loads(baseline.read_text())["expected"]
    assert {entry["reason"] for entry in entries if entry["kernel"] == second} == {"new driver"}
    assert {entry["expires"] for entry in entries if entry["kernel"] == second} == {None}
    reasons = [entry["reason"] for entry in entries]
    assert "issue 77" in reasons
    assert "of another device" in reasons
    assert "carved again since" not in reasons

    # Everything passes: fixed, and an update drops it, of the shard that ran alone.
    bench.verdicts = {}
    capsys.readouterr()
    code, found = bench(*use)
    assert code == 0
    assert found["summary"]["fixed"] == len(of_kernel(bench.suite, first) + of_kernel(bench.suite, second))
    assert "--update-baseline" in capsys.readouterr().out
    bench(*use, "--update-baseline", "--kernel", first)
    left = {entry["kernel"] for entry in json.loads(baseline.read_text())["expected"] if entry["device"] == "chromium"}
    assert left == {second}


def test_an_expired_entry_fails_the_run_and_an_update_renews_it(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    baseline = bench.folder / "b.json"
    bench.verdicts["chromium"] = fails(kernel)
    past = bench("--baseline", baseline, "--update-baseline", "--expires", "2020-01-01")
    assert past[0] == 2, "it would excuse nothing"
    assert not baseline.exists()
    bench("--baseline", baseline, "--update-baseline", "--reason", "a driver")
    written = json.loads(baseline.read_text())
    for entry in written["expected"]:
        entry["expires"] = "2020-01-01"
    baseline.write_text(json.dumps(written))
    code, found = bench("--baseline", baseline)
    assert code == 1
    assert all(test["expected"]["expired"] for test in found["tests"] if test["fails_run"])
    bench("--baseline", baseline, "--update-baseline")
    code, _ = bench("--baseline", baseline)
    assert code == 0
    assert json.loads(baseline.read_text())["expected"][0]["reason"] == "a driver"


def test_a_device_without_webgpu_is_not_green_and_stops_nobody(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.hello["firefox"] = {"unavailable": "WebGPU is off: switch it on"}
    devices = ("--device", "chromium", "--device", "firefox")
    code, found = bench(*devices)
    assert code == 1
    assert found["devices"][1]["unavailable"] == "WebGPU is off: switch it on"
    missing = [test for test in found["tests"] if test["device"] == found["devices"][1]["id"]]
    assert len(missing) == len(bench.suite.tests)
    assert {(test["verdict"], test["fails_run"]) for test in missing} == {("unsupported", True)}
    assert "switch it on" in missing[0]["message"]
    assert capsys.readouterr().out.count("switch it on") == 1
    assert found["summary"]["pass"] == len(bench.suite.tests)
    baseline = bench.folder / "b.json"
    assert bench(*devices, "--baseline", baseline, "--update-baseline")[0] == 0
    assert bench(*devices, "--baseline", baseline)[0] == 0


def test_one_unsupported_test_does_not_fail_the_run(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    bench.verdicts["chromium"] = lambda name, test, attempt: (
        {"verdict": "unsupported", "message": "needs shader-f16", "outputs": []} if name == kernel else {}
    )
    code, found = bench("--junit", bench.folder / "j.xml")
    assert code == 0
    assert found["summary"]["unsupported"] > 0
    skipped = ET.parse(bench.folder / "j.xml").findall(".//skipped")
    assert {entry.get("message") for entry in skipped} == {"needs shader-f16"}


def test_a_device_that_cannot_be_started_is_not_green_and_stops_nobody(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very command of a Mac's workflow, on Linux."""
    bench.cannot_start = {"chromium": "Chromium was not found", "webkit": "WebKit was not found"}
    devices = ("--device", "chromium", "--device", "firefox", "--device", "webkit")
    reports = ("--junit", bench.folder / "j.xml", "--html", bench.folder / "r.html")
    code, found = bench(*devices, *reports)
    assert code == 1
    assert bench.tested("firefox") == [test.id for test in bench.suite.tests]
    problems = {device["requested"]: device["unavailable"] for device in found["devices"]}
    assert problems == {"chromium": "Chromium was not found", "firefox": None, "webkit": "WebKit was not found"}
    missing = [test for test in found["tests"] if test["device"] in ("chromium", "webkit")]
    assert len(missing) == 2 * len(bench.suite.tests)
    assert {(test["verdict"], test["fails_run"]) for test in missing} == {("unsupported", True)}
    assert "chromium cannot be started: Chromium was not found" in missing[0]["message"]
    out = capsys.readouterr().out
    assert out.count("WebKit was not found") == 1
    assert "WebKit was not found" in (bench.folder / "j.xml").read_text()
    assert (bench.folder / "r.html").exists()
    baseline = bench.folder / "b.json"
    assert bench(*devices, "--baseline", baseline, "--update-baseline")[0] == 0
    assert bench(*devices, "--baseline", baseline)[0] == 0, "where it is known and written down"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "netscape"], "--device netscape: give chromium, firefox"),
        (["--shard", "5/4"], "--shard 5/4: write it as I/N"),
        (["--update-baseline"], "--update-baseline writes the file that --baseline names"),
        (["--reason", "x"], "--reason and --expires are for"),
        (["--baseline", "b.json", "--update-baseline", "--expires", "soon"], "--expires soon"),
        (["--junit", "/"], "cannot write /: it is a folder"),
        (["--html", "/proc/no/r.html"], "cannot write /proc/no/r.html"),
        (["--kernel", "nothing"], "no suite has a kernel 'nothing'"),
        (["--retries", "-1"], "-1 is negative"),
    ],
)
def test_wrong_input_is_said_before_anything_starts(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(bench.folder)
    try:
        code, _ = bench(*arguments)
    except SystemExit as stop:  # argparse
        code = int(stop.code or 0)
    assert code == 2
    assert words in capsys.readouterr().err
    assert bench.tested("chromium") == []


def test_a_damaged_kernel_file_is_said_before_anything_starts(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = bench.suite.kernels[-1]
    (bench.suite.path / "kernels" / f"{kernel}.wgsl").unlink()
    assert bench()[0] == 2
    assert f"{kernel}.wgsl" in capsys.readouterr().err


def test_an_interrupted_run_writes_reports_and_leaves_the_baseline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.validation.operatorwise._TESTS_A_CALL", 2)
    cancels: list[Cancel] = []
    before = Cancel.__init__

    def remember(self: Cancel) -> None:
        before(self)
        cancels.append(self)

    monkeypatch.setattr(Cancel, "__init__", remember)

    def stop(kernel: str, test: str, attempt: int) -> Mapping[str, Any]:
        for cancel in cancels:
            cancel.set()
        return failing()

    bench.verdicts["chromium"] = stop
    baseline = bench.folder / "b.json"
    junit = bench.folder / "j.xml"
    code, found = bench("--junit", junit, "--retries", "1", "--baseline", baseline, "--update-baseline")
    assert code == 130
    assert found["interrupted"]
    assert found["summary"]["total"] == 2
    assert found["summary"]["not_run"] == len(bench.suite.tests) - 2
    assert len(ET.parse(junit).findall(".//testcase")) == 2
    assert not baseline.exists()


def test_all_reports_at_once_and_github(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = bench.suite.kernels[0]
    summary = bench.folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(bench.folder))
    hostile = "first line\n::error::forged\n::set-output name=x::y"
    bench.verdicts["chromium"] = lambda name, test, attempt: erring(hostile) if name == kernel else {}
    code, _ = bench("--junit", bench.folder / "j.xml", "--html", bench.folder / "r.html")
    assert code == 1
    out = capsys.readouterr().out
    lines = out.splitlines()
    found = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])
    assert found, lines[0]
    resumed = lines.index(f"::{found[1]}::")
    commands = [line for line in lines[resumed + 1 :] if line.startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith(f"::error file=small.suite/kernels/{kernel}.wgsl,")
    assert "%0A::error::forged" in commands[0]
    text = summary.read_text()
    assert text.startswith("before\n## ❌ tapml test")
    assert "::error::forged" not in text
    page = (bench.folder / "r.html").read_text()
    assert "forged" not in page
    texts = [entry.text or "" for entry in ET.parse(bench.folder / "j.xml").findall(".//error")]
    assert texts
    assert all("the GPU's own words" in text for text in texts)


def test_any_message_is_reported_and_kept(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes for terminals, NUL: what JSON can carry, a device can say; and an argument may be no UTF-8."""
    message = "\x1b[31m\x00 \u202e \U0001f600"
    bench.verdicts["chromium"] = lambda kernel, test, attempt: erring(message)
    reports = ("--junit", bench.folder / "j.xml", "--html", bench.folder / "r.html", "--annotations")
    code, found = bench(*reports, "--baseline", bench.folder / "b.json", "--update-baseline", "--reason", "caf\udce9")
    assert code == 0
    assert {test["message"] for test in found["tests"]} == {message}
    (kept,) = bench.suite.results("validation")
    assert {test["message"] for test in kept["tests"]} == {message}
    assert "\x1b" not in capsys.readouterr().out
    ET.parse(bench.folder / "j.xml")
    assert bench("--baseline", bench.folder / "b.json")[0] == 0


def test_a_run_is_in_the_history_with_its_attempts(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    bench.verdicts["chromium"] = fails(kernel, until=1)
    bench("--retries", "1")
    history = open_history(bench.suite)
    assert history.trends()["runs"] == 1
    (device,) = history.timeline(of_kernel(bench.suite, kernel)[0])
    (point,) = device["points"]
    assert point["flaky"]
    assert point["attempts"] == ["fail", "pass"]


def test_json_on_standard_output_is_all_there_is(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = bench("--annotations", "--json", "-")
    assert code == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["format"] == "tapml.test/1"
    assert "::stop-commands::" in err
