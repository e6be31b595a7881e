"""The simulation step: a release's version in real browsers of this machine, before any device of a user has it."""

from __future__ import annotations

import logging
import time
import urllib.request
from http.client import HTTPException
from urllib.parse import urlencode

from tapml.browsers import start
from tapml.errors import InputError, ToolchainError
from tapml.field.releases import NamedStep, Release
from tapml.field.service.fleet_state import FleetState, milliseconds
from tapml.field.service.looking import Looking

_log = logging.getLogger(__name__)
_PAGE_SECONDS = 20


def check_page(address: str) -> None:
    """Raises InputError where there is no page: that says nothing of any release."""
    remedy = "--simulate takes the address of a page, or the path of one that is served here, such as /pages/"
    if not address.startswith(("http://", "https://")):
        raise InputError(f"{address} is no address of a page: {remedy}")
    try:
        with urllib.request.urlopen(address, timeout=_PAGE_SECONDS):
            pass
    except (OSError, ValueError, HTTPException) as error:
        raise InputError(f"{address} cannot be opened ({error}): {remedy}") from error


class Simulator(Looking):
    """Opens `page` in each browser that a simulation step names, as the device that stands for it. The page runs what
    its device is given and reports, as in every other browser; it is told by its address's fragment who it is
    (`device`) and what it is to go without (`without`)."""

    def __init__(self, state: FleetState, page: str, seconds: float = 120.0) -> None:
        """`seconds`: within which a browser has to have reported."""
        super().__init__("field simulation", 1.0, "the simulation waits")
        self._state = state
        self._page = page
        self._within = seconds
        self._done: set[tuple[int, str]] = set()

    def look(self) -> bool:
        """Run what is to be run now. A browser that does not start, or does not report in time, ends the release.
        Raises InputError where the page is not there, which is no release's fault."""
        for release in self._state.releases:
            step = release.plan.steps[release.step]
            if release.status != "running" or not isinstance(step, NamedStep):
                continue
            for device, cell in zip(step.devices, step.browsers, strict=False):
                if self._end.is_set() or (release.number, device) in self._done:
                    continue
                check_page(self._page)
                self._done.add((release.number, device))
                if trouble := self._run(release, device, cell):
                    self._roll_back(release, f"the simulation test failed in {cell}: {trouble}")
                    break
        return False

    def _run(self, release: Release, device: str, cell: str) -> str:
        """Why it failed; empty where the device reported, whatever it said."""
        browser, *without = cell.split("+no-")
        told = urlencode([("device", device), ("simulation", "1"), *(("without", name) for name in without)])
        try:
            with start(browser, f"{self._page}#{told}") as process:
                end = time.monotonic() + self._within
                while not self._state.store.reported(release, device):
                    if self._end.wait(0.3):
                        return ""
                    if not process.alive:
                        return "the browser ended"
                    if time.monotonic() > end:
                        said = f"; its page said: {process.console[-1]}" if process.console else ""
                        return f"nothing was reported within {self._within:.0f} s{said}"
        except (ToolchainError, InputError) as error:
            return str(error)
        return ""

    def _roll_back(self, release: Release, reason: str) -> None:
        try:
            self._state.store.roll_back(release.plan.task, release.plan.version, reason, milliseconds())
        except InputError as error:  # somebody else was quicker
            _log.warning("%s: %s", reason, error)
