"""A page of another origin, in a real browser, against a server on loopback."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tapml.browsers import start
from tapml.server import Server

PAGE = """<!doctype html><meta charset="utf-8"><title>waiting</title><body><script>
const there = "SERVER";
const tries = {
  read: () => fetch(there + "/api/suites").then((r) => r.text()),
  change: () => fetch(there + "/api/jobs", {method: "POST", mode: "no-cors", body: "{}"}).then((r) => r.text())
    .then((text) => text || Promise.reject(Error("nothing to see"))),
  poll: () => fetch(there + "/socket.io/?EIO=4&transport=polling").then((r) => r.text()),
  websocket: () => new Promise((done, failed) => {
    const socket = new WebSocket(there.replace("http", "ws") + "/socket.io/?EIO=4&transport=websocket");
    socket.onopen = () => done("open");
    socket.onerror = () => failed(Error("refused"));
  }),
  jsonp: () => new Promise((done, failed) => {
    window.___eio = [done];
    load("script", "/socket.io/?EIO=4&transport=polling&j=0", failed, failed);
  }),
  script: () => new Promise((done, failed) => load("script", "/static/headless/device.mjs", done, failed)),
  image: () => new Promise((done, failed) => load("img", "/static/runner/icon.svg", done, failed)),
};
function load(name, path, done, failed) {
  const made = document.createElement(name);
  made.onload = () => done("loaded");
  made.onerror = () => failed(Error("refused"));
  made.src = there + path;
  document.body.append(made);
}
(async () => {
  const got = [];
  for (const [name, attempt] of Object.entries(tries)) await attempt().then(() => got.push(name), () => {});
  await fetch("/told?" + got.join("+"));
})();
</script>"""


class Attacker(http.server.ThreadingHTTPServer):
    """Serves the page and takes what it tells: what it got."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = PAGE.replace("SERVER", target).encode()
        self.told: str | None = None
        self.ended = threading.Event()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Attacker

    def do_GET(self) -> None:
        path, _, told = self.path.partition("?")
        if path == "/told":
            self.server.told = told
            self.server.ended.set()
        body = self.server.page if path == "/" else b""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_gets_nothing(server: Server, name: str) -> None:
    """Of the same site, for it differs in its port alone, or of another: all the same."""
    with Attacker(server.url) as attacker:
        threading.Thread(target=attacker.serve_forever, daemon=True).start()
        with start("chromium", f"http://{name}:{attacker.server_port}/"):
            assert attacker.ended.wait(60)
        attacker.shutdown()
    assert attacker.told == ""
    assert server.state.hub.connected() == []
    # As the server's own page it is a device.
    with start("chromium", f"{server.url}/runner"):
        assert server.state.hub.wait_for(lambda device: device.name.startswith("Chromium"), 60)
