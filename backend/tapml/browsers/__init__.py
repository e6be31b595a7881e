"""Devices that can be started on this machine: real browsers, and JavaScript runtimes with WebGPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tapml.browsers import find
from tapml.browsers.drivers import WEBDRIVER_KINDS, Driver, find_driver
from tapml.browsers.headless import HEADLESS_TITLES, HeadlessProcess, Runtime, find_node, find_runtime
from tapml.browsers.process import BrowserProcess
from tapml.browsers.running import DeviceProcess
from tapml.errors import InputError, ToolchainError
from tapml.text import meant

__all__ = [
    "PAGE_BROWSERS",
    "STARTABLE_NAMES",
    "DeviceProcess",
    "Startable",
    "check_startable",
    "find_node",
    "start",
    "startable",
    "startable_kind",
]

PAGE_BROWSERS = (*find.KINDS, *WEBDRIVER_KINDS)
"""Those of them that open any page."""

STARTABLE_NAMES = (*PAGE_BROWSERS, *HEADLESS_TITLES)
"""What `start` knows: browsers by Playwright, by W3C WebDriver, then runtimes without one."""


def startable_kind(name: str) -> str | None:
    """What runs a device of this name, "node-dawn" of "node-dawn+no-f16", where that can be started."""
    kind = name.partition("+")[0]
    return kind if kind in STARTABLE_NAMES else None


def check_startable(name: str, *others: str) -> None:
    """`others`: what else may be given, in words. Raises InputError for a device that tapml cannot start here."""
    if startable_kind(name):
        return
    known = ", ".join(STARTABLE_NAMES)
    also = "".join(f", or {other}" for other in others)
    hint = meant(name, STARTABLE_NAMES) or ":"
    raise InputError(f"there is no device {name!r} that this machine can start{hint} give one of {known}{also}")


def start(name: str, url: str, *, on_exit: Callable[[str], None] | None = None) -> DeviceProcess:
    """Start a device of the server whose runner page is `url`; a browser opens any other page as well. Returns once it
    runs and its page has loaded. Whatever is still open when Python exits is closed then.

    `on_exit` is called once, from a thread of its own, with the reason if its process or its driver dies or its tab
    crashes or is closed; not if `close` ends it.

    Raises InputError for an unknown name, ToolchainError where something is missing, does not start or cannot open the
    page, and where there is no room for temporary files.
    """
    try:
        process = _made(name, url, on_exit)
        try:
            process.open()
        except BaseException:
            process.close()
            raise
    except OSError as error:
        raise ToolchainError(
            f"{name} cannot be started: {error.strerror or error}; free space, or name another folder for temporary "
            "files by TMPDIR"
        ) from error
    return process


def _made(name: str, url: str, on_exit: Callable[[str], None] | None) -> DeviceProcess:
    found = _find(name)
    if isinstance(found, Runtime):
        return HeadlessProcess(name, found, url, on_exit)
    if isinstance(found, Driver):
        from tapml.browsers.webdriver import WebDriverProcess  # late: selenium need not be there

        return WebDriverProcess(found, url, on_exit)
    return BrowserProcess(found, url, on_exit)


def _find(name: str) -> find.Found | Driver | Runtime:
    """What runs a device of this name. Raises ToolchainError with what to do where it cannot be started."""
    if name in HEADLESS_TITLES:
        return find_runtime(name)
    return find_driver(name) if name in WEBDRIVER_KINDS else find.find(name)


@dataclass(frozen=True)
class Startable:
    """Whether a browser can be started here; `message` says what to do where not."""

    name: str
    available: bool
    version: str
    message: str


def startable() -> list[Startable]:
    """Whether each can be started here, and what to do where not; starts none."""
    found = []
    for name in STARTABLE_NAMES:
        try:
            found.append(Startable(name, available=True, version=_find(name).version, message=""))
        except ToolchainError as error:
            found.append(Startable(name, available=False, version="", message=str(error)))
    return found
