"""The browsers of `tapml field demo`: users of a few processes, of which some have subgroups."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

from tapml.browsers import start
from tapml.cli.field_demo_model import LAB, VARIANT
from tapml.field.decisions import device_key, position, release_salt
from tapml.field.releases import Plan

_PROCESSES = 2
_LOOK_SECONDS = 0.1
_SHARE = 5, 2
"""Of every five users two have subgroups."""
_BETA = 2
_USERS_SCALE = 20 * LAB
_REFUSING = 8
"""Every so manyth user refuses that anything but a profile leaves the device."""


@dataclass(frozen=True)
class Fleet:
    """Names of devices; `affected` have the feature by which the wrong variant runs."""

    devices: tuple[str, ...]
    affected: frozenset[str]
    beta: list[str]

    @property
    def refusing(self) -> frozenset[str]:
        """Those of whom the service hears nothing but what they hold: neither inputs nor reports leave them."""
        return frozenset(self.devices[_REFUSING - 1 :: _REFUSING])

    @contextlib.contextmanager
    def opened(
        self, browser: str, page: str, runs: Callable[[str], bool], seconds: float, progress: Callable[[int], None]
    ) -> Iterator[None]:
        """Every device has a page of its own in a context of its own, for the length of a `with` block. Where one is
        opened, the one before it has run its task, as `runs` tells, or `seconds` have gone by since that was opened:
        Python of forty at once would not start in time. A device that refuses tells nothing, and is not waited for.
        `progress` is told how many are open, from any thread."""
        opened, refusing = itertools.count(1), self.refusing
        with contextlib.ExitStack() as held:
            groups = [self.devices[first::_PROCESSES] for first in range(_PROCESSES)]

            def open_all(group: tuple[str, ...]) -> None:
                addresses = [self._address(page, device) for device in group]
                process = held.enter_context(start(browser, addresses[0]))
                progress(next(opened))
                for before, address in zip(group, addresses[1:], strict=False):
                    end = time.monotonic() + (0 if before in refusing else seconds)
                    while time.monotonic() < end and not runs(before):
                        time.sleep(_LOOK_SECONDS)
                    process.open_beside(address)
                    progress(next(opened))

            with ThreadPoolExecutor(_PROCESSES) as workers:
                for done in [workers.submit(open_all, group) for group in groups if group]:
                    done.result()
            yield

    def _address(self, page: str, device: str) -> str:
        consent = "no" if device in self.refusing else "yes"
        told = [("device", device), ("consent", consent), ("scale", str(_USERS_SCALE))]
        if device not in self.affected:
            told.append(("without", VARIANT))
        return f"{page}#{urlencode(told)}"


def fleet_of(count: int, plan: Plan) -> Fleet:
    """`count` users, spread evenly over the order in which `plan` reaches devices, and the affected ones among them:
    each run of the demo meets as many of both in each step."""
    salt = release_salt(plan)
    ordered = [_name(salt, number, count) for number in range(count)]
    every, of_these = _SHARE
    affected = {name for number, name in enumerate(ordered) if number % every >= every - of_these}
    beta = [name for name in ordered if name not in affected][-_BETA:]
    return Fleet(tuple(ordered), frozenset(affected), beta)


def _name(salt: int, number: int, count: int) -> str:
    """Drawn at random until its position is in that part of the ring."""
    while True:
        name = secrets.token_urlsafe(16)
        if position(device_key(name), salt) * count >> 64 == number:
            return name
