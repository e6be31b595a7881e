"""What pytest collects of suites, and how it runs: a batch for each kernel and device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tapml.errors import TapmlError
from tapml.text import one_line, visible

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from tapml.ci.devices import RunDevice
    from tapml.jobs import JobSpecification
    from tapml.results import TestResult
    from tapml.server import Server
    from tapml.suite import CarvedTest, Suite


class TestFailed(Exception):
    """A carved test's verdict is fail, error or unbounded; the text is all that is known of it."""

    __test__ = False


class Runs:
    """Devices and results of one pytest session; the server and the devices start when the first test runs."""

    def __init__(self, asked: JobSpecification) -> None:
        """`asked`: but for the devices and the tests."""
        self._asked = asked
        self._server: Server | None = None
        self._devices: dict[str, RunDevice] = {}
        self._results: dict[tuple[Path, str, str], TestResult] = {}

    def device(self, name: str) -> RunDevice:
        """Started when first asked for. Raises what was wrong then, also when asked again."""
        if name not in self._devices:
            from tapml.ci.devices import start_devices
            from tapml.server import Server

            if self._server is None:
                self._server = Server()
            (self._devices[name],) = start_devices(self._server.state, [name])
        self._devices[name].connected()
        return self._devices[name]

    def result(self, item: CarvedItem) -> TestResult:
        """The item's TestResult. The first of a kernel and device runs all that are selected of these."""
        if item.key not in self._results:
            group = {
                other.test.id: other
                for other in item.session.items
                if isinstance(other, CarvedItem) and other.group == item.group
            }
            for result in self._run(item, list(group) or [item.test.id]):
                self._results[item.suite.path, item.device_name, result["id"]] = result
        return self._results[item.key]

    def _run(self, item: CarvedItem, tests: Sequence[str]) -> list[TestResult]:
        from tapml.cli.runs import interruptible
        from tapml.jobs import Job
        from tapml.validation.events import Cancel

        device = self.device(item.device_name).connected()
        assert self._server is not None
        asked = self._asked.model_copy(update={"devices": [item.device_name], "tests": list(tests)})
        in_main_thread = threading.current_thread() is threading.main_thread()
        with interruptible() if in_main_thread else contextlib.nullcontext(Cancel()) as cancel:
            document = Job(asked, item.suite, [device], self._server.state.blobs, cancel=cancel, save=False).run()
        if document["interrupted"]:
            raise KeyboardInterrupt
        found: list[TestResult] = document["tests"]
        return found

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


class Collector:
    """The plugin that collects the suites of one session."""

    def __init__(self, files: Sequence[Path], devices: Sequence[str], hang_seconds: float) -> None:
        """`files`: the suites' suite.json. Raises UsageError for a name that is no device's, and for no seconds."""
        from tapml.ci.devices import check_names
        from tapml.formats import validated
        from tapml.jobs import JobSpecification

        self._files = set(files)
        try:
            self._devices = check_names(devices)
            fields = {"kind": "validation", "devices": self._devices, "hang_seconds": hang_seconds}
            self._runs = Runs(validated("--tapml", JobSpecification, fields, ""))
        except TapmlError as error:
            raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if path.resolve() / "suite.json" in self._files:
            return SuiteFolder.from_parent(parent, path=path, name=path.name)
        return None

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
        if file_path.resolve() not in self._files:
            return None
        file: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
        file.runs, file.devices = self._runs, self._devices
        return file

    def close(self) -> None:
        self._runs.close()


class SuiteFolder(pytest.Collector):
    """A suite's folder. Unlike other folders its conftest.py and modules are not loaded: a suite is data."""

    def collect(self) -> Iterator[pytest.Collector]:
        yield from self.ihook.pytest_collect_file(file_path=self.path / "suite.json", parent=self)


class SuiteFile(pytest.File):
    """A suite: its tests on each device."""

    runs: Runs
    devices: Sequence[str]

    def collect(self) -> Iterator[CarvedItem]:
        from tapml.suite import Suite

        try:
            suite = Suite(self.path.parent)
        except TapmlError as error:
            raise self.CollectError(str(error)) from None
        for device in self.devices:
            for test in suite.tests:
                name = f"{one_line(test.id)}[{device}]"
                # Said outright: pytest 9 reads the brackets of ids that --lf remembers, but not those of names.
                item: CarvedItem = CarvedItem.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}")
                item.suite, item.test, item.device_name, item.runs = suite, test, device, self.runs
                # -k finds a kernel's tests.
                item.extra_keyword_matches.update((test.kernel, test.node))
                yield item


class CarvedItem(pytest.Item):
    """One carved test on one device."""

    suite: Suite
    test: CarvedTest
    device_name: str
    runs: Runs

    @property
    def group(self) -> tuple[Path, str, str]:
        """What runs in one batch."""
        return (self.suite.path, self.device_name, self.test.kernel)

    @property
    def key(self) -> tuple[Path, str, str]:
        return (self.suite.path, self.device_name, self.test.id)

    def setup(self) -> None:
        self.runs.device(self.device_name)

    def runtest(self) -> None:
        from tapml.reports.evidence import evidence

        device = self.runs.device(self.device_name)
        if device.unavailable:
            # Not a skip: a whole device that is missing must not look green.
            raise TestFailed(visible(f"{device.name} cannot run kernels: {device.unavailable}"))
        result = self.runs.result(self)
        if result["verdict"] == "unsupported":
            pytest.skip(visible(str(result["message"])))
        if result["verdict"] != "pass":
            where = one_line(f"{result['verdict']}: kernel {self.test.kernel}, node {self.test.node} on {device.name}")
            raise TestFailed(f"{where}\n{evidence(result, str(self.suite.path))}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if isinstance(excinfo.value, TestFailed | TapmlError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, one_line(f"{self.test.kernel} {self.name}")
