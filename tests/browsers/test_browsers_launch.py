"""Real browsers: started, killed, crashed, closed; nothing of them may stay behind."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, Error

from process_watch import MOST_WAIT, command_line, descendants, kill_renderers, nothing_left, wait_for, wait_until_gone
from tapml.browsers import process, start
from tapml.errors import InputError, ToolchainError

pytestmark = pytest.mark.browser

SCRIPT = """
import signal, sys, time
from tapml.browsers import start
signal.signal(signal.SIGINT, signal.default_int_handler)
browser = start("chromium", sys.argv[1])
print("started", flush=True)
while sys.argv[2] != "returns":
    time.sleep(0.1)
"""

BOTH = pytest.mark.parametrize("name", ["chromium", "firefox"])


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test leaves a process, not even a zombie of our own."""
    with nothing_left():
        yield


@BOTH
def test_page_has_webgpu_in_its_worker_and_closes_without_a_trace(name: str, site: str) -> None:
    reasons: list[str] = []
    with start(name, f"{site}/", on_exit=reasons.append) as browser:
        assert browser.alive
        started = descendants()
        assert len(started) > 3
        wait_for(lambda: f"log: device with {128 << 20}" in browser.console)
        assert "error: a mistake in the page" in browser.console
        picture = browser.screenshot()
        assert picture is not None
        assert picture.startswith(b"\x89PNG\r\n")
    assert not browser.alive
    assert browser.screenshot() is None
    wait_until_gone(started)
    browser.close()
    assert reasons == []


@BOTH
def test_death_of_the_browser_is_reported_once(name: str, site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()
    browser = start(name, f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    main_process().kill()
    assert reasons.get(timeout=MOST_WAIT) == f"{name.title()} ended unexpectedly"
    assert not browser.alive
    browser.close()
    wait_until_gone(started)
    assert reasons.empty()


def test_crashed_tab_is_reported(site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()
    browser = start("chromium", f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    kill_renderers(started)
    assert reasons.get(timeout=MOST_WAIT) == "Chromium's tab crashed"
    browser.close()
    wait_until_gone(started)


def test_closed_tab_is_reported_and_the_callback_may_close(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("TAPML_CHROMIUM_ARGS", f"--remote-debugging-port={port}")
    reasons: queue.Queue[str] = queue.Queue()

    def closed(reason: str) -> None:
        browser.close()
        reasons.put(reason)

    browser = start("chromium", f"{site}/empty", on_exit=closed)
    started = descendants()
    control = f"http://127.0.0.1:{port}/json"
    with urllib.request.urlopen(f"{control}/list") as answer:
        (tab,) = [target["id"] for target in json.load(answer) if target["url"] == f"{site}/empty"]
    urllib.request.urlopen(f"{control}/close/{tab}").close()
    assert reasons.get(timeout=MOST_WAIT) == "Chromium's tab was closed"
    wait_until_gone(started)


def test_browser_ends_with_playwrights_own_process(site: str) -> None:
    # Firefox would live on: it is Playwright's process that it obeys, not a pipe.
    reasons: queue.Queue[str] = queue.Queue()
    browser = start("firefox", f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    driver = main_process().parent()
    assert driver is not None
    driver.kill()
    assert reasons.get(timeout=MOST_WAIT) == "Firefox can no longer be reached"
    browser.close()
    wait_until_gone(started)


def test_browser_that_hangs_is_killed(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_CLOSE_SECONDS", 0.5)
    browser = start("chromium", f"{site}/empty")
    started = descendants()
    main_process().suspend()
    browser.close()
    wait_until_gone(started)


@pytest.mark.parametrize("ending", ["returns", "interrupted", "killed"])
def test_browser_ends_with_python(ending: str, site: str) -> None:
    python = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, f"{site}/empty", ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with python:
        assert python.stdout is not None
        assert python.stdout.readline() == b"started\n"
        started = psutil.Process(python.pid).children(recursive=True)
        if ending == "interrupted":
            os.killpg(python.pid, signal.SIGINT)  # as a terminal does
        elif ending == "killed":
            python.kill()
        _, errors = python.communicate(timeout=MOST_WAIT)
    assert python.returncode == {"returns": 0, "interrupted": -signal.SIGINT, "killed": -signal.SIGKILL}[ending]
    assert (b"Traceback" in errors) == (ending == "interrupted")
    wait_until_gone(started)


def test_interrupted_start_leaves_nothing(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_opened: object) -> None:
        wait_for(lambda: any(is_marked(child) for child in descendants()))
        raise KeyboardInterrupt

    monkeypatch.setattr(process.Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start("chromium", f"{site}/empty")


def test_console_is_bounded(site: str) -> None:
    with start("chromium", f"{site}/chatty") as browser:
        wait_for(lambda: any(line.startswith("log: line 79 x") for line in browser.console))
        assert len(browser.console) == 50
        assert max(len(line) for line in browser.console) == 2000 + len(" ...")


def test_page_that_cannot_be_opened(site: str) -> None:
    with pytest.raises(ToolchainError, match=r"^Chromium could not open http://127\.0\.0\.1:1/: net::ERR_\w+"):
        start("chromium", "http://127.0.0.1:1/")
    with pytest.raises(ToolchainError, match=r"^Chromium could not open .*/nothing: the server answered 404$"):
        start("chromium", f"{site}/nothing")


def test_unknown_name() -> None:
    with pytest.raises(InputError, match=r"^tapml knows no browser 'opera': choose chromium, firefox or webkit$"):
        start("opera", "about:blank")


def test_failed_start_tells_what_the_browser_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "browser"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo Browser 200.0 && exit\necho no room at the inn >&2\nexit 7\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("TAPML_CHROMIUM", str(program))
    with pytest.raises(
        ToolchainError,
        match=rf"^Chromium 200\.0 \({program}\) did not start: .* closed; it printed: no room at the inn$",
    ):
        start("chromium", "about:blank")


def test_missing_sandbox_has_a_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\necho No usable sandbox! >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("TAPML_CHROMIUM", str(program))
    with pytest.raises(ToolchainError, match=r"No usable sandbox!; in a container .* set TAPML_NO_SANDBOX=1$"):
        start("chromium", "about:blank")


def test_playwright_that_cannot_drive_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    async def new_page(*_arguments: object, **_options: object) -> None:
        # What Playwright 1.65 says of Firefox 153.
        raise Error("Browser.new_page: Protocol error (emulation.setMediaFeaturesOverride): unknown command")

    monkeypatch.setattr(Browser, "new_page", new_page)
    with pytest.raises(
        ToolchainError, match=r"^Playwright \S+ cannot drive Chromium \S+ \(.*\): pip install 'playwright\W.*'$"
    ):
        start("chromium", "about:blank")


def main_process() -> psutil.Process:
    """Of the one browser that runs."""
    return next(child for child in descendants() if is_marked(child))  # parents come before their children


def is_marked(child: psutil.Process) -> bool:
    """Is it a browser's process that `start` started?"""
    return "--tapml-" in command_line(child)
