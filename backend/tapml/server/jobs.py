"""Jobs that run in the server's process, with their events."""

from __future__ import annotations

import json
import secrets
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices import Blobs, Device
from tapml.errors import InputError, TapmlError
from tapml.history import Recorder
from tapml.jobs import JobSpecification, run_job
from tapml.jobs.carved_step import StepSpecification, carve_step
from tapml.jobs.outputs import OutputsSpecification, TestOutputs
from tapml.jobs.run import RunSpecification, run_on_device
from tapml.jobs.written_text import TextSpecification, write_text
from tapml.sharing import Repro
from tapml.sharing.capture import Capture
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel, Cancelled, Emit

_KEPT_JOBS = 16  # with all their events; their documents are in their suites

Listener = Callable[["RunningJob", int, dict[str, Any]], None]


@dataclass
class RunningJob:
    """`events` only ever grows; readers ask from a number on."""

    id: str
    kind: str
    suite_id: str
    state: str = "running"
    events: list[dict[str, Any]] = field(default_factory=list)
    document: Any = None
    error: str | None = None
    given: bool = False
    """Whether the error is of what was given: inputs, a file."""
    made: Repro | CompiledRun | TestOutputs | None = None
    """The exported test, or the outputs, that the job made, as long as no later one made others: they may be large."""
    cancel: Cancel = field(default_factory=Cancel)
    done: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _all_told: bool = False
    _packed: bytes | None = None

    def read(self, after: int, most: int) -> tuple[list[dict[str, Any]], Any]:
        """At most so many events from number `after` on, and the document, where the job has ended."""
        with self._lock:
            events, packed = self.events, self._packed
            document: Any = self.document
            ended = self.done.is_set()
        if packed is not None:
            events, document = json.loads(zlib.decompress(packed))
        return events[after : after + most], document if ended else None

    def add(self, event: dict[str, Any], *, last: bool = False) -> int:
        """The event's number."""
        with self._lock:
            self.events.append(event)
            self._all_told = last
            return len(self.events) - 1

    def pack(self) -> None:
        """Keep what an ended job told as compressed JSON: it is read rarely, and as objects it is far larger."""
        if self._packed is None and self._all_told:
            packed = zlib.compress(json.dumps([self.events, self.document]).encode())
            with self._lock:
                self._packed, self.events, self.document = packed, [], None


class Jobs:
    """Starts jobs, one thread each, and keeps the last ones."""

    def __init__(self, blobs: Blobs, history: Recorder | None = None) -> None:
        self._blobs = blobs
        self._history = history
        self._lock = threading.Lock()
        self._jobs: dict[str, RunningJob] = {}
        self.listener: Listener = lambda job, number, event: None

    def get(self, job_id: str) -> RunningJob | None:
        with self._lock:
            return self._jobs.get(job_id)

    def start(
        self,
        specification: JobSpecification,
        suite_id: str,
        suite: Suite,
        acquire: Callable[[str], Device],
    ) -> RunningJob:
        """`acquire` gives a device by its name (it may have to start a browser), inside the job's thread."""

        def work(job: RunningJob, emit: Emit) -> Any:
            devices = [acquire(name) for name in dict.fromkeys(specification.devices)]
            context = JobContext(suite, devices, self._blobs, emit, job.cancel)
            return run_job(specification, context, history=self._history, offer=lambda repro: self._keep(job, repro))

        return self._begin(RunningJob(secrets.token_urlsafe(12), specification.kind, suite_id), work)

    def start_run(
        self,
        asked: RunSpecification,
        files: CompiledFiles,
        calls: Sequence[Mapping[str, np.ndarray]],
        acquire: Callable[[str], Device],
    ) -> RunningJob:
        """Call a compiled model. The job is of no suite."""

        def work(job: RunningJob, emit: Emit) -> Any:
            device = acquire(asked.device)
            emit({"type": "device", "device": device.describe()})
            found, missing = run_on_device(device, self._blobs, files, calls, asked, job.cancel.check)
            self._keep(job, found)
            return {
                "interrupted": False,
                "variants": dict(found.variants),
                "unvalidated": missing,
                "bytes": found.bytes,
                "load_seconds": found.load_seconds,
                "call_seconds": list(found.call_seconds),
            }

        return self._begin(RunningJob(secrets.token_urlsafe(12), "run", ""), work)

    def start_outputs(
        self,
        asked: OutputsSpecification,
        test: str,
        suite: Suite,
        acquire: Callable[[str], Device],
        fetch: Callable[[JobContext, str], TestOutputs],
    ) -> RunningJob:
        """Fetch what is about a test's outputs from a device. The job is of no suite: no verdict changes."""

        def work(job: RunningJob, emit: Emit) -> Any:
            context = JobContext(
                suite, [acquire(asked.device)], self._blobs, emit, job.cancel, hang_seconds=asked.hang_seconds
            )
            self._keep(job, fetch(context, test))
            return {"interrupted": False}

        return self._begin(RunningJob(secrets.token_urlsafe(12), "outputs", ""), work)

    def start_text(self, asked: TextSpecification, suite: Suite, acquire: Callable[[str], Device]) -> RunningJob:
        """Let a suite's model write on a device. The job is of no suite: no verdict changes."""

        def work(job: RunningJob, emit: Emit) -> Any:
            device = acquire(asked.device)
            emit({"type": "device", "device": device.describe()})
            return write_text(asked, suite, device, self._blobs, emit, job.cancel)

        return self._begin(RunningJob(secrets.token_urlsafe(12), "text", ""), work)

    def start_step(self, asked: StepSpecification, suite: Suite, acquire: Callable[[str], Device]) -> RunningJob:
        """Carve a step of such a text into the suite. The job is of no suite: it is no run of its tests."""

        def work(job: RunningJob, emit: Emit) -> Any:
            return carve_step(asked, suite, acquire(asked.device), self._blobs, emit, job.cancel)

        return self._begin(RunningJob(secrets.token_urlsafe(12), "step", ""), work)

    def start_import(
        self, capture: Capture, suite_id: str, suite: Suite, held: AbstractContextManager[object]
    ) -> RunningJob:
        """Judge what a page captured, and add it to the suite. `held` ends with the job: the file lies there."""

        def work(job: RunningJob, emit: Emit) -> Any:
            with held:
                # Late: TVM takes seconds to load.
                from tapml.sharing.captured_import import import_into

                def told(done: int, total: int) -> None:
                    job.cancel.check()
                    emit({"type": "compare", "done": done, "total": total})

                return import_into(capture, suite, told)

        return self._begin(RunningJob(secrets.token_urlsafe(12), "import", suite_id), work)

    def _keep(self, job: RunningJob, made: Repro | CompiledRun | TestOutputs) -> None:
        for other in self._all():
            other.made = None
        job.made = made

    def _begin(self, job: RunningJob, work: Callable[[RunningJob, Emit], Any]) -> RunningJob:
        with self._lock:
            self._jobs[job.id] = job
            ended = [known for known in self._jobs.values() if known.done.is_set()]
            for old in ended[: max(0, len(self._jobs) - _KEPT_JOBS)]:
                del self._jobs[old.id]
        threading.Thread(target=self._run, args=(job, work), name=f"job {job.id}", daemon=True).start()
        return job

    def cancel_all(self) -> None:
        for job in self._all():
            job.cancel.set()

    def _all(self) -> list[RunningJob]:
        with self._lock:
            return list(self._jobs.values())

    def _run(self, job: RunningJob, work: Callable[[RunningJob, Emit], Any]) -> None:
        def emit(event: dict[str, Any], *, last: bool = False) -> None:
            self.listener(job, job.add(event, last=last), event)

        for other in self._all():
            other.pack()
        try:
            job.document = work(job, emit)
            # Of several devices one may have left, which its message tells: nobody cancelled the others.
            job.state = "cancelled" if job.document["interrupted"] and job.cancel.requested else "done"
        except Cancelled:
            job.state = "cancelled"
        except TapmlError as error:
            job.state, job.error, job.given = "failed", str(error), isinstance(error, InputError)
        except Exception as error:  # a defect of ours: the job ends, the server goes on and says so
            job.state, job.error = "failed", f"internal error: {type(error).__name__}: {error}"
            raise
        finally:
            job.done.set()
            emit({"type": "ended", "state": job.state, "error": job.error}, last=True)
