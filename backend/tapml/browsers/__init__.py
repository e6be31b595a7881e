"""Devices that can be started on this machine: real browsers, and JavaScript runtimes with WebGPU."""

from __future__ import annotations

from collections.abc import Callable

from tapml.browsers.find import KINDS, Startable
from tapml.browsers.find import startable as _browsers
from tapml.browsers.headless import HEADLESS_KINDS, HeadlessProcess, headless_startable, launch_headless
from tapml.browsers.process import BrowserProcess, launch

__all__ = ["STARTABLE_NAMES", "BrowserProcess", "HeadlessProcess", "Startable", "launch", "start", "startable"]

STARTABLE_NAMES = (*KINDS, *HEADLESS_KINDS)
"""What `start` knows: browsers, then runtimes without one."""


def start(name: str, url: str, *, on_exit: Callable[[str], None] | None = None) -> BrowserProcess | HeadlessProcess:
    """Start a device of the server whose runner page is `url`. See `launch` and `launch_headless`."""
    if name in HEADLESS_KINDS:
        return launch_headless(name, url, on_exit=on_exit)
    return launch(name, url, on_exit=on_exit)


def startable() -> list[Startable]:
    """Whether each can be started here, and what to do where not; starts none."""
    return [*_browsers(), *headless_startable()]
