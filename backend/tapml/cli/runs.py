"""Running validations, offloads and searches for faulty kernels from the command line, here or at a running server."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from tapml.cli.history_options import database_url
from tapml.devices import Device
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.history import Recorder, check_database
from tapml.locating import Locate
from tapml.locating.locate import save_locate
from tapml.reports.progress import ProgressReport
from tapml.server import Server
from tapml.server.client import RemoteServer
from tapml.suite import Suite
from tapml.validation.events import Cancel
from tapml.validation.operatorwise import OperatorRun, require_devices
from tapml.validation.results import FAILING, keep, save_offload


def run_validation(
    suite: Suite,
    devices: Sequence[str],
    options: argparse.Namespace,
    console: Console,
    kernels: list[str] | None,
    server: Server | None = None,
) -> dict[str, Any]:
    """Validate on the named devices; Ctrl-C ends it early and keeps what was validated.

    `server`: one that runs already, with its browsers; otherwise one is started for this run.
    """
    for name in kernels or []:
        suite.bundle(name)  # an unknown one is an error before any browser starts
    with ProgressReport(console) as report, interruptible() as cancel:
        show = JobEvents(report)
        if remote := _remote(devices):
            if options.database_url:
                raise InputError(f"{remote.base} records the run itself: give --database-url to its `tapml serve`")
            return remote.run("validation", suite, kernels, show, cancel)
        check_database(database_url(options))
        with served(server, options, devices) as used:
            connected = acquire(used, devices, report)
            blobs = used.state.blobs
            hang = getattr(options, "hang_seconds", HANG_SECONDS)  # `tapml demo` has no such option
            return OperatorRun(
                suite,
                connected,
                blobs,
                kernels=kernels,
                emit=show,
                cancel=cancel,
                save=True,
                history=Recorder(database_url(options), "validate"),
                hang_seconds=hang,
            ).run()


def run_offload(
    suite: Suite, device: str, options: argparse.Namespace, console: Console, server: Server | None = None
) -> dict[str, Any]:
    """Offload to one device; Ctrl-C ends it early and keeps the trace. `server`: as in `run_validation`."""
    suite.require_model()  # before anything starts
    from tapml.validation.offload import Offload  # late: TVM takes seconds to load, and a validation goes without

    with ProgressReport(console) as report, interruptible() as cancel:
        show = JobEvents(report)
        if remote := _remote([device]):
            return remote.run("offload", suite, None, show, cancel)
        with served(server, options, [device]) as used:
            (connected,) = acquire(used, [device], report)
            document = Offload(suite, connected, used.state.blobs, emit=show, cancel=cancel).run()
            show.problem(keep(suite, save_offload, document))
            return document


def run_locate(suite: Suite, device: str, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Locate on one device; Ctrl-C ends it early and keeps what was found."""
    for name in options.kernel or []:
        suite.bundle(name)  # an unknown one is an error before any browser starts
    with ProgressReport(console) as report, interruptible() as cancel:
        show = JobEvents(report)
        wanted = {"runs": options.runs, "model": not options.no_model}
        if remote := _remote([device]):
            return remote.run("locate", suite, options.kernel, show, cancel, **wanted)
        with served(None, options, [device]) as used:
            (connected,) = acquire(used, [device], report)
            blobs = used.state.blobs
            hang = options.hang_seconds
            search = Locate(
                suite, connected, blobs, kernels=options.kernel, emit=show, cancel=cancel, hang_seconds=hang, **wanted
            )
            document = search.run()
            show.problem(keep(suite, save_locate, document))
            return document


def _remote(devices: Sequence[str]) -> RemoteServer | None:
    urls = [name for name in devices if name.startswith(("http://", "https://"))]
    if not urls:
        return None
    if len(devices) > 1:
        raise InputError("give the address of a server as the only --device")
    return RemoteServer(urls[0])


@contextmanager
def served(server: Server | None, options: argparse.Namespace, devices: Sequence[str]) -> Iterator[Server]:
    """`server`, or a new one; where it listens matters only to people who open its address."""
    if server is not None:
        yield server
        return
    host, port = (str(options.host), int(options.port)) if "open" in devices else ("127.0.0.1", 0)
    with Server(host=host, port=port) as started:
        yield started


def acquire(server: Server, names: Sequence[str], report: ProgressReport) -> list[Device]:
    """Devices by name, started or waited for. Raises what `State.device` raises, InputError for one without WebGPU."""
    found: list[Device] = []
    for name in dict.fromkeys(names):
        if name == "open":
            device = server.state.wait_for_device(
                waiting=lambda: report.line(f"waiting for a browser: open {server.state.runner_url}")
            )
        else:
            report.update(f"starting {name}", 0, 1)
            device = server.state.device(name)
            report.update(f"starting {name}", 1, 1)
        found.append(device)
    require_devices(found)
    return found


@contextmanager
def interruptible() -> Iterator[Cancel]:
    """The first Ctrl-C asks the run to stop and keep its results; the second ends the program at once."""
    cancel = Cancel()

    def interrupt(*_: object) -> None:
        if cancel.requested:
            raise KeyboardInterrupt
        cancel.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield cancel
    finally:
        signal.signal(signal.SIGINT, before)


class JobEvents:
    """Job events as progress."""

    def __init__(self, report: ProgressReport) -> None:
        self._report = report
        self._names: dict[str, str] = {}
        self._done: dict[str, int] = {}
        self._bad: dict[str, int] = {}
        self._total = 0
        self._kind = ""

    def problem(self, text: str | None) -> None:
        """What could not be kept, if anything."""
        if text is not None:
            self._report.line(text)

    def __call__(self, event: dict[str, Any]) -> None:
        handler: Callable[[dict[str, Any]], None] | None = getattr(self, f"_on_{event['type']}", None)
        if handler:
            handler(event)

    def _on_started(self, event: dict[str, Any]) -> None:
        self._kind, self._total = event["kind"], event["total"]

    def _on_device(self, event: dict[str, Any]) -> None:
        device = event["device"]
        self._names[device["id"]] = device["name"]

    def _on_compile(self, event: dict[str, Any]) -> None:
        name = self._names.get(event["device"], event["device"])
        self._report.update(f"{name}: compiling kernels", event["done"], event["total"], event["kernel"])

    def _on_verdict(self, event: dict[str, Any]) -> None:
        device = event["device"]
        self._done[device] = self._done.get(device, 0) + 1
        self._bad[device] = self._bad.get(device, 0) + (event["result"]["verdict"] in FAILING)
        if self._kind == "offload":
            return
        name, bad = self._names.get(device, device), self._bad[device]
        total = self._total // max(1, len(self._names))
        self._report.update(f"{name}: validating", self._done[device], total, f"{bad} failing" if bad else "")

    def _on_step(self, event: dict[str, Any]) -> None:
        step = event["step"]
        note = step["kernel"] if step["kept"] else f"{step['kernel']} stays on the reference"
        self._report.update("offloading", event["number"], event["total"], note)

    def _on_examine(self, event: dict[str, Any]) -> None:
        self._report.update("looking for patterns", event["number"], event["total"], event["kernel"])

    def _on_model(self, event: dict[str, Any]) -> None:
        # How many runs a search takes is known when it has ended.
        self._report.update(event["text"], event["runs"], event["runs"] + 1)

    def _on_reduce(self, event: dict[str, Any]) -> None:
        self._report.update("reducing", event["runs"], event["runs"] + 1)

    def _on_message(self, event: dict[str, Any]) -> None:
        self._report.line(event["text"])
