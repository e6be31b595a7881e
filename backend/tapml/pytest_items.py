"""What pytest collects of suites, and how it runs: a batch for each kernel and device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tapml.errors import TapmlError
from tapml.text import one_line, visible

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from tapml.ci.places import Place
    from tapml.results.validation import TestResult
    from tapml.server import Server
    from tapml.suite import CarvedTest, Suite
    from tapml.validation.events import Cancel


_DOUBT = "do not trust"


class TestFailed(Exception):
    """A carved test's verdict is fail, error or unbounded; the text is all that is known of it."""

    __test__ = False


class Collector:
    """The plugin of one session: it collects the suites, and keeps places and results. The server and the devices start
    when the first test runs.
    """

    def __init__(self, files: Sequence[Path], devices: Sequence[str], hang_seconds: float) -> None:
        """`files`: the suites' suite.json. Raises UsageError for a name that is no device's, and for no seconds."""
        from tapml.ci.places import check_names
        from tapml.cli.runs import elsewhere
        from tapml.formats import validated
        from tapml.jobs import JobSpecification

        self._files = set(files)
        try:
            self._devices = check_names(devices, elsewhere)
            fields = {"kind": "validation", "devices": list(self._devices), "hang_seconds": hang_seconds}
            fields |= {"save": False, "record": False}
            self._asked = validated("--tapml", JobSpecification, fields, "")  # but for the tests
        except TapmlError as error:
            raise pytest.UsageError(str(error)) from None
        self._server: Server | None = None
        self._places: dict[str, Place] = {}
        self._results: dict[tuple[Path, str, str], TestResult] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if path.resolve() / "suite.json" in self._files:
            return SuiteFolder.from_parent(parent, path=path, name=path.name)
        return None

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
        if file_path.resolve() not in self._files:
            return None
        file: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
        file.collector, file.devices = self, self._devices
        return file

    def place(self, name: str) -> Place:
        """Started when first asked for. Raises what was wrong then, also when asked again."""
        if name not in self._places:
            from tapml.ci.places import find_places
            from tapml.cli.runs import elsewhere
            from tapml.server import Server

            if self._server is None:
                self._server = Server()
            state = self._server.state
            with self._interruptible() as cancel:
                (self._places[name],) = find_places([name], state.device, state.blobs, elsewhere, cancel=cancel)
        if problem := self._places[name].problem:
            raise problem
        return self._places[name]

    @staticmethod
    def _interruptible() -> AbstractContextManager[Cancel]:
        from tapml.cli.runs import interruptible
        from tapml.validation.events import Cancel

        in_main_thread = threading.current_thread() is threading.main_thread()
        return interruptible() if in_main_thread else contextlib.nullcontext(Cancel())

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
        place = self.place(item.device_name)
        asked = self._asked.model_copy(update={"tests": list(tests)})
        with self._interruptible() as cancel:
            document = place.run(asked, item.suite, cancel=cancel)
        if document["interrupted"]:
            raise KeyboardInterrupt
        return document["tests"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say of which suites no verdict is to be believed."""
        reports = [report for found in terminalreporter.stats.values() for report in found]
        told = [text for report in reports for name, text in getattr(report, "user_properties", ()) if name == _DOUBT]
        for line in dict.fromkeys(map(str, told)):
            terminalreporter.write_line(line, red=True)

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


class SuiteFolder(pytest.Collector):
    """A suite's folder. Unlike other folders its conftest.py and modules are not loaded: a suite is data."""

    def collect(self) -> Iterator[pytest.Collector]:
        yield from self.ihook.pytest_collect_file(file_path=self.path / "suite.json", parent=self)


class SuiteFile(pytest.File):
    """A suite: its tests on each device."""

    collector: Collector
    devices: Mapping[str, str]
    """Their names as they were given, and as they are shown."""

    def collect(self) -> Iterator[CarvedItem]:
        from tapml.results.base import distrust
        from tapml.suite import Suite

        try:
            suite = Suite(self.path.parent)
        except TapmlError as error:
            raise self.CollectError(str(error)) from None
        for device, shown in self.devices.items():
            for test in suite.tests:
                name = f"{one_line(test.id)}[{shown}]"
                # Said outright: pytest 9 reads the brackets of ids that --lf remembers, but not those of names.
                item: CarvedItem = CarvedItem.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}")
                item.suite, item.test, item.device_name, item.collector = suite, test, device, self.collector
                # -k finds a kernel's tests.
                item.extra_keyword_matches.update((test.kernel, test.node))
                # In reports they come to whoever writes the summary, from another process too, and into JUnit XML.
                item.user_properties += [(_DOUBT, line) for line in distrust(one_line(suite.name), suite.doubts)]
                yield item


class CarvedItem(pytest.Item):
    """One carved test on one device."""

    suite: Suite
    test: CarvedTest
    device_name: str
    collector: Collector

    @property
    def group(self) -> tuple[Path, str, str]:
        """What runs in one batch."""
        return (self.suite.path, self.device_name, self.test.kernel)

    @property
    def key(self) -> tuple[Path, str, str]:
        return (self.suite.path, self.device_name, self.test.id)

    def setup(self) -> None:
        self.collector.place(self.device_name)

    def runtest(self) -> None:
        from tapml.reports.evidence import evidence

        place = self.collector.place(self.device_name)
        if place.unavailable:
            # Not a skip: a whole device that is missing must not look green.
            raise TestFailed(visible(f"{place.name} cannot run kernels: {place.unavailable}"))
        result = self.collector.result(self)
        if result["verdict"] == "unsupported":
            pytest.skip(visible(str(result["message"])))
        if result["verdict"] != "pass":
            where = one_line(f"{result['verdict']}: kernel {self.test.kernel}, node {self.test.node} on {place.name}")
            raise TestFailed(f"{where}\n{evidence(result, str(self.suite.path))}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if isinstance(excinfo.value, TestFailed | TapmlError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, one_line(f"{self.test.kernel} {self.name}")
