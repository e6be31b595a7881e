"""Devices that W3C WebDriver drives, as Safari is: a whole run, an honest refusal, a death in the middle."""

from __future__ import annotations

import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conftest import command, read_json, serving, tapml
from faults import SEVERAL, Run, until
from process_watch import processes_named
from tapml.server import Server


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a driver, browser or display, whoever started it."""
    mark = uuid.uuid4().hex  # all of them inherit it, and no one else's browser has it
    monkeypatch.setenv("TAPML_TEST_MARK", mark)
    yield
    until(lambda: not [p for p in psutil.process_iter() if _has(p, mark)], "the end of all that was started")


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get("TAPML_TEST_MARK") == mark
    except psutil.Error:
        return False


def test_carved_tests_pass_through_chromedriver(suite: Path, tmp_path: Path) -> None:
    """Those of three kernels: that all pass in Chromium is test_validate.py's."""
    out = tmp_path / "result.json"
    kernels = ("layer_norm", "softmax", "take")
    wanted = [word for name in kernels for word in ("--kernel", name)]
    ran = tapml("validate", suite, "--device", "chromedriver", *wanted, "--json", out)
    assert ran.code == 0, ran.out + ran.err
    document = read_json(out)
    expected = {test["id"] for test in read_json(suite / "tests.json")["tests"] if test["kernel"] in kernels}
    assert len(expected) > 18
    assert {test["id"] for test in document["tests"]} == expected
    assert {test["verdict"] for test in document["tests"]} == {"pass"}
    (device,) = document["devices"]
    assert "Chrom" in device["name"]


def test_a_browser_without_webgpu_says_so(suite: Path) -> None:
    ran = tapml("validate", suite, "--device", "webkitgtk")
    assert ran.code == 2
    said = " ".join((ran.out + ran.err).split())
    assert "WebKitGTK cannot run kernels: WebKitGTK has no WebGPU" in said
    assert "Safari 26" in said


@pytest.mark.parametrize("killed", ["chromedriver", "chromium"])
def test_a_death_in_mid_run_is_reported_and_the_next_run_works(killed: str, suite: Path) -> None:
    with Server() as server:
        device = server.state.device("chromedriver")
        driver = processes_named("chromedriver")[0]
        # Of its own browser: other tests' Chromium may live on.
        victim = driver if killed == "chromedriver" else processes_named(killed, driver)[0]
        guard = driver.parent()
        assert guard is not None

        def kill() -> None:
            # Where much runs, a driver's guard ends the browser at once and tells of it late.
            late = victim == driver
            if late:
                guard.suspend()
                threading.Timer(3, guard.resume).start()
            for process in [victim, *(processes_named("chromium", driver) if late else [])]:
                process.kill()

        results = Run(server, suite, device, SEVERAL, at_first_verdict=kill).finish(60)
        lost = [test for test in results.values() if test["verdict"] != "pass"]
        assert lost
        assert len(lost) < len(results)
        reason = {
            "chromedriver": "chromedriver, which drives Chromium, ended unexpectedly (exit code 137)",
            "chromium": "Chromium ended unexpectedly",
        }[killed]
        assert {test["verdict"] for test in lost} == {"error"}
        assert [test["message"] for test in lost if reason not in test["message"]] == []
        again = Run(server, suite, server.state.device("chromedriver"), ["softmax"]).finish()
        assert {test["verdict"] for test in again.values()} == {"pass"}


@pytest.mark.slow
def test_one_more_device_for_a_running_server(suite: Path, tmp_path: Path) -> None:
    with serving(suite) as url:
        joins = command("device", "chromedriver", "--server", url)
        with subprocess.Popen(joins, stdout=subprocess.PIPE, text=True) as attached:
            try:
                assert attached.stdout is not None
                assert "is a device of" in attached.stdout.readline()
                out = tmp_path / "result.json"
                ran = tapml("validate", suite, "--device", url, "--kernel", "softmax", "--json", out)
                assert ran.code == 0, ran.err
                assert {test["verdict"] for test in read_json(out)["tests"]} == {"pass"}
            finally:
                attached.terminate()
                assert attached.wait(60) == 0
