"""Browsers as people have them, started once for all tests of a worker; each test opens pages of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tapml.browsers import options

BROWSERS = ("chromium", "firefox")

PLAIN = "plain"
"""Chromium as it comes: without WebGPU on Linux."""

VIEWPORT = {"width": 1440, "height": 1000}

PATIENCE = 180_000
"""In ms. What comes, comes at once on a quiet machine; Playwright's own 5 s are not enough for one that is shared."""

expect.set_options(timeout=PATIENCE)

Opened = Callable[..., AbstractContextManager[Page]]
"""opened(name, **context): a page in a browser, with a context of its own. No error of ours may be on its console when
it is closed. That its server is gone is one: close it first."""


class People:
    """Their browsers: "chromium" and "firefox" with WebGPU switched on, and `PLAIN`."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._playwright: Playwright | None = None
        self._browsers: dict[str, Browser] = {}

    def browser(self, name: str) -> Browser:
        if name not in self._browsers:
            if self._playwright is None:
                self._playwright = self._open.enter_context(sync_playwright())
            self._browsers[name] = self._open.enter_context(_launched(self._playwright, name))
        return self._browsers[name]

    @contextmanager
    def opened(self, name: str, **context: Any) -> Iterator[Page]:
        own = self.browser(name).new_context(**context)
        page = own.new_page()
        page.set_default_timeout(PATIENCE)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if _is_ours(name, message) else None)
        try:
            yield page
        finally:
            own.close()
        assert problems == [], problems

    @contextmanager
    def context(self, name: str) -> Iterator[BrowserContext]:
        """One person's browser, whose pages share storage and caches."""
        context = self.browser(name).new_context()
        try:
            yield context
        finally:
            context.close()

    def close(self) -> None:
        self._open.close()


def eventually(page: Page, condition: Callable[[], bool], what: str) -> None:
    """For what no `expect` can say. The page goes on meanwhile, and its content security policy does not matter."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(50)


def choose(page: Page, device: str, *, instead_of: str = "chromium") -> None:
    """For the next job, on a suite's page; a new browser has chromium chosen."""
    devices = page.get_by_role("group", name="Devices")
    devices.get_by_role("checkbox", name=device).check()
    devices.get_by_role("checkbox", name=instead_of).uncheck()


def _is_ours(name: str, message: ConsoleMessage) -> bool:
    """Browsers with WebGPU also print what a kernel that does not compile is to blame for."""
    if name == PLAIN:
        return message.type == "error"
    return any(word in message.text for word in ("Content Security Policy", "Refused", "Uncaught"))


@contextmanager
def _launched(playwright: Playwright, name: str) -> Iterator[Browser]:
    if name == "firefox":
        browser = playwright.firefox.launch(
            channel="moz-firefox",
            executable_path="/usr/bin/firefox-esr",
            firefox_user_prefs=options.FIREFOX_PREFERENCES,
        )
    else:
        arguments = [] if name == PLAIN else options.chromium_arguments()
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*arguments, "--no-sandbox"])
    try:
        yield browser
    finally:
        browser.close()
