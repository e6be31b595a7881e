"""A little web site to open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

PAGES = {
    "/": (
        "text/html",
        """<!doctype html><script>
        new Worker('/worker.js').onmessage = event => console.log(event.data);
        setTimeout(() => { throw new Error('a mistake in the page') });
        </script>""",
    ),
    # The first answer of a browser that is still starting its GPU process may be null.
    "/worker.js": (
        "text/javascript",
        """(async () => {
          let adapter = null;
          for (let tries = 0; tries < 50 && navigator.gpu && !adapter; tries++) {
            adapter = await navigator.gpu.requestAdapter();
            if (!adapter) await new Promise(done => setTimeout(done, 100));
          }
          const device = await adapter?.requestDevice();
          postMessage(device ? 'device with ' + device.limits.maxStorageBufferBindingSize : 'no adapter');
          device?.lost.then(() => postMessage('device lost'));
        })()""",
    ),
    # Tells its log, as the device page does.
    "/tells": (
        "text/html",
        """<!doctype html><ol id="log"></ol><script>
        new Worker('/worker.js').onmessage = event => {
          const line = document.createElement('li');
          line.textContent = event.data;
          document.getElementById('log').append(line);
        };
        </script>""",
    ),
    "/empty": ("text/html", "<!doctype html><title>empty</title>"),
    "/chatty": (
        "text/html",
        "<!doctype html><script>for (let i = 0; i < 80; i++) console.log('line', i, 'x'.repeat(3000))</script>",
    ),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path not in PAGES:
            self.send_error(404)
            return
        kind, text = PAGES[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
