"""The devices of a run: started once for all suites, each with the name it was asked for by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapml.browsers import STARTABLE_NAMES, startable_kind
from tapml.browsers.drivers import WEBDRIVER_KINDS
from tapml.browsers.find import KINDS
from tapml.devices import Device
from tapml.errors import InputError, ToolchainError
from tapml.results import DeviceDocument
from tapml.results.checks import DEVICE
from tapml.results.run import RunDeviceDocument
from tapml.server.state import State


@dataclass(frozen=True)
class RunDevice:
    """A connected device, or one that could not be started. `requested`: the `--device` that it answers."""

    requested: str
    device: Device | None
    problem: str = ""
    """Why it could not be started."""

    @property
    def id(self) -> str:
        return self.requested if self.device is None else self.device.id

    @property
    def name(self) -> str:
        return self.requested if self.device is None else self.device.name

    @property
    def unavailable(self) -> str | None:
        """Why it cannot run WebGPU at all."""
        return self.problem if self.device is None else self.device.hello.unavailable

    def connected(self) -> Device:
        """The device. Raises ToolchainError where it could not be started."""
        if self.device is None:
            raise ToolchainError(self.problem)
        return self.device

    @property
    def driver(self) -> str | None:
        """What drives its browser; None where nothing does."""
        if kind := WEBDRIVER_KINDS.get(startable_kind(self.requested) or ""):
            return kind.driver
        return "Playwright" if startable_kind(self.requested) in KINDS else None

    def describe(self) -> RunDeviceDocument:
        """The `devices` entry of tapml.test/1."""
        known: DeviceDocument = (
            DEVICE.validate_python({"id": self.id, "name": self.name, "user_agent": "", "adapter": {}})
            if self.device is None
            else self.device.describe()
        )
        return {**known, "requested": self.requested, "driver": self.driver, "unavailable": self.unavailable}


def check_names(names: Sequence[str]) -> list[str]:
    """The names, each once. Raises InputError for one that no device can be started by."""
    for name in names:
        if not startable_kind(name) and name != "open":
            raise InputError(f"--device {name}: give {', '.join(STARTABLE_NAMES)} or open")
    return list(dict.fromkeys(names))


def start_devices(
    state: State,
    names: Sequence[str],
    starting: Callable[[str, int], None] = lambda name, done: None,
    waiting: Callable[[], None] = lambda: None,
) -> list[RunDevice]:
    """Start all. One that cannot be started is among them with its problem: the others are tested all the same.

    `starting` is told a name with 0, then with 1 when it is connected; `waiting` is called when "open" waits for
    someone to open the device page. Raises InputError for a name that is no device's.
    """
    found: list[RunDevice] = []
    for name in dict.fromkeys(names):
        starting(name, 0)
        try:
            found.append(RunDevice(name, state.device(name, waiting)))
        except ToolchainError as error:
            found.append(RunDevice(name, None, str(error)))
        starting(name, 1)
    return found


def screenshots(state: State, devices: Sequence[RunDevice]) -> dict[str, bytes]:
    """PNG pictures of the devices' pages by device id, of those that have a page."""
    pictures: dict[str, bytes] = {}
    for entry in devices:
        process = state.processes.get(entry.requested)
        if process is not None and (picture := process.screenshot()):
            pictures[entry.id] = picture
    return pictures
