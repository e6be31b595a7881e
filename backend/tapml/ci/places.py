"""Where the tests of a run run: devices here, started once for all suites, and those of running servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tapml.browsers import STARTABLE_NAMES, DeviceProcess, startable_kind
from tapml.browsers.drivers import WEBDRIVER_KINDS
from tapml.browsers.find import KINDS
from tapml.devices import Blobs, Device
from tapml.errors import InputError, TapmlError, ToolchainError
from tapml.files import slug, unique
from tapml.jobs import JobSpecification, run_job
from tapml.results.base import DeviceDocument
from tapml.results.checks import DEVICE
from tapml.results.run import RunDeviceDocument
from tapml.results.validation import TestResult, ValidationDocument
from tapml.server.client import RemoteServer
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel, Emit

Elsewhere: TypeAlias = Callable[[str], RemoteServer | None]
"""The running server that a name means, if it means one."""


RunJob: TypeAlias = Callable[[JobSpecification, Suite, Emit, Cancel], Any]
"""Runs a job on one device; gives its document."""


class Place:
    """One device of a run, or why there is none. `requested`: the `--device` that it answers; `id`: unique in the run,
    and what its events and results name.
    """

    def __init__(
        self,
        requested: str,
        document: DeviceDocument,
        run: RunJob,
        unavailable: str | None = None,
        problem: TapmlError | None = None,
    ) -> None:
        self.requested = requested
        self.id = document["id"]
        self.unavailable = str(problem) if problem else unavailable
        """Why it cannot run WebGPU at all."""
        self.problem = problem
        """Why it could not be started, or is not to be had."""
        self._document = document
        self._run = run

    @property
    def name(self) -> str:
        return self._document["name"]

    @property
    def document(self) -> DeviceDocument:
        """What is known of the device."""
        return {**self._document, "id": self.id}

    def run(
        self,
        specification: JobSpecification,
        suite: Suite,
        emit: Emit = lambda event: None,
        cancel: Cancel | None = None,
    ) -> ValidationDocument:
        """Run a validation. Raises InputError for a suite that cannot be run there, ToolchainError where the device
        could not be started, and TapmlError where a server is gone.
        """

        def mine(event: dict[str, Any]) -> None:
            emit({**event, "device": self.id} if isinstance(event.get("device"), str) else event)

        specification = specification.model_copy(update={"devices": [self.requested]})
        document: ValidationDocument = self._run(specification, suite, mine, cancel or Cancel())
        (self._document,) = document["devices"]
        tests: list[TestResult] = [{**test, "device": self.id} for test in document["tests"]]
        return {**document, "devices": [self.document], "tests": tests}

    def describe(self) -> RunDeviceDocument:
        """The `devices` entry of tapml.test/1."""
        kind = startable_kind(self.requested) or ""
        driver = WEBDRIVER_KINDS[kind].driver if kind in WEBDRIVER_KINDS else "Playwright" if kind in KINDS else None
        return {**self.document, "requested": self.requested, "driver": driver, "unavailable": self.unavailable}


def device_here(requested: str, device: Device, blobs: Blobs) -> Place:
    """A device of this process."""

    def run(specification: JobSpecification, suite: Suite, emit: Emit, cancel: Cancel) -> Any:
        return run_job(specification, JobContext(suite, [device], blobs, emit, cancel))

    return Place(requested, device.describe(), run, device.hello.unavailable)


def device_there(requested: str, server: RemoteServer, emit: Emit, cancel: Cancel) -> Place:
    """The device of a running server that its address names."""
    found = server.device(emit, cancel)
    return Place(requested, found, server.run, found["unavailable"])


def nowhere(requested: str, problem: TapmlError) -> Place:
    """A device that is not to be had: its tests cannot run."""

    def run(*_: object) -> Any:
        raise problem

    known = {"id": slug(requested, "device"), "name": requested, "user_agent": "", "adapter": {}}
    return Place(requested, DEVICE.validate_python(known), run, problem=problem)


def check_names(names: Sequence[str], elsewhere: Elsewhere) -> dict[str, str]:
    """The names, each once, and what reports call them. Raises InputError for one that no device can have."""
    return {name: _shown(name, elsewhere(name)) for name in names}


def _shown(name: str, server: RemoteServer | None) -> str:
    """Reports are published: a server's token is none of their business."""
    if server is None and name != "open" and not startable_kind(name):
        raise InputError(
            f"--device {name}: give {', '.join(STARTABLE_NAMES)}, open, or the address of a running `tapml serve`"
        )
    return server.address if server is not None and _is_address(name) else name


def _is_address(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def find_places(
    names: Iterable[str],
    here: Callable[[str], Device],
    blobs: Blobs,
    elsewhere: Elsewhere,
    emit: Emit = lambda event: None,
    cancel: Cancel | None = None,
) -> list[Place]:
    """A place for each name. One that is not to be had is among them with its problem: the others are tested all the
    same.

    `here` starts a device, or waits for it. Raises InputError for a name that is no device's.
    """
    found: list[Place] = []
    for name in dict.fromkeys(names):
        server = elsewhere(name)
        shown = _shown(name, server)
        try:
            place = (
                device_here(shown, here(name), blobs)
                if server is None
                else device_there(shown, server, emit, cancel or Cancel())
            )
        except TapmlError as problem:
            if not isinstance(problem, ToolchainError) and not _is_address(name):
                raise
            place = nowhere(shown, problem)
        place.id = unique(place.id, {other.id for other in found}.__contains__)
        found.append(place)
    return found


def screenshots(processes: Mapping[str, DeviceProcess], places: Sequence[Place]) -> dict[str, bytes]:
    """PNG pictures of the devices' pages by device id, of those that were started here and have a page."""
    pictures: dict[str, bytes] = {}
    for place in places:
        process = processes.get(place.requested)
        if process is not None and (picture := process.screenshot()):
            pictures[place.id] = picture
    return pictures
