"""The fault gallery in real browsers: each correct kernel passes there and each faulty one gets its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gallery
from gallery import Case
from tapml.server import Server

BROWSERS = ["chromium", "firefox"]


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """An entry's suite, carved once for both browsers."""
    made: dict[str, Path] = {}

    def get(slug: str) -> Path:
        if slug not in made:
            made[slug] = gallery.carved(slug, gallery.load(slug), tmp_path_factory.mktemp(slug))
        return made[slug]

    return get


class Browser:
    """A browser as it is, and beside it one with a profile: the gallery has many, and a browser takes much memory."""

    def __init__(self, name: str, server: Server) -> None:
        self.name, self.server = name, server
        self._other = ""

    def start(self, case: Case) -> str:
        """The name of the device that is this browser with the case's profile."""
        device = "+".join([self.name, *case.device.split("+")[1:]])
        if device not in (self.name, self._other):
            if self._other:
                self.server.state.processes[self._other].close()
            self._other = device
        return device


@pytest.fixture(scope="module", params=BROWSERS)
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    with Server() as server:
        yield Browser(request.param, server)


BY_PROFILE = sorted(gallery.SLUGS, key=lambda slug: gallery.load(slug).faulty.device.partition("+")[2])


@pytest.mark.slow
@pytest.mark.parametrize("slug", BY_PROFILE)
def test_the_gallery(slug: str, browser: Browser, carved: Callable[[str], Path], tmp_path: Path) -> None:
    fault = gallery.load(slug)
    expected = fault.elsewhere.get(browser.name, (fault.correct.verdicts, fault.faulty.verdicts))

    def check(case: Case, verdicts: tuple[str, ...], folder: str) -> None:
        suite = gallery.prepared(slug, fault, case, carved(slug), tmp_path / folder)
        results = gallery.validated(browser.server, suite, browser.start(case))
        innocent = not (fault.everywhere and case is fault.faulty)
        gallery.check_verdicts(results, suite, verdicts, race=case.race, innocent=innocent)

    check(fault.correct, expected[0], "correct")
    check(fault.faulty, expected[1], "faulty")
