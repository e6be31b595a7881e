"""The browsers of `tapml field demo` are opened one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tapml.cli import field_demo_fleet
from tapml.cli.field_demo_fleet import Fleet

DEVICES = tuple(f"device{number:02}" for number in range(16))
FLEET = Fleet(DEVICES, affected=frozenset(DEVICES[::2]), beta=[])
EVER = 600.0


class Service:
    """In place of browsers and service: which device a page was opened for, and which of them have reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, silent: frozenset[str] = frozenset()) -> None:
        self.opened: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self._silent = silent
        monkeypatch.setattr(field_demo_fleet, "start", self._start)

    @contextmanager
    def _start(self, _browser: str, url: str) -> Iterator[Service]:
        self.open_beside(url)
        yield self

    def open_beside(self, url: str) -> None:
        told = {name: values[0] for name, values in parse_qs(urlsplit(url).fragment).items()}
        self.opened[told["device"]] = told["consent"]

    def runs(self, device: str) -> bool:
        self.asked[device] += 1
        # A device reports when it was asked twice; who refuses never does.
        return device not in self._silent and self.opened[device] == "yes" and self.asked[device] > 1


def test_each_is_opened_once_the_one_before_has_reported_and_who_refuses_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, counts = Service(monkeypatch), []
    with FLEET.opened("chromium", "http://127.0.0.1/", service.runs, EVER, counts.append):
        assert set(service.opened) == set(DEVICES)
        assert sorted(counts) == list(range(1, len(DEVICES) + 1))
    refusing = {device for device, consent in service.opened.items() if consent == "no"}
    assert refusing == FLEET.refusing == {DEVICES[7], DEVICES[15]}
    # All but the last of each process and those who refuse were asked until they had reported.
    assert set(service.asked) == set(DEVICES[:14]) - refusing
    assert set(service.asked.values()) == {2}


def test_a_device_that_does_not_report_holds_the_others_up_for_its_own_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service(monkeypatch, silent=frozenset(DEVICES))
    with FLEET.opened("chromium", "http://127.0.0.1/", service.runs, 0.01, lambda _: None):
        assert set(service.opened) == set(DEVICES)
