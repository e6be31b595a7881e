"""All suites on all devices in one run; what fails may run again (`--retries`)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeAlias

from tapml.ci.baseline import Key
from tapml.ci.devices import RunDevice
from tapml.ci.plan import PlannedSuite
from tapml.ci.recording import record
from tapml.devices import Blobs
from tapml.devices.device import HANG_SECONDS
from tapml.history import Recorder
from tapml.jobs import Job, JobSpecification
from tapml.results import TestResult, ValidationDocument, Verdict
from tapml.suite import CarvedTest
from tapml.validation.events import Cancel, Emit
from tapml.validation.operatorwise import recover
from tapml.validation.results import result_without_run

_RETRIED = ("fail", "error")
"""Not what is unbounded: that depends on the bounds alone."""

Place: TypeAlias = tuple[str, str, str]
"""Id of a planned suite, id of a device, id of a test."""


class CiRun:
    """One run; `run` blocks until it is through, and then the rest tells what came of it."""

    def __init__(
        self,
        planned: Sequence[PlannedSuite],
        devices: Sequence[RunDevice],
        blobs: Blobs,
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
        self.devices = list(devices)
        self.attempts: dict[Place, list[TestResult]] = defaultdict(list)
        """Results of each test in the order they came."""
        self.seconds: dict[str, dict[str, float]] = {entry.id: defaultdict(float) for entry in devices}
        """By device: `wall`, and the parts that the runner measured."""
        self.edited: dict[str, list[str]] = {entry.id: [] for entry in planned}
        self.digests: dict[str, dict[str, str]] = {entry.id: {} for entry in planned}
        """By suite: digests of its kernels as they ran."""
        self.interrupted = False
        self.wall = 0.0
        self._retries = retries
        self._history = history
        self._excused = excused
        self._emit = emit
        self._cancel = cancel or Cancel()
        self._working = [entry for entry in devices if not entry.unavailable]
        self._save = save
        self._hang_seconds = hang_seconds
        self._blobs = blobs
        # All are made before any runs: damaged tensors of the last suite are no reason to lose the first one's results.
        self._runs = {
            entry.id: self._operator_run(entry, self._working, entry.tests) for entry in planned if entry.tests
        }

    @property
    def total(self) -> int:
        return sum(len(entry.tests) for entry in self.planned) * len(self.devices)

    def run(self) -> None:
        """Run all; after a cancel, what was done so far is there."""
        started = time.perf_counter()
        self._emit({"type": "started", "kind": "validation", "total": self.total, "kernels": []})
        for entry in self.devices:
            self._emit({"type": "device", "device": entry.describe()})
        for planned in self.planned:
            if self._history is not None:
                self._warn(recover(planned.suite, self._history))
            self._without_webgpu(planned)
            if planned.tests and self._working and not self._cancel.requested:
                self._keep(planned, self._runs[planned.id].run())
                self._retry(planned)
        self.interrupted = self._cancel.requested
        self.wall = time.perf_counter() - started
        if self._history is not None:
            found = [self._record(planned, self._history) for planned in self.planned]
            self._warn(list(dict.fromkeys(filter(None, found))))

    def _record(self, planned: PlannedSuite, history: Recorder) -> str | None:
        return record(
            history,
            planned.suite,
            [entry.device for entry in self.devices if entry.device is not None],
            {place[1:]: attempts for place, attempts in self.attempts.items() if place[0] == planned.id},
            interrupted=self.interrupted,
            edited=self.edited[planned.id],
            digests=self.digests[planned.id],
        )

    def _warn(self, problems: Sequence[str]) -> None:
        for problem in problems:
            self._emit({"type": "message", "level": "warning", "text": problem})

    def key(self, planned: PlannedSuite, entry: RunDevice, test: CarvedTest) -> Key:
        """What a baseline knows a test by."""
        return (planned.suite.name, test.id, test.kernel, entry.requested)

    def _operator_run(
        self, planned: PlannedSuite, devices: Sequence[RunDevice], tests: Sequence[CarvedTest], *, again: bool = False
    ) -> Job:
        def emit(event: dict[str, Any]) -> None:
            # One run to whoever watches: it has announced itself, and a test that runs again was counted already.
            if event["type"] not in (("started", "device", "verdict") if again else ("started", "device")):
                self._emit(event)

        asked = JobSpecification(
            kind="validation",
            devices=[entry.requested for entry in self.devices],
            tests=[test.id for test in tests],
            hang_seconds=self._hang_seconds,
        )
        found = [entry.device for entry in devices if entry.device is not None]
        return Job(asked, planned.suite, found, self._blobs, emit=emit, cancel=self._cancel, save=self._save)

    def _without_webgpu(self, planned: PlannedSuite) -> None:
        for entry in self.devices:
            for test in planned.tests if entry.unavailable else ():
                cannot = "be started" if entry.device is None else "run kernels"
                message = f"{entry.name} cannot {cannot}: {entry.unavailable}"
                result = result_without_run(test, entry.id, "unsupported", message)
                self.attempts[planned.id, entry.id, test.id].append(result)
                self._emit({"type": "verdict", "device": entry.id, "result": result})

    def _retry(self, planned: PlannedSuite) -> None:
        for number in range(1, self._retries + 1):
            todo = {entry: self._failing(planned, entry) for entry in self._working}
            runs = []
            for entry, tests in todo.items():
                if tests and not self._cancel.requested:
                    text = f"{entry.name}: {len(tests)} failing tests of {planned.id} run again ({number}. retry)"
                    self._emit({"type": "message", "text": text})
                    runs.append(self._operator_run(planned, [entry], tests, again=True))
            if not runs:
                return
            with ThreadPoolExecutor(len(runs), "retry") as threads:
                running = [threads.submit(run.run) for run in runs]
                # Ctrl-C may reach another thread of the process; this one runs the handler only when it wakes up.
                while wait(running, 0.1).not_done:
                    pass
            for ended in running:
                self._keep(planned, ended.result())

    def _failing(self, planned: PlannedSuite, entry: RunDevice) -> list[CarvedTest]:
        failing = []
        for test in planned.tests:
            attempts = self.attempts.get((planned.id, entry.id, test.id))
            verdict: Verdict = attempts[-1]["verdict"] if attempts else "pass"
            if verdict in _RETRIED and not self._excused(self.key(planned, entry, test), verdict):
                failing.append(test)
        return failing

    def _keep(self, planned: PlannedSuite, document: ValidationDocument) -> None:
        for result in document["tests"]:
            self.attempts[planned.id, result["device"], result["id"]].append(result)
        self.digests[planned.id] |= document["kernel_digests"]
        edited = self.edited[planned.id]
        edited += [name for name in document["edited_kernels"] if name not in edited]
        for device, parts in document["summary"]["devices"].items():
            for name, value in parts.items():
                self.seconds[device][name] = round(self.seconds[device][name] + value, 4)
