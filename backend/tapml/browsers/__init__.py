"""Devices that can be started on this machine: real browsers, and JavaScript runtimes with WebGPU."""

from __future__ import annotations

from collections.abc import Callable

from tapml.browsers.drivers import WEBDRIVER_KINDS, find_driver
from tapml.browsers.find import KINDS, Startable, usable
from tapml.browsers.headless import HEADLESS_KINDS, find_runtime, launch_headless
from tapml.browsers.process import BrowserProcess, launch
from tapml.browsers.running import DeviceProcess
from tapml.errors import ToolchainError

__all__ = [
    "STARTABLE_NAMES",
    "BrowserProcess",
    "DeviceProcess",
    "Startable",
    "launch",
    "start",
    "startable",
    "startable_kind",
]

STARTABLE_NAMES = (*KINDS, *WEBDRIVER_KINDS, *HEADLESS_KINDS)
"""What `start` knows: browsers by Playwright, by W3C WebDriver, then runtimes without one."""


def startable_kind(name: str) -> str | None:
    """What runs a device of this name, "node-dawn" of "node-dawn+no-f16", where that can be started."""
    kind = name.partition("+")[0]
    return kind if kind in STARTABLE_NAMES else None


def start(name: str, url: str, *, on_exit: Callable[[str], None] | None = None) -> DeviceProcess:
    """Start a device of the server whose runner page is `url`. See `launch`, `launch_webdriver`, `launch_headless`.

    Raises what they raise, and ToolchainError where there is no room for temporary files.
    """
    try:
        if name in HEADLESS_KINDS:
            return launch_headless(name, url, on_exit=on_exit)
        if name in WEBDRIVER_KINDS:
            find_driver(name)  # says what is missing: also selenium, which need not be there
            from tapml.browsers.webdriver import launch_webdriver

            return launch_webdriver(name, url, on_exit=on_exit)
        return launch(name, url, on_exit=on_exit)
    except OSError as error:
        raise ToolchainError(
            f"{name} cannot be started: {error.strerror or error}; free space, or name another folder for temporary "
            "files by TMPDIR"
        ) from error


def startable() -> list[Startable]:
    """Whether each can be started here, and what to do where not; starts none."""
    found = []
    for name in STARTABLE_NAMES:
        try:
            found.append(Startable(name, available=True, version=_version(name), message=""))
        except ToolchainError as error:
            found.append(Startable(name, available=False, version="", message=str(error)))
    return found


def _version(name: str) -> str:
    """Raises ToolchainError with what to do where it cannot be started."""
    if name in HEADLESS_KINDS:
        return find_runtime(name).version
    return find_driver(name).version if name in WEBDRIVER_KINDS else usable(name)[1]
