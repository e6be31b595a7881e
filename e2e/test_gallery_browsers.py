"""The fault gallery in real browsers: each correct kernel passes there and each faulty one gets its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

import gallery
from gallery import Case
from pages import BROWSERS, People
from tapml.devices import Device
from tapml.server import Server


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """An entry's suite, carved once for both browsers."""
    made: dict[str, Path] = {}

    def get(slug: str) -> Path:
        if slug not in made:
            made[slug] = gallery.carved(slug, gallery.load(slug), tmp_path_factory.mktemp(slug))
        return made[slug]

    return get


class Tabs:
    """A browser's tab as it is, and beside it one with a profile: a tab is there sooner than a browser."""

    def __init__(self, name: str, server: Server, people: People) -> None:
        self.name, self.server = name, server
        self._people = people
        self._tabs: dict[str, tuple[Page, str]] = {}

    def device(self, case: Case) -> str:
        """The id of the device that is this browser with the case's profile."""
        profile = case.device.partition("+")[2]
        if profile not in self._tabs:
            for other in self._tabs.keys() - {""}:
                self._tabs.pop(other)[0].close()
            page = self._people.browser(self.name).new_page()
            page.goto(self.server.state.runner_url + (f"?profile={profile}" if profile else ""))
            device = self.server.state.hub.wait_for(lambda found: _profile(found) == profile, 60)
            assert device is not None
            self._tabs[profile] = page, device.id
        return self._tabs[profile][1]

    def close(self) -> None:
        for page, _ in self._tabs.values():
            page.close()


def _profile(device: Device) -> str:
    return device.name.partition(" (profile ")[2].removesuffix(")")


@pytest.fixture(scope="module", params=BROWSERS)
def tabs(request: pytest.FixtureRequest, people: People) -> Iterator[Tabs]:
    with Server() as server:
        opened = Tabs(request.param, server, people)
        yield opened
        opened.close()


BY_PROFILE = sorted(gallery.SLUGS, key=lambda slug: gallery.load(slug).faulty.device.partition("+")[2])


@pytest.mark.slow
@pytest.mark.parametrize("slug", BY_PROFILE)
def test_the_gallery(slug: str, tabs: Tabs, carved: Callable[[str], Path], tmp_path: Path) -> None:
    fault = gallery.load(slug)
    expected = fault.elsewhere.get(tabs.name, (fault.correct.verdicts, fault.faulty.verdicts))

    def check(case: Case, verdicts: tuple[str, ...], folder: str) -> None:
        suite = gallery.prepared(slug, fault, case, carved(slug), tmp_path / folder)
        results = gallery.validated(tabs.server, suite, tabs.device(case))
        innocent = not (fault.everywhere and case is fault.faulty)
        gallery.check_verdicts(results, suite, verdicts, race=case.race, innocent=innocent)

    check(fault.correct, expected[0], "correct")
    check(fault.faulty, expected[1], "faulty")
