"""All suites on all devices in one run; what fails may run again (`--retries`)."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeAlias

from tapml.ci.baseline import Key
from tapml.ci.places import Place
from tapml.ci.plan import PlannedSuite
from tapml.devices.device import HANG_SECONDS, PAGE_CLOSED
from tapml.errors import TapmlError
from tapml.history import Recorder
from tapml.jobs import JobSpecification
from tapml.protocol.methods import Verdict
from tapml.results.validation import TestResult, ValidationDocument, ValidationRun
from tapml.suite import CarvedTest
from tapml.validation.events import Cancel, Emit
from tapml.validation.operatorwise import recover
from tapml.validation.results import header, result_without_run

_RETRIED = ("fail", "error")
"""Not what is unbounded: that depends on the bounds alone."""

Which: TypeAlias = tuple[str, str, str]
"""Id of a planned suite, id of a device, id of a test."""


class CiRun:
    """One run; `run` blocks until it is through, and then the rest tells what came of it."""

    def __init__(
        self,
        planned: Sequence[PlannedSuite],
        places: Sequence[Place],
        *,
        retries: int = 0,
        excused: Callable[[Key, Verdict], bool] = lambda key, verdict: False,
        emit: Emit = lambda event: None,
        cancel: Cancel | None = None,
        save: bool = True,
        history: Recorder | None = None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        """`retries`: how often a test that fails runs again, unless its verdict is `excused`.

        Raises InputError for a tensor that is missing or corrupted, in any of the suites.
        """
        self.planned = list(planned)
        self.places = list(places)
        self.attempts: dict[Which, list[TestResult]] = defaultdict(list)
        """Results of each test in the order they came."""
        self.seconds: dict[str, dict[str, float]] = {place.id: defaultdict(float) for place in places}
        """By device: `wall`, and the parts that the runner measured."""
        self.edited: dict[str, list[str]] = {entry.id: [] for entry in planned}
        self.digests: dict[str, dict[str, str]] = {entry.id: {} for entry in planned}
        """By suite: digests of its kernels as they ran."""
        self.interrupted = False
        self._left: set[tuple[str, str, str]] = set()
        """Suite, device and test of what did not run, for its page was closed: an error of this run, of no kernel."""
        self.wall = 0.0
        self._retries = retries
        self._history = history
        self._excused = excused
        self._emit = emit
        self._cancel = cancel or Cancel()
        self._working = [place for place in places if not place.unavailable]
        self._save = save
        self._hang_seconds = hang_seconds
        for entry in planned:
            # Before any runs: damaged tensors of the last suite are no reason to lose the first one's results.
            entry.suite.verify(ref for test in entry.tests for ref in test.refs)

    @property
    def total(self) -> int:
        return sum(len(entry.tests) for entry in self.planned) * len(self.places)

    def run(self) -> None:
        """Run all; after a cancel, what was done so far is there."""
        started = time.perf_counter()
        self._emit({"type": "started", "kind": "validation", "total": self.total, "kernels": []})
        for place in self.places:
            self._emit({"type": "device", "device": place.document})
        for planned in self.planned:
            if self._history is not None:
                self._warn(recover(planned.suite, self._history))
            self._without_webgpu(planned)
            if planned.tests:
                self._run_on(planned, dict.fromkeys(self._working, planned.tests))
            for number in range(1, self._retries + 1):
                self._retry(planned, number)
        self.interrupted = self._cancel.requested
        self.wall = time.perf_counter() - started
        if self._history is not None:
            found = [self._record(planned, self._history) for planned in self.planned]
            self._warn(list(dict.fromkeys(filter(None, found))))

    def _record(self, planned: PlannedSuite, history: Recorder) -> str | None:
        """One record a test, whatever its retries; gives what went wrong, as a sentence."""
        mine = [which for which in self.attempts if which[0] == planned.id and which not in self._left]
        attempts = {which[1:]: self.attempts[which] for which in mine}
        document: ValidationRun = {
            "format": "tapml.validation/1",
            **header(
                planned.suite,
                [],
                interrupted=self.interrupted,
                edited=self.edited[planned.id],
                digests=self.digests[planned.id],
            ),
            "devices": [place.document for place in self.places if place.problem is None],
            "run": uuid.uuid4().hex,
            "tests": [results[-1] for results in attempts.values()],
        }
        again = {place: [result["verdict"] for result in results] for place, results in attempts.items() if results[1:]}
        return history.keep(planned.suite, document, again) if attempts else None

    def _warn(self, problems: Sequence[str]) -> None:
        for problem in problems:
            self._emit({"type": "message", "level": "warning", "text": problem})

    def key(self, planned: PlannedSuite, place: Place, test: CarvedTest) -> Key:
        """What a baseline knows a test by."""
        return (planned.suite.name, test.id, test.kernel, place.requested)

    def _without_webgpu(self, planned: PlannedSuite) -> None:
        for place in self.places:
            for test in planned.tests if place.unavailable else ():
                cannot = "be started" if place.problem else "run kernels"
                message = f"{place.name} cannot {cannot}: {place.unavailable}"
                result = result_without_run(test, place.id, "unsupported", message)
                self.attempts[planned.id, place.id, test.id].append(result)
                self._emit({"type": "verdict", "device": place.id, "result": result})

    def _run_on(
        self, planned: PlannedSuite, todo: Mapping[Place, Sequence[CarvedTest]], *, again: bool = False
    ) -> None:
        """A job on each place, side by side."""
        if self._cancel.requested or not todo:
            return
        with ThreadPoolExecutor(len(todo), "test") as threads:
            running = {
                place: threads.submit(self._job, planned, place, tests, again=again) for place, tests in todo.items()
            }
            # Ctrl-C may reach another thread of the process; this one runs the handler only when it wakes up.
            while wait(running.values(), 0.1).not_done:
                pass
        for place, ended in running.items():
            self._keep(planned, place, todo[place], ended.result())

    def _job(
        self, planned: PlannedSuite, place: Place, tests: Sequence[CarvedTest], *, again: bool
    ) -> ValidationDocument | TapmlError:
        def emit(event: dict[str, Any]) -> None:
            # One run to whoever watches: it has announced itself, and a test that runs again was counted already.
            if event["type"] not in (("started", "device", "verdict") if again else ("started", "device")):
                self._emit(event)

        asked = JobSpecification(
            kind="validation",
            devices=[place.requested],
            tests=[test.id for test in tests],
            hang_seconds=self._hang_seconds,
            save=self._save,
            record=False,  # by this run, once
        )
        try:
            return place.run(asked, planned.suite, emit, self._cancel)
        except TapmlError as error:
            return error

    def _retry(self, planned: PlannedSuite, number: int) -> None:
        failing = {place: self._failing(planned, place) for place in self._working}
        todo = {place: tests for place, tests in failing.items() if tests and not self._cancel.requested}
        for place, tests in todo.items():
            text = f"{place.name}: {len(tests)} failing tests of {planned.id} run again ({number}. retry)"
            self._emit({"type": "message", "text": text})
        self._run_on(planned, todo, again=True)

    def _failing(self, planned: PlannedSuite, place: Place) -> list[CarvedTest]:
        failing = []
        for test in planned.tests:
            attempts = self.attempts.get((planned.id, place.id, test.id))
            verdict: Verdict = attempts[-1]["verdict"] if attempts else "pass"
            if verdict in _RETRIED and not self._excused(self.key(planned, place, test), verdict):
                failing.append(test)
        return failing

    def _keep(
        self, planned: PlannedSuite, place: Place, tests: Sequence[CarvedTest], found: ValidationDocument | TapmlError
    ) -> None:
        """A test that has no result although nobody stopped the run is an error."""
        results: dict[str, TestResult] = {}
        missing = "the device gave no verdict for this test"
        if isinstance(found, TapmlError):
            missing = str(found)
        else:
            results = {result["id"]: result for result in found["tests"]}
            self._keep_facts(planned, place, found)
            if left := [test for of_device in found["not_run"].values() for test in of_device]:
                missing = f"not run: {PAGE_CLOSED}"
                self._left |= {(planned.id, place.id, test) for test in left} - self.attempts.keys()
        for test in tests:
            if result := results.get(test.id):
                self.attempts[planned.id, place.id, test.id].append(result)
            elif not self._cancel.requested:
                result = result_without_run(test, place.id, "error", missing)
                self.attempts[planned.id, place.id, test.id].append(result)

    def _keep_facts(self, planned: PlannedSuite, place: Place, document: ValidationDocument) -> None:
        """What a job tells beside its verdicts: kernels as they ran, and how long it took."""
        digests = self.digests[planned.id]
        other = [name for name, known in document["kernel_digests"].items() if digests.setdefault(name, known) != known]
        if other:
            names = ", ".join(other[:4])
            self._warn(
                [f"{place.name} ran other WGSL of {names} than what ran before: its copy of the suite was edited"]
            )
        edited = self.edited[planned.id]
        edited += [name for name in document["edited_kernels"] if name not in edited]
        for parts in document["summary"]["devices"].values():
            for name, value in parts.items():
                self.seconds[place.id][name] = round(self.seconds[place.id][name] + value, 4)
