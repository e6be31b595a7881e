"""The server that the pages load from: files, compressed where that is of use, and the bytes that went out, counted."""

from __future__ import annotations

import json
import mimetypes
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"}
_PIECE = 1 << 16


class SiteServer(ThreadingHTTPServer):
    """Serves a folder. POST /NAME gives the JSON of `answer(NAME, document)`."""

    daemon_threads = True

    def __init__(self, folder: Path, answer: Callable[[str, Any], Any], megabits: float | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.answer, self.megabits = folder.resolve(), answer, megabits
        self._sent: dict[str, int] = {}
        self._free = 0.0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def taken(self) -> Mapping[str, int]:
        """Bytes of bodies that went out since the last call, by path."""
        with self._lock:
            sent, self._sent = self._sent, {}
        return sent

    def count(self, path: str, sent: int) -> None:
        """Note bytes that go out, and wait for the line where it is as slow as was asked for: all share one."""
        with self._lock:
            self._sent[path] = self._sent.get(path, 0) + sent
            if not self.megabits:
                return
            self._free = max(self._free, time.monotonic()) + sent * 8 / (self.megabits * 1e6)
            wait = self._free - time.monotonic()
        time.sleep(max(0.0, wait))


class _Handler(BaseHTTPRequestHandler):
    server: SiteServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        file = (self.server.folder / path.lstrip("/")).resolve()
        if not file.is_relative_to(self.server.folder) or not file.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        packed = file.with_name(f"{file.name}.gz")
        compressed = packed.is_file() and "gzip" in self.headers.get("Accept-Encoding", "")
        content = (packed if compressed else file).read_bytes()
        self.send_response(200)
        self.send_header(
            "Content-Type", _TYPES.get(file.suffix) or mimetypes.guess_type(file)[0] or "application/octet-stream"
        )
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        # As every one of the runtimes asks for: files that never change.
        self.send_header("Cache-Control", "max-age=31536000, immutable")
        self.end_headers()
        for start in range(0, len(content), _PIECE):
            piece = content[start : start + _PIECE]
            self.server.count(path, len(piece))
            self.wfile.write(piece)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps(self.server.answer(self.path.lstrip("/"), json.loads(body))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *values: object) -> None:
        pass
