"""A folder as a web server gives it to pages, under a content security policy without exceptions."""

from __future__ import annotations

import functools
import http.server
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tapml as package

MODULES = Path(package.__file__).parent / "server/static/runtime"
Running = TypeVar("Running", bound=socketserver.BaseServer)
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'"


class _Handler(http.server.SimpleHTTPRequestHandler):
    """The folder, with the policy. Weights wait for `server.open`."""

    def do_GET(self) -> None:
        if "/weights/" in self.path:
            self.server.asked.append(self.path)  # type: ignore[attr-defined]
            self.server.waiting.set()  # type: ignore[attr-defined]
            assert self.server.open.wait(60)  # type: ignore[attr-defined]
        super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Site(http.server.ThreadingHTTPServer):
    """Of one folder; `asked`: paths of weights; `waiting`: there are some."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
        self.asked: list[str] = []
        self.waiting, self.open = threading.Event(), threading.Event()
        self.open.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that closes hangs up."""


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    for module in MODULES.glob("*.js"):
        (folder / module.name).write_bytes(module.read_bytes())
    with running(Site(folder)) as server:
        yield server


@contextmanager
def running(server: Running) -> Iterator[Running]:
    """It serves on a thread until the block is left."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def address(server: Site) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/"


def wait_until(page: Any, expression: str) -> None:
    """Playwright's own wait evaluates text in the page, which the policy refuses."""
    deadline = time.monotonic() + 180
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(10)
