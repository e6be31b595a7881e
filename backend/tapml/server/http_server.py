"""The HTTP server: werkzeug's, with limits on connections, heads and bodies, and time-outs for each."""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import ssl
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler, load_ssl_context

from tapml.errors import InputError
from tapml.server.connections import ENVIRON_KEY, FULL, Connection, Connections

_IO_SECONDS = 60.0
"""Without a byte in either direction."""
_LINGER_SECONDS = 5.0
_LINGER_BYTES = 256 << 20
_ONCE = ("host", "origin", "content-length", "transfer-encoding", "cookie", "upgrade", "sec-websocket-key")
_SENTENCES = {
    400: "this is no HTTP request",
    414: "this address is too long",
    431: "the request's head is too large",
    505: "speak HTTP/1.1",
}
_TARGET = re.compile(r"/[\x21-\x7e]*")


class HttpServer(ThreadedWSGIServer):
    """Serves a WSGI application, one thread a connection, until it is closed."""

    def __init__(self, host: str, port: int, application: Any, certificate: tuple[Path, Path] | None) -> None:
        """Raises OSError where the certificate cannot be used."""
        context = load_ssl_context(str(certificate[0]), str(certificate[1])) if certificate else None
        self.connections = Connections()
        super().__init__(host, port, application, _Handler)
        # Not to the listening socket, as werkzeug does: a handshake that takes for ever would keep all others waiting.
        self.ssl_context = context

    def server_close(self) -> None:
        super().server_close()
        self.connections.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        connection = self.connections.open(request, str(client_address[0]))
        if connection is None:
            self._turn_away(request)
            return
        try:
            super().process_request((request, connection), client_address)  # type: ignore[arg-type]
        except RuntimeError:  # no thread to be had
            self.connections.closed(connection)
            self._turn_away(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        plain, connection = request
        used = plain
        try:
            plain.settimeout(_IO_SECONDS)
            if self.ssl_context is not None:
                used = self.ssl_context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                connection.socket = used
                used.do_handshake()
            _Handler(used, client_address, self, connection=connection)
        except OSError:
            pass  # it went away in the middle, or speaks no TLS
        except Exception:
            self.handle_error(used, client_address)
        finally:
            self.connections.closed(connection)
            self.shutdown_request(used)

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(request, socket.SHUT_WR)
        self.close_request(request)

    def close_request(self, request: Any) -> None:
        # Where no thread was to be had it comes as it was handed over.
        sock = request[0] if isinstance(request, tuple) else request
        with contextlib.suppress(OSError):
            sock.close()

    def _turn_away(self, request: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.ssl_context is None:
                request.setblocking(False)
                request.send(_error(503, FULL))
        self.shutdown_request(request)


class _Handler(WSGIRequestHandler):
    """One request, then the connection is closed: what it leaves unread cannot become the next one's head."""

    server: HttpServer
    protocol_version = "HTTP/1.1"
    # Small websocket frames would wait 40 ms each for Nagle and delayed acknowledgements.
    disable_nagle_algorithm = True

    def __init__(self, request: Any, client_address: Any, server: HttpServer, *, connection: Connection) -> None:
        self._connection_state = connection
        self._answered = False
        super().__init__(request, client_address, server)

    def handle(self) -> None:
        super().handle()
        if self._connection_state.refusal is not None and not self._answered:
            self._refuse(*self._connection_state.refusal)

    def finish(self) -> None:
        super().finish()
        self._source.close()

    def parse_request(self) -> bool:
        fits = super().parse_request()
        if self._connection_state.refusal is not None:
            # Its end came from this side, in the middle of the head.
            self._refuse(*self._connection_state.refusal)
            return False
        if fits and (wrong := self._malformed()):
            self._refuse(*wrong)
            return False
        self._connection_state.deadline = None
        return fits

    def _malformed(self) -> tuple[int, str] | None:
        """What HTTP forbids, or allows and no client of ours does."""
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):
            return 400, "speak HTTP/1.1"
        if not _TARGET.fullmatch(self.path):
            return 400, "the request's target is no path"
        if self.headers.defects or any(not name.isascii() for name in self.headers):
            return 400, "the request's head is malformed"
        for name in _ONCE:
            if len(self.headers.get_all(name, [])) > 1:
                return 400, f"the request has more than one {name.title()}"
        if "transfer-encoding" in self.headers:
            return 411, "a body has to say its length: send Content-Length, not Transfer-Encoding"
        if "content-encoding" in self.headers:
            return 415, "a body has to come as it is: send no Content-Encoding"
        length = self.headers.get("content-length", "0").strip()
        if not (length.isascii() and length.isdigit()):
            return 400, "the request's Content-Length is no number"
        if len(length) > 15:
            return 413, "this body is too large"
        return None

    def setup(self) -> None:
        super().setup()
        self._source = self.rfile

    def make_environ(self) -> Any:
        self._answered = True
        environ = super().make_environ()
        length = int(self.headers.get("content-length", "0"))
        body = _Body(self.rfile, length, self._connection_state, self.server.connections)
        environ["wsgi.input"] = io.BufferedReader(body, 1 << 16)
        environ[ENVIRON_KEY] = (self._connection_state, self.server.connections)
        # When the answer is out, werkzeug reads what is left of the request from here.
        self.rfile = _Rest(self.connection, body)  # type: ignore[assignment]
        return environ

    def handle_expect_100(self) -> bool:
        """werkzeug does it."""
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # Not `message`, which repeats what was sent.
        self._refuse(code, _SENTENCES.get(code, HTTPStatus(code).phrase))

    def _refuse(self, status: int, sentence: str) -> None:
        self.close_connection = self._answered = True
        # What was cut off by this side looks malformed, too.
        status, sentence = self._connection_state.refusal or (status, sentence)
        with contextlib.suppress(OSError):
            self.wfile.write(_error(status, sentence))
        # What they still send would else end the connection before they have read the answer.
        _drain(self.connection, 1.0, 1 << 20)

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        self.close_connection = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing; errors are logged by Flask."""

    def log_error(self, format: str, *args: Any) -> None:
        """Say nothing: a request that is malformed is its sender's error, and may have the token in its first line."""


class _Body(io.RawIOBase):
    """A request's body: not more than it announced, and within the time that it may take."""

    def __init__(
        self, source: io.BufferedIOBase, length: int, connection: Connection, connections: Connections
    ) -> None:
        self._source = source
        self.left = length
        self._connection = connection
        self._connections = connections
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.left == 0:
            return 0
        if not self._begun:
            self._begun = True
            self._connections.receiving(self._connection, self.left)
        data = self._source.read1(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        if self.left == 0 or not data:
            self._connections.received(self._connection)
        return len(data)


class _Rest:
    """What a client goes on to send when it has its answer: read for a moment, for an end would be an abrupt one to
    somebody who has not read the answer yet, but no longer.
    """

    def __init__(self, sock: socket.socket, body: _Body) -> None:
        self._socket = sock
        self._body = body

    def read(self, _size: int = -1) -> bytes:
        _drain(self._socket, _LINGER_SECONDS, _LINGER_BYTES)
        return b""

    def close(self) -> None:
        """Its socket is closed by the server."""

    closed = False


def _drain(sock: socket.socket, seconds: float, most: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        if not isinstance(sock, ssl.SSLSocket):
            sock.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + seconds
        while most > 0 and (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            data = sock.recv(1 << 18)
            if not data:
                return
            most -= len(data)


def _error(status: int, sentence: str) -> bytes:
    body = json.dumps({"error": sentence}).encode()
    head = (
        f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    )
    retry = "Retry-After: 1\r\n" if status == 503 else ""
    return (head + retry + "\r\n").encode() + body


def listen(host: str, port: int, application: Any, certificate: tuple[Path, Path] | None) -> HttpServer:
    """A server on that address, not serving yet. Raises InputError where address or certificate cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # werkzeug ends the process where the port is taken; try the address first to say it properly.
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --port (0: any free one)"
            ) from error
    try:
        return HttpServer(host, port, application, certificate)
    except OSError as error:
        raise InputError(f"cannot use the certificate {certificate}: {error}") from error
