"""Running validations, offloads and searches for faulty kernels from the command line, here or at a running server."""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from rich.console import Console

from tapml.browsers import startable_kind
from tapml.cli.arguments import DEFAULT_SERVER, database_url
from tapml.cli.external import external
from tapml.devices import Device
from tapml.errors import InputError
from tapml.formats import validated
from tapml.history import Recorder, check_database
from tapml.jobs import JobSpecification, run_job
from tapml.jobs.job import Offer
from tapml.protocol.methods import Verdict
from tapml.reports.progress import ProgressReport
from tapml.results.verdicts import FAILING
from tapml.server import Server
from tapml.server.client import RemoteServer
from tapml.suite import Suite
from tapml.text import duration
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel, Cancelled


def specification(kind: str, options: argparse.Namespace) -> JobSpecification:
    """The job that a command's options state. Raises InputError for an option beyond its range."""
    fields = {
        "kind": kind,
        "devices": options.device or ["chromium"],
        "kernels": getattr(options, "kernel", None),
        "hang_seconds": options.hang_seconds,
    }
    if kind == "locate":
        fields |= {"runs": options.runs, "model": not options.no_model}
    if kind == "reduce":
        fields |= {"tests": [options.test]}
    return validated("the command", JobSpecification, fields, "")


def run(
    job: JobSpecification,
    suite: Suite,
    options: argparse.Namespace,
    console: Console,
    server: Server | None = None,
    offer: Offer | None = None,
) -> Any:
    """Run a job on the devices that it names; Ctrl-C ends it early and keeps what was found.

    `server`: one that runs already, with its browsers; otherwise one is started for this run. `offer` takes a reduced
    test.
    """
    job.check(suite)
    functions, folders = external(getattr(options, "external", []))
    if folders:
        raise InputError(f"--external {folders[0]}: kernels are given to `tapml carve`; give a .py file here")
    url = database_url(options) if job.kind == "validation" else None
    with ProgressReport(console) as report, interruptible() as cancel:
        show = JobEvents(report)
        if remote := next(filter(None, map(elsewhere, job.devices)), None):
            if len(job.devices) > 1:
                raise InputError(f"give a device of a running server ({remote.address}) as the only --device")
            if functions:
                raise InputError("--external runs functions in this process: give a device of this machine")
            if getattr(options, "database_url", None):
                raise InputError(f"{remote.base} records the run itself: give --database-url to its `tapml serve`")
            return remote.run(job, suite, show, cancel, offer)
        check_database(url)
        with served(server, options, job.devices) as used:
            devices = [acquire(used, name, report, cancel) for name in dict.fromkeys(job.devices)]
            context = JobContext(suite, devices, used.state.blobs, show, cancel, functions=functions)
            return run_job(job, context, history=Recorder(url, "validate"), offer=offer)


def elsewhere(name: str) -> RemoteServer | None:
    """The running server whose device is meant: by its address, or by a name that is none of this machine's."""
    if name == "open" or startable_kind(name):
        return None
    if name.startswith(("http://", "https://")):
        return RemoteServer(name)
    server = RemoteServer(f"{DEFAULT_SERVER}#{quote(name)}")
    with contextlib.suppress(InputError):  # nobody is there: whoever starts devices here says what is known
        server.devices()
        return server
    return None


@contextmanager
def served(server: Server | None, options: argparse.Namespace, devices: Sequence[str]) -> Iterator[Server]:
    """`server`, or a new one; where it listens matters only to people who open its address."""
    if server is not None:
        yield server
        return
    host, port = (str(options.host), int(options.port)) if "open" in devices else ("127.0.0.1", 0)
    with Server(host=host, port=port) as started:
        yield started


def acquire(server: Server, name: str, report: ProgressReport, cancel: Cancel) -> Device:
    """A device by name, started or waited for. Raises what `State.device` raises, and Cancelled."""
    report.update(f"starting {name}", 0, 1)
    address = server.state.runner_url
    found = server.state.device(name, lambda: report.line(f"waiting for a browser: open {address}"), cancel.check)
    report.update(f"starting {name}", 1, 1)
    return found


@contextmanager
def interruptible() -> Iterator[Cancel]:
    """The first Ctrl-C asks the run to stop and keep its results; the second ends the program at once, as does the
    first where there is nothing to keep yet.
    """
    cancel = Cancel()

    def interrupt(*_: object) -> None:
        if cancel.requested:
            raise KeyboardInterrupt
        cancel.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield cancel
    except Cancelled:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


class JobEvents:
    """Job events as progress."""

    def __init__(self, report: ProgressReport) -> None:
        self._report = report
        self._names: dict[str, str] = {}
        self._done: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._total = 0
        self._kind = ""

    def __call__(self, event: dict[str, Any]) -> None:
        update = self._report.update
        match event["type"]:
            case "started":
                self._kind, self._total = event["kind"], event["total"]
            case "device":
                self._names[event["device"]["id"]] = event["device"]["name"]
            case "compile":
                name = self._names.get(event["device"], event["device"])
                update(f"{name}: compiling kernels", event["done"], event["total"], event["kernel"])
            case "verdict":
                self._verdict(event["device"], event["result"]["verdict"], event.get("left"))
            case "step":
                step = event["step"]
                note = f"{step['kernel']} {'moved' if step['kept'] else 'is on the reference'}"
                update("offloading", event["number"], event["total"], note)
            case "examine":
                update("looking for patterns", event["number"], event["total"], event["kernel"])
            case "model":
                # How many runs a search takes is known when it has ended.
                update(event["text"], event["runs"], event["runs"] + 1)
            case "reduce":
                update("reducing", event["runs"], event["runs"] + 1)
            case "message":
                self._report.line(event["text"])

    def _verdict(self, device: str, verdict: Verdict, left: float | None) -> None:
        self._done[device] += 1
        self._bad[device] += verdict in FAILING
        if self._kind == "offload":
            return
        name, bad = self._names.get(device, device), self._bad[device]
        total = self._total // max(1, len(self._names))
        done = self._done[device]
        notes = [f"{bad} failing"] if bad else []
        if left is not None and done < total:
            notes.append(f"about {duration(left)} left")
        self._report.update(f"{name}: validating", done, total, ", ".join(notes))
