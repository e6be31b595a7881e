"""Real browsers through W3C WebDriver: started, killed, crashed, closed; nothing of them may stay behind."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from process_watch import (
    MOST_WAIT,
    descendants,
    kill_renderers,
    nothing_left,
    processes_named,
    wait_for,
    wait_until_gone,
)
from tapml.browsers import guarded, start, webdriver
from tapml.browsers.webdriver import WebDriverProcess
from tapml.errors import ToolchainError

pytestmark = pytest.mark.browser

BOTH = pytest.mark.parametrize("name", ["chromedriver", "webkitgtk"])
TITLE = {"chromedriver": "Chromium", "webkitgtk": "WebKitGTK"}
BROWSER = {"chromedriver": "chromium", "webkitgtk": "MiniBrowser"}
DRIVER = {"chromedriver": "chromedriver", "webkitgtk": "WebKitWebDriver"}

SCRIPT = """
import signal, sys, time
from tapml.browsers import start
signal.signal(signal.SIGINT, signal.default_int_handler)
browser = start(sys.argv[1], sys.argv[2])
print("started", flush=True)
while sys.argv[3] != "returns":
    time.sleep(0.1)
"""

# What safaridriver answers where automation is not allowed, by Apple's own words.
SAFARI = """#!{python}
import http.server, json, sys
if "--version" in sys.argv:
    sys.exit(print("Included with Safari 26.1 (21622.2.11)"))
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps({{"value": value}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(200, {{"ready": True, "message": ""}})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(500, {{"error": "session not created", "message": {message!r}, "stacktrace": ""}})
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("-p") + 1])), Handler).serve_forever()
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test leaves a process, not even a zombie of our own, nor a temporary file."""
    # Not tmp_path: sockets in there would have names that are too long.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        with nothing_left():
            yield Path(folder)
        assert [*Path(folder).iterdir()] == []


@BOTH
def test_page_is_opened_and_closed_without_a_trace(name: str, site: str) -> None:
    reasons: list[str] = []
    with start(name, f"{site}/", on_exit=reasons.append) as browser:
        assert browser.alive
        started = descendants()
        assert len(started) > 3
        picture = browser.screenshot()
        assert picture is not None
        assert picture.startswith(b"\x89PNG\r\n")
    assert not browser.alive
    assert browser.screenshot() is None
    wait_until_gone(started)
    browser.close()
    assert reasons == []


def test_worker_has_webgpu_under_chromedriver(site: str) -> None:
    with start("chromedriver", f"{site}/tells") as browser:
        wait_for(lambda: f"device with {128 << 20}" in browser.console)


def test_console_is_the_pages_log(site: str) -> None:
    with start("webkitgtk", f"{site}/tells") as browser:
        wait_for(lambda: "no adapter" in browser.console)
        assert len(browser.console) <= 50


@BOTH
def test_death_of_the_browser_is_reported_once(name: str, site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()
    browser = start(name, f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    main_process(BROWSER[name]).kill()
    assert reasons.get(timeout=MOST_WAIT) == f"{TITLE[name]} ended unexpectedly"
    assert not browser.alive
    assert browser.screenshot() is None
    wait_until_gone(started)
    browser.close()
    assert reasons.empty()


@BOTH
def test_death_of_the_driver_takes_the_browser_with_it(name: str, site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()
    browser = start(name, f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    main_process(DRIVER[name]).kill()
    expected = f"{DRIVER[name]}, which drives {TITLE[name]}, ended unexpectedly (exit code 137)"
    assert reasons.get(timeout=MOST_WAIT) == expected
    wait_until_gone(started)
    browser.close()


def test_crashed_tab_is_reported_and_the_callback_may_close(site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()

    def crashed(reason: str) -> None:
        browser.close()
        reasons.put(reason)

    browser = start("chromedriver", f"{site}/empty", on_exit=crashed)
    started = descendants()
    kill_renderers(started)
    assert reasons.get(timeout=MOST_WAIT) == "Chromium's tab crashed"
    wait_until_gone(started)


@BOTH
def test_closed_tab_is_reported(name: str, site: str) -> None:
    reasons: queue.Queue[str] = queue.Queue()
    browser = start(name, f"{site}/empty", on_exit=reasons.put)
    started = descendants()
    assert isinstance(browser, WebDriverProcess)
    session = browser._browser
    assert session is not None
    with browser._commands:
        here = session.current_window_handle
        session.switch_to.new_window("tab")
        there = session.current_window_handle
        session.switch_to.window(here)
        session.close()
        assert session.window_handles == [there]
    assert reasons.get(timeout=MOST_WAIT) == f"{TITLE[name]}'s tab was closed"
    wait_until_gone(started)


@pytest.mark.parametrize(("suspended", "name"), [("browser", "chromedriver"), ("driver", "webkitgtk")])
def test_what_hangs_is_killed(suspended: str, name: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdriver, "_QUIT_SECONDS", 0.5)
    browser = start(name, f"{site}/empty")
    started = descendants()
    main_process((BROWSER if suspended == "browser" else DRIVER)[name]).suspend()
    browser.close()
    wait_until_gone(started)


@pytest.mark.parametrize(
    ("ending", "name"),
    [("returns", "webkitgtk"), ("interrupted", "chromedriver"), ("killed", "chromedriver"), ("killed", "webkitgtk")],
)
def test_all_ends_with_python(ending: str, name: str, site: str, temporary: Path) -> None:
    python = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, name, f"{site}/empty", ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with python:
        assert python.stdout is not None
        assert python.stdout.readline() == b"started\n"
        parent = psutil.Process(python.pid)
        started = parent.children(recursive=True)
        assert processes_named(BROWSER[name], parent) or ending == "returns"
        if ending == "interrupted":
            os.killpg(python.pid, signal.SIGINT)  # as a terminal does
        elif ending == "killed":
            python.kill()
        _, errors = python.communicate(timeout=MOST_WAIT)
    assert python.returncode == {"returns": 0, "interrupted": -signal.SIGINT, "killed": -signal.SIGKILL}[ending]
    assert (b"Traceback" in errors) == (ending == "interrupted")
    wait_until_gone(started)
    wait_for(lambda: not [*temporary.iterdir()])


@BOTH
def test_interrupted_start_leaves_nothing(name: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_process: WebDriverProcess, _browser: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(WebDriverProcess, "_open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(name, f"{site}/empty")


@BOTH
def test_page_that_cannot_be_opened(name: str, site: str) -> None:
    with pytest.raises(ToolchainError, match=rf"^{TITLE[name]} could not open http://127\.0\.0\.1:9/: .+"):
        start(name, "http://127.0.0.1:9/")


def test_page_that_the_server_does_not_have(site: str) -> None:
    with pytest.raises(ToolchainError, match=r"^Chromium could not open .*/nothing: the server answered 404$"):
        start("chromedriver", f"{site}/nothing")


def test_driver_that_does_not_start(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "driver"
    program.write_text("#!/bin/sh\n[ $1 = --version ] && exit\necho no room at the inn >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("TAPML_CHROMEDRIVER", str(program))
    message = rf"^chromedriver \({program}\) did not start: no room at the inn$"
    with pytest.raises(ToolchainError, match=message):
        start("chromedriver", f"{site}/empty")


def test_browser_that_does_not_start(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\necho No usable sandbox! >&2\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setenv("TAPML_CHROMIUM", str(program))
    expected = (
        r"^Chromium did not start under chromedriver: session not created: .*; it printed: .*No usable sandbox!; "
        r"in a container without user namespaces, set TAPML_NO_SANDBOX=1$"
    )
    with pytest.raises(ToolchainError, match=expected):
        start("chromedriver", f"{site}/empty")


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "Could not create a session: You must enable 'Allow remote automation' in the Developer section of Safari "
            "Settings to control Safari via WebDriver.",
            "run `safaridriver --enable` once, and tick Allow remote automation in Safari's Settings, Developer",
        ),
        (
            "Could not create a session: The Safari instance is already paired with another WebDriver session.",
            "close the other window that a program controls: Safari has one at a time",
        ),
    ],
)
def test_safari_that_may_not_be_automated(
    said: str, remedy: str, site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no Safari here: this is safaridriver's side of the protocol, as far as a refusal goes."""
    program = tmp_path / "safaridriver"
    program.write_text(SAFARI.format(python=sys.executable, message=said))
    program.chmod(0o755)
    monkeypatch.setenv("TAPML_SAFARIDRIVER", str(program))
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(
        ToolchainError, match=re.escape(f"Safari 26.1 did not start under safaridriver: {said}; {remedy}")
    ):
        start("safari", f"{site}/empty")


def test_gpu_that_hangs(site: str) -> None:
    with start("chromedriver", f"{site}/tells") as browser:
        wait_for(lambda: any("device with" in line for line in browser.console))
        assert browser.reset_gpu()
        wait_for(lambda: any("device lost" in line for line in browser.console))
        assert browser.alive
        # Chromium gives no adapter after a second one: it must be started again.
        assert not browser.reset_gpu()
        assert not browser.alive
    with start("webkitgtk", f"{site}/empty") as other:
        started = descendants()
        assert not other.reset_gpu()
        assert not other.alive
        wait_until_gone(started)


def test_a_runtime_without_pages_has_no_screenshot(site: str) -> None:
    with start("node-dawn", site) as device:
        assert device.screenshot() is None


def test_a_guarded_command_takes_its_orphans_with_it(tmp_path: Path) -> None:
    orphan = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
    code = (
        f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {orphan!r}]); print('ready', flush=True)"
    )
    process = guarded.guarded([sys.executable, "-c", f"{code}; time.sleep(600)"], os.environ)
    assert process.wait_for_line("ready", MOST_WAIT) == "ready"
    wait_for(lambda: len(process.descendants()) == 2)
    started = [*process.descendants()]
    process.close()
    wait_until_gone(started)
    assert process.exit_code == 0


def test_a_command_that_is_none() -> None:
    process = guarded.guarded(["/nothing/at/all"], os.environ)
    wait_for(lambda: process.exit_code is not None)
    process.close()
    assert process.exit_code == 127
    assert process.lines == ["/nothing/at/all: No such file or directory"]


def main_process(name: str) -> psutil.Process:
    """The first of that name."""
    return processes_named(name)[0]
