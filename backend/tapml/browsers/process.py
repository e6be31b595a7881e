"""A browser as a process: started on one page, watched while it lives, ended with all that belongs to it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import re
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import psutil
from playwright.async_api import Browser, BrowserType, Error, Page, Playwright, async_playwright

from tapml.browsers import options
from tapml.browsers.find import Found
from tapml.browsers.running import DeviceProcess
from tapml.errors import ToolchainError

# Playwright's name for a Firefox that is not its own build.
_FIREFOX_CHANNEL = "moz-firefox"

_LAUNCH_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_STOP_SECONDS = 30.0
"""For Playwright's own process, whose browser is gone by then: left to itself its pipes would stay open."""
_SCREENSHOT_SECONDS = 15.0
_CONSOLE_LINES = 50
_CONSOLE_WIDTH = 2000


class BrowserProcess(DeviceProcess):
    """A browser that Playwright drives."""

    def __init__(self, found: Found, url: str, on_exit: Callable[[str], None] | None) -> None:
        super().__init__(found.kind.name, found.kind.title, url, on_exit)
        self._found = found
        self._console: deque[str] = deque(maxlen=_CONSOLE_LINES)
        self._opened: Future[None] = Future()
        # In the command line of the browser alone, where no other tells it from one that the user started.
        self._mark = f"--tapml-{uuid.uuid4().hex}"
        self._roots: list[psutil.Process] = []
        # What close() needs to interrupt the thread, at whatever point it is.
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._page: Page | None = None
        self._browser: Browser | None = None

    def open(self) -> None:
        self._start_thread(self._run)
        self._opened.result()

    @property
    def console(self) -> list[str]:
        """The last lines that the page and its workers wrote to the console, and their uncaught errors."""
        return list(self._console)

    def screenshot(self) -> bytes | None:
        """The page as PNG; None where there is none any more. From any thread, but not from Playwright's own."""
        page = self._page
        if page is None or not self._alive:
            return None
        taking = page.screenshot(timeout=_SCREENSHOT_SECONDS * 1000)
        try:
            taken = asyncio.run_coroutine_threadsafe(taking, self._loop)
        except RuntimeError:  # the loop has ended
            taking.close()
            return None
        try:
            # A loop that ends meanwhile answers nothing any more.
            return taken.result(_SCREENSHOT_SECONDS + 1)
        except (Error, CancelledError, TimeoutError):
            taken.cancel()
            return None

    def open_beside(self, url: str) -> None:
        if self._browser is None or not self._alive:
            raise ToolchainError(f"{self._title} has ended")
        opening = asyncio.run_coroutine_threadsafe(self._beside(self._browser, url), self._loop)
        try:
            opening.result(_LAUNCH_SECONDS + _CLOSE_SECONDS)
        except (Error, CancelledError, TimeoutError) as error:
            opening.cancel()
            raise ToolchainError(f"{self._title} could not open another page: {error}") from error

    def _listen(self, page: Page) -> None:
        page.on("console", lambda message: self._note(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._note(f"error: {error.message}"))

    async def _beside(self, browser: Browser, url: str) -> None:
        page = await (await browser.new_context(ignore_https_errors=True)).new_page()
        self._listen(page)
        await page.goto(url, wait_until="load", timeout=_LAUNCH_SECONDS * 1000)

    def _end(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        """The thread: a loop of its own, so that it does not matter whether the caller has one."""
        try:
            with contextlib.closing(self._loop), contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._main())
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)
        else:
            if not self._opened.done():
                self._opened.cancel()
        finally:
            self._alive = False

    async def _main(self) -> None:
        playwright = await async_playwright().start()
        try:
            self._task = asyncio.current_task()
            if not self._closing:
                reason = await self._live(playwright)
                self._alive = False
                self._report(reason)
        finally:
            self._alive = False
            self._task = None  # not to be interrupted any more
            self._kill()
            await _within(_STOP_SECONDS, playwright.stop())

    async def _live(self, playwright: Playwright) -> str:
        """From the launch to the end of the browser: the reason why it ended."""
        title = self._title
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()

        def end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        def closed(_page: Page) -> None:
            # The tab also closes when the whole browser ends, just before that is known.
            loop.call_later(0.1, end, f"{title}'s tab was closed")

        def unreachable(_watch: asyncio.Task[None]) -> None:
            # What ends the tab ends the watch too, and gives a better reason soon.
            loop.call_later(0.2, end, f"{title} can no longer be reached")

        browser: Browser | None = None
        try:
            try:
                browser = await self._launch(playwright)
                self._roots = self._find_roots()
                # A server in LAN mode has a certificate of its own making, and this browser opens nothing else.
                page = await browser.new_page(ignore_https_errors=True)
            except Error as error:
                raise self._launch_error(error, browser) from error
            browser.on("disconnected", lambda _: end(f"{title} ended unexpectedly"))
            page.on("crash", lambda _: end(f"{title}'s tab crashed"))
            page.on("close", closed)
            self._listen(page)
            await self._open(page)
            self._page, self._browser = page, browser
            self._alive = True
            self._opened.set_result(None)
            watch = asyncio.ensure_future(_watch(page))
            watch.add_done_callback(unreachable)
            try:
                return await ended
            finally:
                watch.cancel()
        finally:
            if browser is not None and browser.is_connected():
                await _within(_CLOSE_SECONDS, browser.close())

    async def _launch(self, playwright: Playwright) -> Browser:
        kind, program = self._found.kind, self._found.program
        driver: BrowserType = getattr(playwright, kind.name)
        arguments = [self._mark]
        own: dict[str, Any] = {}
        if kind.name == "chromium":
            arguments += options.chromium_arguments()
            # Of its own two, Playwright would prefer the one that is not a whole browser.
            own = {"chromium_sandbox": options.chromium_sandbox(), "channel": None if program else "chromium"}
        elif kind.name == "firefox":
            own = {"firefox_user_prefs": options.FIREFOX_PREFERENCES, "channel": _FIREFOX_CHANNEL if program else None}
        return await driver.launch(
            executable_path=program,
            args=arguments,
            headless=True,
            handle_sigint=False,  # Ctrl-C reaches Playwright's process too, but closing is for us to do
            timeout=_LAUNCH_SECONDS * 1000,
            **own,
        )

    async def _open(self, page: Page) -> None:
        title, shown = self._title, self._without_secrets(self.url)
        try:
            response = await page.goto(self.url, wait_until="load", timeout=_LAUNCH_SECONDS * 1000)
        except Error as error:
            reason = self._without_secrets(_first_line(error).removeprefix("Page.goto: "))
            raise ToolchainError(f"{title} could not open {shown}: {reason}") from error
        if response is not None and not response.ok:
            raise ToolchainError(f"{title} could not open {shown}: the server answered {response.status}")

    def _launch_error(self, error: Error, browser: Browser | None) -> ToolchainError:
        kind = self._found.kind
        what = " ".join(filter(None, (kind.title, browser.version if browser else self._found.version)))
        if "Protocol error" in error.message or "Unsupported" in error.message:
            return ToolchainError(
                f"Playwright {importlib.metadata.version('playwright')} cannot drive {what} "
                f"({_first_line(error)}): pip install '{_playwright_requirement()}'"
            )
        program = self._found.program or "Playwright's own"
        reason = _first_line(error).removeprefix("BrowserType.launch: ")
        if printed := _printed(error.message):
            reason += f"; it printed: {printed}"
        if kind.name == "chromium" and "sandbox" in printed.lower():
            reason += "; in a container without user namespaces, set TAPML_NO_SANDBOX=1"
        return ToolchainError(f"{what} ({program}) did not start: {reason}")

    def _note(self, line: str) -> None:
        line = self._without_secrets(line)
        self._console.append(line if len(line) <= _CONSOLE_WIDTH else line[:_CONSOLE_WIDTH] + " ...")

    def _find_roots(self) -> list[psutil.Process]:
        roots = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if self._mark in process.cmdline():
                    roots.append(process)
        return roots

    def _kill(self) -> None:
        """End what could not be asked to close: a browser that hangs, or that Playwright's process left."""
        for process in self._descendants():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _descendants(self) -> list[psutil.Process]:
        """The browser's processes, the first ones last."""
        found = []
        for root in self._roots or self._find_roots():
            with contextlib.suppress(psutil.Error):
                found += [*root.children(recursive=True), root]
        return found


async def _watch(page: Page) -> None:
    """Ends if Playwright's process does, which no event tells: only a call under way fails."""
    with contextlib.suppress(Exception):
        while True:
            await page.wait_for_timeout(600_000)


async def _within(seconds: float, closing: Awaitable[None]) -> None:
    """Wait for something to close, but not for ever, and whatever comes of it: it may be gone already."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(closing, seconds)


def _first_line(error: Error) -> str:
    return error.message.strip().splitlines()[0].rstrip(" :")


def _printed(message: str) -> str:
    """The last lines that the browser itself wrote, from the text of Playwright's error."""
    lines = re.findall(r"^\s*-?\s*\[pid=\d+\]\[(?:err|out)\] (.+)$", message, re.MULTILINE)
    return " / ".join(list(dict.fromkeys(line.strip() for line in lines))[-5:])  # Playwright may repeat itself


def _playwright_requirement() -> str:
    """The versions of Playwright that tapml was made for, as it declares them."""
    for requirement in importlib.metadata.requires("tapml") or []:
        if requirement.startswith("playwright"):
            return requirement.split(";")[0].strip()
    return "playwright"
