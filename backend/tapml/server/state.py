"""What all parts of a running server share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tapml.browsers import STARTABLE_NAMES, DeviceProcess, start, startable_kind
from tapml.devices import Blobs, Device, DeviceHub
from tapml.devices.hub import device_named
from tapml.errors import InputError, ToolchainError
from tapml.folder import Folder
from tapml.history import Recorder
from tapml.server.jobs import Jobs
from tapml.server.models import ModelFolder
from tapml.server.registry import SuiteRegistry
from tapml.server.security import Security
from tapml.server.watching import SuiteWatch

_CONNECT_SECONDS = 60.0


@dataclass
class State:
    """Devices, blobs, suites, jobs and the processes this server started. `url` is where it listens.

    `database_url`: where the history of all suites is kept; without it each suite keeps its own. `models`, `pages`:
    what web pages load, and web pages.
    """

    security: Security
    url: str = ""
    database_url: str | None = None
    models: ModelFolder | None = None
    pages: Folder | None = None
    hub: DeviceHub = field(default_factory=DeviceHub)
    blobs: Blobs = field(default_factory=Blobs)
    processes: dict[str, DeviceProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        history = Recorder(self.database_url, "serve")
        self.suites = SuiteRegistry(self.blobs, history)
        self.jobs = Jobs(self.blobs, history)
        self.watch = SuiteWatch(self.suites)
        self._starting = threading.Lock()
        self.writing = threading.Lock()
        """Held while a kernel's file is compared and written."""

    @property
    def runner_url(self) -> str:
        """Where a browser becomes a device; carries the token where there is one."""
        return self.url + "/runner" + (f"?token={self.security.token}" if self.security.token else "")

    def device(
        self, name: str, waiting: Callable[[], None] | None = None, check: Callable[[], None] = lambda: None
    ) -> Device:
        """A device by the name of what runs it, started headless where it is not running yet, or a connected one by its
        id or name.

        With "+" and a device profile behind the name it seems to be a worse device (docs/fault-gallery.md).
        "open", where `waiting` is given: one that someone opened by hand. While there is none `waiting` is called once
        and `check` again and again: it ends the wait by raising.
        Raises InputError for a name that is none or that of several, ToolchainError where it cannot be started.
        """
        if (kind := startable_kind(name)) is not None:
            with self._starting:
                return self._running(name) or self._start(name, kind)
        if name == "open" and waiting is not None:
            if self.hub.wait_for(_by_hand, 0.0) is None:
                waiting()
            device = self.hub.wait_for(_by_hand, None, check)
            assert device is not None
            return device
        if name.startswith(("http://", "https://")):
            raise InputError(
                f"{name} is another server, which runs jobs on its devices itself: "
                f"open {self.runner_url} where the device is, and it is one here"
            )
        connected = {device.id: device for device in self.hub.connected()}
        names = {device.id: device.name for device in connected.values()}
        return connected[device_named(name, names, [*STARTABLE_NAMES, "open"])]

    def _running(self, name: str) -> Device | None:
        process = self.processes.get(name)
        if process is None or not process.alive:
            return None
        return self.hub.wait_for(lambda device: device.started == name, 5.0)

    def _start(self, name: str, kind: str) -> Device:
        if (stale := self.processes.pop(name, None)) is not None:
            stale.close()
            self._left(name, "it was started again")
        url = self.runner_url
        if profile := name.removeprefix(kind).removeprefix("+"):
            url += ("&" if self.security.token else "?") + urlencode({"profile": profile})
        # Behind "#" it is sent to nobody; the runner says it in its hello.
        secret = self.hub.expect(name)
        url += "#" + urlencode({"secret": secret})
        process = start(kind, url, on_exit=lambda reason: self._left(name, reason))
        self.processes[name] = process
        deadline = time.monotonic() + _CONNECT_SECONDS
        while time.monotonic() < deadline and process.alive:
            device = self.hub.wait_for(lambda found: found.started == name, 1.0)
            if device is not None:
                device.on_hung = lambda: self._reset(name, kind)
                return device
        said = " | ".join(process.console[-5:]) or "it printed nothing"
        process.close()
        raise ToolchainError(f"{name} was started but did not connect ({said}): try again")

    def _left(self, name: str, reason: str) -> None:
        self.hub.left(lambda device: device.started == name, reason)

    def _reset(self, name: str, kind: str) -> None:
        """The GPU of a device hangs: nothing in the device itself can end that."""
        with self._starting:
            process = self.processes.get(name)
            if process is not None and not process.reset_gpu():
                self._start(name, kind)

    def close(self) -> None:
        """Stop jobs and watching, and close the browsers that were started."""
        self.watch.close()
        self.jobs.cancel_all()
        for process in self.processes.values():
            process.close()
        self.processes.clear()


def _by_hand(device: Device) -> bool:
    return device.started is None
