"""What all parts of a running server share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tapml.browsers import BrowserProcess, launch
from tapml.devices import Blobs, Device, DeviceHub
from tapml.errors import InputError, ToolchainError
from tapml.server.jobs import Jobs
from tapml.server.registry import SuiteRegistry
from tapml.server.security import Security

BROWSERS = ("chromium", "firefox", "webkit")
_CONNECT_SECONDS = 60.0


@dataclass
class State:
    """Devices, blobs, suites, jobs and the browsers this server started. `url` is where it listens."""

    security: Security
    url: str = ""
    hub: DeviceHub = field(default_factory=DeviceHub)
    blobs: Blobs = field(default_factory=Blobs)
    browsers: dict[str, BrowserProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.suites = SuiteRegistry(self.blobs)
        self.jobs = Jobs(self.blobs)
        self._starting = threading.Lock()

    @property
    def runner_url(self) -> str:
        """Where a browser becomes a device; carries the token where there is one."""
        return self.url + "/runner" + (f"?token={self.security.token}" if self.security.token else "")

    def device(self, name: str) -> Device:
        """A connected device by id, or a browser by name, started headless where it is not running yet.

        Raises InputError for an unknown name and ToolchainError where the browser cannot be started.
        """
        if name in BROWSERS:
            return self._browser(name)
        device = self.hub.get(name)
        if device is None or not device.connected:
            raise InputError(
                f"no device {name!r}: give {', '.join(BROWSERS[:2])} or the id of a connected device; any other "
                "browser joins by opening the device page (--device open prints its address)"
            )
        return device

    def _browser(self, name: str) -> Device:
        tag = f"browser-{name}"
        with self._starting:
            running = self.browsers.get(name)
            if running is not None and running.alive:
                found = self.hub.wait_for(lambda d: d.hello.tag == tag, 5.0)
                if found is not None:
                    return found
                running.close()
            separator = "&" if self.security.token else "?"
            browser = launch(name, f"{self.runner_url}{separator}device={tag}")
            self.browsers[name] = browser
            device = self.hub.wait_for(lambda d: d.hello.tag == tag, _CONNECT_SECONDS)
            if device is None:
                said = " | ".join(browser.console[-5:]) or "its page printed nothing"
                browser.close()
                raise ToolchainError(f"{name} opened the device page but did not connect ({said}): try again")
            return device

    def wait_for_device(self, timeout: float | None = None, waiting: Callable[[], None] = lambda: None) -> Device:
        """Any device that someone opened by hand; `waiting` is called once if there is none yet.

        Raises InputError after `timeout` seconds.
        """

        def wanted(device: Device) -> bool:
            return not (device.hello.tag or "").startswith("browser-")

        device = self.hub.wait_for(wanted, 0.0)
        if device is None:
            waiting()
            device = self.hub.wait_for(wanted, timeout)
        if device is None:
            raise InputError(f"nobody opened {self.url}/runner within {timeout:.0f} s")
        return device

    def close(self) -> None:
        """Stop jobs and close the browsers that were started."""
        self.jobs.cancel_all()
        for browser in self.browsers.values():
            browser.close()
        self.browsers.clear()
