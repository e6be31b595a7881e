"""A browser that is driven through W3C WebDriver: Safari, above all, which nothing else drives."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import psutil
from selenium.common import exceptions
from selenium.webdriver import Remote
from selenium.webdriver.common.proxy import Proxy, ProxyType
from selenium.webdriver.common.utils import free_port
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.remote.webdriver import WebDriver
from urllib3.exceptions import HTTPError, ReadTimeoutError

from tapml.browsers.display import has_display, start_display
from tapml.browsers.drivers import Driver, session_options
from tapml.browsers.guarded import Child, guarded
from tapml.browsers.running import DeviceProcess
from tapml.errors import ToolchainError

_START_SECONDS = 30.0
_LOAD_SECONDS = 60.0
_COMMAND_SECONDS = 90.0  # longer than the driver's own limits, whose errors say more
_QUIT_SECONDS = 3.0
_WATCH_SECONDS = 1.0
_DOUBT_SECONDS = 0.2
_DOUBTS = 3
_GUARD_SECONDS = 10.0
_CONSOLE_WIDTH = 2000

# WebDriver has no console, but the device page shows what there is to tell.
_PAGE_LOG = "return Array.from(document.querySelectorAll('#log li'), line => line.textContent).slice(-50)"
_WHERE = "return [location.origin, performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0]"


class WebDriverProcess(DeviceProcess):
    """A browser that its own driver drives."""

    def __init__(self, driver: Driver, url: str, on_exit: Callable[[str], None] | None) -> None:
        super().__init__(driver.kind.name, driver.kind.title, url, on_exit)
        self._driver = driver
        self._display: Child | None = None
        self._guarded: Child | None = None
        self._browser: WebDriver | None = None
        self._address = ""
        self._commands = threading.Lock()  # a session takes one at a time
        self._log: list[str] = []
        self._banner = 0  # how many lines the driver printed of itself
        self._doubts = 0  # checks in a row that gave no clear answer
        self._wake = threading.Event()

    @property
    def console(self) -> list[str]:
        """The last lines of the device page's log as last seen; while it has none, of what driver and browser print."""
        return self._log or self._printed()

    def screenshot(self) -> bytes | None:
        """The page as PNG; None where there is none any more."""
        with contextlib.suppress(exceptions.WebDriverException, HTTPError), self._commands:
            if self._browser is not None and self._alive:
                return self._browser.get_screenshot_as_png()
        return None

    def _descendants(self) -> list[psutil.Process]:
        return self._guarded.descendants() if self._guarded else []

    def open(self) -> None:
        environment = dict(os.environ)
        if self.name == "webkitgtk" and not has_display():
            self._display, leading = start_display()
            environment.update(leading)
        port = free_port()
        self._address = f"http://127.0.0.1:{port}"
        self._guarded = guarded(self._driver.command(port), environment, lambda _: self._wake.set())
        self._wait_for_driver(self._guarded)
        self._browser = self._new_session()
        self._open(self._browser)
        self._alive = True
        self._start_thread(self._watch)

    def _wait_for_driver(self, driver: Child) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and driver.exit_code is None:
            with contextlib.suppress(OSError, ValueError, LookupError):
                if self._ask("GET", "/status", 1.0)["value"]["ready"]:
                    self._banner = len(driver.lines)
                    return
            time.sleep(0.02)
        said = " / ".join(driver.lines[-5:]) or "it printed nothing"
        raise ToolchainError(f"{self._driver.kind.driver} ({self._driver.program}) did not start: {said}")

    def _new_session(self) -> WebDriver:
        # To a driver that runs already: selenium looks for none, and downloads none.
        direct = Proxy(raw={"proxyType": ProxyType.DIRECT})
        config = ClientConfig(self._address, proxy=direct, timeout=int(_COMMAND_SECONDS))
        try:
            browser = Remote(RemoteConnection(client_config=config), options=session_options(self._driver))
            browser.set_page_load_timeout(_LOAD_SECONDS)
        except (exceptions.WebDriverException, HTTPError) as error:
            raise self._session_error(_reason(error)) from error
        return browser

    def _session_error(self, reason: str) -> ToolchainError:
        if printed := self._printed():
            reason += f"; it printed: {' / '.join(printed[-3:])}"
        what = " ".join(filter(None, (self._title, self._driver.version)))
        remedy = ""
        if self.name == "safari" and "paired" in reason:
            remedy = "; close the other window that a program controls: Safari has one at a time"
        elif self.name == "safari":
            remedy = (
                "; run `safaridriver --enable` once, and tick Allow remote automation in Safari's Settings, Developer"
            )
        elif "sandbox" in reason.lower():
            remedy = "; in a container without user namespaces, set TAPML_NO_SANDBOX=1"
        return ToolchainError(f"{what} did not start under {self._driver.kind.driver}: {reason}{remedy}")

    def _printed(self) -> list[str]:
        return self._guarded.lines[self._banner :] if self._guarded else []

    def _open(self, browser: WebDriver) -> None:
        shown = self._without_secrets(self.url)
        try:
            browser.get(self.url)
            origin, status = browser.execute_script(_WHERE)
        except (exceptions.WebDriverException, HTTPError) as error:
            reason = self._without_secrets(_reason(error))
            raise ToolchainError(f"{self._title} could not open {shown}: {reason}") from error
        scheme, host = urlsplit(self.url)[:2]
        if origin != f"{scheme}://{host}":  # drivers need not report it
            raise ToolchainError(f"{self._title} could not open {shown}: nobody answered there")
        if status >= 400:
            raise ToolchainError(f"{self._title} could not open {shown}: the server answered {status}")

    def _watch(self) -> None:
        """The thread: it asks now and then, for a driver tells nothing by itself."""
        reason = None
        while reason is None and not self._closing:
            self._wake.wait(_DOUBT_SECONDS if self._doubts else _WATCH_SECONDS)
            reason = None if self._closing else self._check()
        self._alive = False
        if reason is None or self._closing:
            return
        self._end()
        self._report(reason)

    def _check(self) -> str | None:
        """Why the browser is no device any more, or None."""
        assert self._guarded is not None
        assert self._browser is not None
        if self._guarded.exit_code is not None:
            return self._driver_ended()
        try:
            with self._commands:
                lines = self._browser.execute_script(_PAGE_LOG)
            self._log = [str(line)[:_CONSOLE_WIDTH] for line in lines]
        except (exceptions.TimeoutException, exceptions.JavascriptException, ReadTimeoutError):
            pass  # the page is busy, or just made anew
        except exceptions.NoSuchWindowException:
            return f"{self._title}'s tab was closed"
        except exceptions.InvalidSessionIdException:
            return f"{self._title} ended unexpectedly"
        except (exceptions.WebDriverException, HTTPError) as error:
            # WebKit's driver has nothing to say at first; another look tells more.
            self._doubts += 1
            if "tab crashed" in str(error):
                return f"{self._title}'s tab crashed"
            if self._doubts <= _DOUBTS:
                return None
            # Its guard tells of a driver's death when it has ended the browser: that takes seconds where much runs.
            if not self._answers() and self._guarded.wait(_GUARD_SECONDS) is not None:
                return self._driver_ended()
            return f"{self._title} can no longer be reached ({_reason(error)})"
        self._banner = 0  # how many lines the driver printed of itself
        self._doubts = 0
        return None

    def _driver_ended(self) -> str:
        assert self._guarded is not None
        code = self._guarded.exit_code
        return f"{self._driver.kind.driver}, which drives {self._title}, ended unexpectedly (exit code {code})"

    def _answers(self) -> bool:
        """Whether anybody listens where the driver did."""
        address = urlsplit(self._address)
        with contextlib.suppress(OSError), socket.create_connection((address.hostname, address.port), 1.0):
            return True
        return False

    def _end(self) -> None:
        """Ask the browser to close, then end what is left: any order, any number of times, from any thread."""
        self._alive = False
        self._wake.set()
        if self._browser is not None and self._guarded is not None and self._guarded.exit_code is None:
            with contextlib.suppress(OSError, ValueError):
                self._ask("DELETE", f"/session/{self._browser.session_id}", _QUIT_SECONDS)
        for process in (self._guarded, self._display):
            if process is not None:
                process.close()

    def _ask(self, method: str, path: str, seconds: float) -> Any:
        """A request to the driver that waits for no other and for no longer than it is told."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(self._address + path, method=method), timeout=seconds) as answer:
            return json.load(answer)


def _reason(error: Exception) -> str:
    """The first line of what a driver says, without selenium's additions."""
    said = str(getattr(error, "msg", None) or error).split("; For documentation on this error")[0].strip()
    return said.splitlines()[0].removeprefix("Message: ") if said else type(error).__name__
