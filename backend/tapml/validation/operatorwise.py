"""Operator-wise validation: every carved test on every device (tapml.validation/1)."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial

from tapml.devices import Device
from tapml.devices.calls import Telling
from tapml.devices.device import CLOSED, PAGE_CLOSED
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError, DeviceLost, InputError
from tapml.history import Recorder
from tapml.protocol.methods import TestVerdict, ValidateParams
from tapml.protocol.session import VALIDATE
from tapml.results.base import device_label, label_of
from tapml.results.earlier import Earlier, as_now, replaced
from tapml.results.validation import TestResult, ValidationDocument, ValidationHeader, counts
from tapml.results.verdicts import FAILING
from tapml.suite import CarvedTest, Suite
from tapml.text import counted
from tapml.validation.context import JobContext
from tapml.validation.events import Cancelled
from tapml.validation.every_variant import failures
from tapml.validation.journal import Journal, left_behind
from tapml.validation.remaining import Remaining
from tapml.validation.results import header, keep, reported_result, result_without_run
from tapml.validation.texts import keep_texts

# Tests of one call: enough to batch well, few enough for one message and for a prompt Ctrl-C.
_TESTS_A_CALL = 256
# Of the kernels of one call; one kernel may be larger.
_KERNEL_BYTES_A_CALL = 4_000_000


class OperatorRun:
    """One validation of a suite on some devices; `run` blocks until all are through."""

    def __init__(
        self,
        context: JobContext,
        *,
        kernels: Sequence[str] | None = None,
        tests: Sequence[str] | None = None,
        save: bool = False,
        history: Recorder | None = None,
    ) -> None:
        """`kernels`: only these kernels' tests; `tests`: only those of these ids (and of those kernels).
        `save`: keep the results in the suite, whatever becomes of this process; `history`: record them there too.
        Where they cannot be kept, an event says so and the document is as good as ever.

        Raises InputError for an unknown kernel or test, or a tensor that is missing or corrupted."""
        self._context = context
        self.suite = suite = context.suite
        self.devices = context.devices
        self.kernels = list(kernels) if kernels else suite.kernels
        for name in self.kernels:
            if name not in suite.kernels:
                suite.bundle(name)  # raises with the list of kernels
        chosen = set(self.kernels)
        self.tests = [test for test in suite.tests if test.kernel in chosen]
        if tests is not None:
            wanted = {suite.test(test).id for test in tests}  # an unknown one raises
            self.tests = [test for test in self.tests if test.id in wanted]
            used = {test.kernel for test in self.tests}
            self.kernels = [name for name in self.kernels if name in used]
        suite.verify(ref for test in self.tests for ref in test.refs)
        context.blobs.add_store(suite.tensors)
        self._emit = context.emit
        self._save = save
        self._history = history
        self._lock = threading.Lock()
        self._results: dict[tuple[str, str], TestResult] = {}
        self._seconds: dict[str, dict[str, float]] = {}
        self._failing: dict[tuple[str, str], TestResult] = {}
        """Of variants that the device would not choose, which run before."""
        self._interrupted = False
        self._journals: dict[str, Journal] = {}
        self.edited: dict[str, bool] = {}
        self._digests: dict[str, str] = {}
        self._id = uuid.uuid4().hex

    @property
    def total(self) -> int:
        return len(self.tests) * len(self.devices)

    def run(self) -> ValidationDocument:
        """Run all tests on all devices, devices in parallel; gives the document, also after a cancel."""
        started = time.perf_counter()
        recovered = recover(self.suite, self._history)
        self._emit({"type": "started", "kind": "validation", "total": self.total, "kernels": self.kernels})
        for device in self.devices:
            self._emit({"type": "device", "device": device.describe()})
        self._warn(recovered)
        with KernelMessages(self.suite, self._context.blobs, self.kernels) as messages, ExitStack() as journals:
            self.edited = {name: messages.edited(name) for name in self.kernels}
            self._digests = {name: messages.digest(name) for name in self.kernels}
            self._emit({"type": "kernels", "digests": self._digests, "trial": self.suite.on_trial})
            for device in self.devices:
                journal = Journal(self.suite, device.name, self._header([device], interrupted=True))
                self._journals[device.id] = journals.enter_context(journal)
            with ThreadPoolExecutor(max(1, len(self.devices)), "validate") as threads:
                running = [threads.submit(self._run_device, device, messages) for device in self.devices]
                # Ctrl-C may reach another thread of the process; this one runs the handler only when it wakes up.
                while wait(running, 0.1).not_done:
                    pass
            for ended in running:
                ended.result()  # raises what is a defect of ours
            document = self.document(time.perf_counter() - started)
            self._keep(document)
        return document

    def _keep(self, document: ValidationDocument) -> None:
        """Nothing that is wrong with a folder or a database takes away the verdicts."""
        if self._save:
            self._warn([keep(self.suite, save_validation, document) or keep(self.suite, keep_texts, document)])
        if self._history is not None and document["tests"]:
            self._warn([self._history.keep(self.suite, document)])

    def _warn(self, problems: Sequence[str | None]) -> None:
        for problem in filter(None, problems):
            self._context.message(problem)

    def _run_device(self, device: Device, messages: KernelMessages) -> None:
        started = time.perf_counter()
        spent: dict[str, float] = defaultdict(float)
        todo = []
        for test in self.tests:
            reason = messages.unsupported(test.kernel)
            if reason:
                self._record(device, test, result_without_run(test, device.id, "unsupported", reason))
            else:
                todo.append(test)
        remaining = Remaining(len({test.kernel for test in todo}), len(todo))
        by_itself = False  # each kernel in a call of its own
        try:
            failing = failures(self._context, device, todo, messages, partial(_one_call, messages=messages))
            self._failing.update({(device.id, test): result for test, result in failing.items()})
            while todo:
                self._context.cancel.check()
                part = _one_call(_one_kernel(todo) if by_itself else todo, messages)
                try:
                    for key, value in self._call(device, part, messages, remaining).items():
                        spent[key] += value
                except DeviceLost as error:
                    if error.lost_reason == CLOSED:
                        self._tell_closed(device, todo)
                        break
                    self._record_culprit(device, todo, error)
                    if self._missing(device, part) == part:
                        # Another try would end the same, unless it tells who is to blame.
                        if by_itself or not device.connected:
                            raise
                        by_itself = True
                else:
                    # The runner answered and yet left a test out: that is its error, not silence.
                    self._record_missing(device, part, "the device gave no verdict for this test")
                todo = self._missing(device, todo)
        except Cancelled:
            self._interrupted = True
        except DeviceError as error:
            self._record_missing(device, todo, error.summary)
        wall = time.perf_counter() - started
        parts = {key: round(spent[key], 4) for key in ("fetch", "compile", "upload", "run", "compare")}
        with self._lock:
            self._seconds[device.id] = {"wall": round(wall, 4), **parts}

    def _call(
        self, device: Device, tests: Sequence[CarvedTest], messages: KernelMessages, remaining: Remaining
    ) -> Mapping[str, float]:
        by_id = {test.id: test for test in tests}
        names = dict.fromkeys(test.kernel for test in tests)

        def on_progress(progress: Telling) -> None:
            if progress.kind == "compile":
                # Of the run, not of this call.
                done = {"done": remaining.compiled(progress.kernel), "total": remaining.kernels}
                told = {"device": device.id, "kernel": progress.kernel, **done, "left": remaining.seconds}
                self._emit({"type": "compile", **told})
            elif isinstance(progress, TestVerdict) and (test := by_id.get(progress.id)):
                remaining.tested()
                edited = messages.edited(test.kernel)
                self._record(device, test, reported_result(test, device.id, progress, edited=edited), remaining.seconds)

        params = ValidateParams(
            kernels=[messages.kernel(name) for name in names], tests=[messages.test(test) for test in tests]
        )
        check, hang_seconds = self._context.cancel.check, self._context.hang_seconds
        called = device.call(VALIDATE, params, on_progress=on_progress, check=check, hang_seconds=hang_seconds)
        return called.result.seconds.model_dump()

    def _record(self, device: Device, test: CarvedTest, result: TestResult, left: float | None = None) -> None:
        failing = self._failing.get((device.id, test.id))
        if failing is not None and result["verdict"] not in FAILING:
            result = failing
        with self._lock:
            self._results[(device.id, test.id)] = result
        self._journals[device.id].write(result)
        self._emit({"type": "verdict", "device": device.id, "result": result, "left": left})

    def _missing(self, device: Device, tests: Sequence[CarvedTest]) -> list[CarvedTest]:
        """Those of these that have no verdict yet."""
        return [test for test in tests if (device.id, test.id) not in self._results]

    def _tell_closed(self, device: Device, tests: Sequence[CarvedTest]) -> None:
        """Somebody closed the page: no kernel is to blame, and what did not run stays as it was."""
        self._interrupted = True
        missing = counted(len(self._missing(device, tests)), "test")
        self._context.message(f"{device_label(device.id, device.name)}: {PAGE_CLOSED}; {missing} did not run")

    def _record_culprit(self, device: Device, tests: Sequence[CarvedTest], error: DeviceLost) -> None:
        """The kernel that hung or crashed the GPU device is not run again; the other kernels go on, on a new one."""
        for test in tests:
            if test.kernel == error.kernel:
                message = error.summary
                if error.test not in (None, test.id):
                    message = f"not run: kernel {error.kernel} lost the device in test {error.test}"
                self._record_missing(device, [test], message)

    def _record_missing(self, device: Device, tests: Sequence[CarvedTest], message: str) -> None:
        for test in self._missing(device, tests):
            self._record(device, test, result_without_run(test, device.id, "error", message))

    def document(self, seconds: float) -> ValidationDocument:
        """The document of what was validated so far."""
        results = [
            self._results[(device.id, test.id)]
            for device in self.devices
            for test in self.tests
            if (device.id, test.id) in self._results
        ]
        return {
            **self._header(self.devices, interrupted=self._interrupted),
            "tests": results,
            "summary": {**counts(results), "seconds": round(seconds, 4), "devices": self._seconds},
            "earlier": {},
            "not_run": {device.id: [test.id for test in self._missing(device, self.tests)] for device in self.devices}
            if self._interrupted
            else {},
        }

    def _header(self, devices: Sequence[Device], *, interrupted: bool) -> ValidationHeader:
        edited = [name for name in self.kernels if self.edited.get(name)]
        return {
            "format": "tapml.validation/1",
            **header(self.suite, devices, interrupted=interrupted, edited=edited, digests=self._digests),
            "run": self._id,
        }


def _one_call(tests: Sequence[CarvedTest], messages: KernelMessages) -> list[CarvedTest]:
    """The first tests, as many as make one message."""
    kernels: set[str] = set()
    nbytes = 0
    for place, test in enumerate(tests[:_TESTS_A_CALL]):
        if test.kernel not in kernels:
            kernels.add(test.kernel)
            nbytes += messages.nbytes(test.kernel)
            if place and nbytes > _KERNEL_BYTES_A_CALL:
                return list(tests[:place])
    return list(tests[:_TESTS_A_CALL])


def _one_kernel(tests: Sequence[CarvedTest]) -> list[CarvedTest]:
    """Those of the first test's kernel."""
    return [test for test in tests if test.kernel == tests[0].kernel]


def save_validation(suite: Suite, document: ValidationDocument) -> None:
    """Keep a validation in the suite, one file a device.

    Tests that this run left out (--kernel) keep their last result, unless their kernel has become another: what that
    one's were is kept beside them, by its digest.
    """
    for device in document["devices"]:
        tests = [test for test in document["tests"] if test["device"] == device["id"]]
        ran, digests = {test["id"] for test in tests}, document["kernel_digests"]
        others: Earlier = {}
        earlier: ValidationDocument
        for earlier in suite.results("validation"):
            if label_of(earlier["devices"][0]) == label_of(device) and earlier["suite"] == document["suite"]:
                others = {**others, **replaced(earlier, digests)}
                # Of a kernel whose edit was undone, what it was before.
                earlier = as_now(earlier, digests)
                known = earlier["kernel_digests"]
                tests += [
                    {**test, "device": device["id"]}
                    for test in earlier["tests"]
                    if test["id"] not in ran
                    and digests.get(test["kernel"], known.get(test["kernel"])) == known.get(test["kernel"])
                ]
                digests = {**known, **digests}
        summary = document["summary"]
        seconds = {device["id"]: summary["devices"].get(device["id"], {})}
        suite.save_result(
            {
                **document,
                "devices": [device],
                "kernel_digests": digests,
                "tests": tests,
                "summary": {**counts(tests), "seconds": summary["seconds"], "devices": seconds},
                "earlier": others,
                "not_run": {key: ids for key, ids in document["not_run"].items() if key == device["id"]},
            }
        )


def recover(suite: Suite, history: Recorder | None = None) -> list[str]:
    """Save what killed processes had validated of this suite; gives what went wrong, as sentences."""
    problems: list[str] = []
    try:
        for name, header, results in left_behind(suite, problems):
            if header is not None and results and header["suite"] == suite.id:
                document: ValidationDocument = {
                    **header,
                    "tests": results,
                    "summary": {**counts(results), "seconds": 0.0, "devices": {}},
                    "earlier": {},
                    "not_run": {},
                }
                save_validation(suite, document)
                if history is not None and (problem := history.keep(suite, document)):
                    problems.append(problem)
            suite.folder.remove(name)
    except OSError as error:
        problems.append(f"results of an earlier run cannot be saved in {suite.path}: {error.strerror}")
    return problems


def passed(document: ValidationDocument) -> bool:
    """True where no verdict is unbounded, fail or error."""
    return not document["summary"]["failing_kernels"]


def require_devices(devices: Sequence[Device]) -> None:
    """Raises InputError for a device that connected only to say that it cannot run kernels."""
    for device in devices:
        if device.hello.unavailable:
            raise InputError(f"{device.name} cannot run kernels: {device.hello.unavailable}")
