"""`pytest --tapml SUITE`, in pytest sessions of its own with devices that answer as the test says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Loaded before any session within the session, which forgets the modules that it loaded.
import tapml.ci.places
import tapml.cli.runs
import tapml.reports.evidence
import tapml.server
from helpers import FakeRunner
from made_runs import FakeServer, Verdicts, answering, erring, failing
from tapml.devices import DeviceHub
from tapml.errors import ToolchainError
from tapml.suite import Suite

pytest_plugins = ["pytester"]


class Bench:
    """pytest sessions in this process, with fake devices."""

    def __init__(self, pytester: pytest.Pytester, suite: Suite) -> None:
        self.pytester = pytester
        self.suite = suite
        self.runners: dict[str, FakeRunner] = {}
        self.servers: list[FakeServer] = []
        self.verdicts: Verdicts = lambda kernel, test, attempt: {}
        self.hello: dict[str, Any] = {}
        self.problem: str | None = None

    def server(self) -> FakeServer:
        hub = DeviceHub()
        self.runners = {
            name: answering(hub, f"{name} 1", self.verdicts, **self.hello) for name in ("chromium", "firefox")
        }
        server = FakeServer(self.runners)
        if self.problem:
            server.state.device = self._refuse
        self.servers.append(server)
        return server

    def _refuse(self, name: str, *rest: Any) -> Any:
        self.refused = getattr(self, "refused", 0) + 1
        raise ToolchainError(self.problem or "")

    def __call__(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("-p", "no:timeout", *arguments)

    def calls(self, name: str = "chromium") -> list[list[str]]:
        """The tests of each call to a device."""
        return [[test["id"] for test in call["params"]["tests"]] for call in self.runners[name].calls]


@pytest.fixture
def bench(pytester: pytest.Pytester, carved: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    shutil.copytree(carved, pytester.path / "x.suite")
    pytester.makepyfile(test_ordinary="def test_a(): pass\n")
    made = Bench(pytester, Suite(pytester.path / "x.suite"))
    monkeypatch.setattr(tapml.server, "Server", made.server)
    return made


def of_kernel(suite: Suite, kernel: str) -> list[str]:
    return [test.id for test in suite.tests if test.kernel == kernel]


def test_each_carved_test_is_an_item_and_each_kernel_a_batch(bench: Bench) -> None:
    result = bench("--tapml", "x.suite", "-v")
    result.assert_outcomes(passed=len(bench.suite.tests))
    result.stdout.fnmatch_lines([f"x.suite/suite.json::{bench.suite.tests[0].id}[[]chromium[]] PASSED*"])
    assert sorted(map(tuple, bench.calls())) == sorted(tuple(of_kernel(bench.suite, k)) for k in bench.suite.kernels)
    assert [server.stopped for server in bench.servers] == [True]


def test_devices_and_other_files(bench: Bench) -> None:
    result = bench("test_ordinary.py", "--tapml", "x.suite", "--tapml-device", "chromium", "--tapml-device", "firefox")
    result.assert_outcomes(passed=1 + 2 * len(bench.suite.tests))
    assert len(bench.calls("firefox")) == len(bench.suite.kernels)


def test_only_what_is_selected_runs(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    mine = of_kernel(bench.suite, kernel)
    result = bench("--tapml", "x.suite", "-k", f"{mine[0]} and chromium")
    result.assert_outcomes(passed=1, deselected=len(bench.suite.tests) - 1)
    assert bench.calls() == [[mine[0]]]
    result = bench("--tapml", "x.suite", f"x.suite/suite.json::{mine[0]}[chromium]")
    result.assert_outcomes(passed=1)
    named = sum(kernel in test.kernel for test in bench.suite.tests)
    bench("--tapml", "x.suite", "-k", kernel).assert_outcomes(passed=named, deselected=len(bench.suite.tests) - named)


def test_collecting_starts_nothing(bench: Bench) -> None:
    result = bench("--tapml", "x.suite", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*::{test.id}[[]chromium[]]" for test in bench.suite.tests])
    assert "test_ordinary" not in result.stdout.str()
    assert bench.servers == []


def test_failures_tell_all_that_is_known_and_run_again_alone(bench: Bench) -> None:
    first, second = bench.suite.kernels[:2]
    bench.verdicts = lambda kernel, test, attempt: (
        failing() if kernel == first else erring() if kernel == second else {}
    )
    bad = len(of_kernel(bench.suite, first) + of_kernel(bench.suite, second))
    result = bench("--tapml", "x.suite")
    result.assert_outcomes(failed=bad, passed=len(bench.suite.tests) - bad)
    text = result.stdout.str()
    for words in (
        f"fail: kernel {first}, node",
        "first: output 0 [1, 2]: expected 0.5, got NaN",
        "tolerance: |got - expected| <=",
        f"error: kernel {second}, node",
        "?:3:5: error: no such name",
        "the GPU said: the GPU's own words",
        f"tapml export {bench.suite.path} {of_kernel(bench.suite, first)[0]} --html repro.html",
    ):
        assert words in text
    assert "Traceback" not in text
    result = bench("--tapml", "x.suite", "--lf")
    result.assert_outcomes(failed=bad, deselected=len(bench.suite.tests) - bad)
    assert len(bench.calls()) == 2


def test_unsupported_is_skipped_but_a_device_without_webgpu_fails(bench: Bench) -> None:
    kernel = bench.suite.kernels[0]
    mine = len(of_kernel(bench.suite, kernel))
    bench.verdicts = lambda name, test, attempt: (
        {"verdict": "unsupported", "message": "needs shader-f16", "outputs": []} if name == kernel else {}
    )
    result = bench("--tapml", "x.suite", "-rs")
    result.assert_outcomes(skipped=mine, passed=len(bench.suite.tests) - mine)
    assert "needs shader-f16" in result.stdout.str()
    bench.hello = {"unavailable": "WebGPU is off: switch it on"}
    result = bench("--tapml", "x.suite")
    result.assert_outcomes(failed=len(bench.suite.tests))
    assert "cannot run kernels: WebGPU is off" in result.stdout.str()


def test_a_device_that_cannot_be_started_is_tried_once(bench: Bench) -> None:
    bench.problem = "Chromium was not found: apt-get install chromium"
    result = bench("--tapml", "x.suite")
    result.assert_outcomes(errors=len(bench.suite.tests))
    assert "apt-get install chromium" in result.stdout.str()
    assert bench.refused == 1


def test_suites_and_devices_from_the_configuration(bench: Bench) -> None:
    bench.pytester.makeini("[pytest]\ntapml_suites = x.suite\ntapml_devices = firefox")
    bench().assert_outcomes(passed=1 + len(bench.suite.tests))
    assert len(bench.calls("firefox")) == len(bench.suite.kernels)
    assert bench.calls("chromium") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tapml", "nothing"], "nothing is not a suite"),
        (["--tapml", "x.suite", "--tapml-device", "netscape"], "--device netscape: give chromium"),
        (["--tapml", "x.suite", "--tapml-hang-seconds", "0"], "--tapml: hang_seconds: Input should be greater than 0"),
    ],
)
def test_wrong_input_is_a_usage_error(bench: Bench, arguments: list[str], words: str) -> None:
    result = bench(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_a_damaged_suite_is_a_collection_error(bench: Bench) -> None:
    (bench.suite.path / "program.json").write_text("{")
    result = bench("--tapml", "x.suite")
    result.assert_outcomes(errors=1)
    assert "is not valid JSON" in result.stdout.str()


@pytest.mark.parametrize("name", ["conftest.py", "__init__.py"])
def test_code_in_a_suite_is_refused_not_run(bench: Bench, name: str) -> None:
    marker = bench.pytester.path / "owned"
    (bench.suite.path / name).write_text(f"open({str(marker)!r}, 'w')\n")
    for arguments in ([], ["x.suite"], ["x.suite/suite.json"]):
        result = bench("--tapml", "x.suite", *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"has a {name}" in result.stderr.str()
    assert not marker.exists()


def test_test_files_in_a_suite_are_not_collected(bench: Bench) -> None:
    (bench.suite.path / "test_evil.py").write_text("raise SystemExit('it ran')\n")
    bench("--tapml", "x.suite", "x.suite").assert_outcomes(passed=len(bench.suite.tests))


def test_the_plugin_costs_nothing_where_no_suite_is_named() -> None:
    code = "import sys, pytest; b = set(sys.modules); import tapml.pytest_plugin; print(sorted(set(sys.modules) - b))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['tapml', 'tapml.pytest_plugin']"


def test_a_suite_that_is_in_doubt_says_so_once(bench: Bench) -> None:
    manifest = json.loads((bench.suite.path / "suite.json").read_text())
    (bench.suite.path / "suite.json").write_text(json.dumps({**manifest, "doubts": ["a reason"]}))
    result = bench("--tapml", "x.suite", "--junitxml", "x.xml")
    result.assert_outcomes(passed=len(bench.suite.tests))
    assert str(result.stdout).count("DO NOT TRUST small: a reason") == 1
    assert '<property name="do not trust" value="DO NOT TRUST small: a reason"' in Path("x.xml").read_text()
    assert "DO NOT TRUST" not in str(bench("test_ordinary.py").stdout)
