"""A server in this process: start, address, stop."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from flask import Flask
from flask_socketio import SocketIO
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tapml.errors import InputError
from tapml.history import check_database
from tapml.protocol import MAX_MESSAGE_BYTES
from tapml.server import sockets, views
from tapml.server.errors import json_errors
from tapml.server.guard import Guard
from tapml.server.security import Security
from tapml.server.state import State

# Of bodies that are neither downloads, which their call bounds, nor imported files: job requests.
_MAX_BODY_BYTES = 1 << 20


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keep connections open: a device fetches hundreds of blobs
    # Small websocket frames would wait 40 ms each for Nagle and delayed acknowledgements.
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing; errors are logged by Flask."""


class Server:
    """tapml's web application on a thread; a context manager.

    Raises InputError where the address cannot be bound. `port` 0 takes any free one.
    """

    def __init__(
        self,
        suites: Sequence[Path] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: tuple[Path, Path] | None = None,
        database_url: str | None = None,
    ) -> None:
        """`certificate`: (certificate, key) files for https, which other machines' browsers need for WebGPU.
        `database_url`: for the history of all suites; without it each suite keeps its own.

        Raises InputError where the database cannot be used.
        """
        check_database(database_url)
        self.state = State(Security(host), database_url=database_url)
        self.suite_ids = [self.state.suites.add(path) for path in suites]
        app = create_app(self.state)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = _bind(app, host, port, certificate)
        scheme = "https" if certificate else "http"
        shown = f"[{host}]" if ":" in host else host
        self.state.url = f"{scheme}://{shown}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="http server", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return self.state.url

    def stop(self) -> None:
        """Close browsers, stop listening. May be called twice."""
        self.state.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def create_app(state: State) -> Flask:
    """The WSGI application over `state`, sockets included."""
    app = Flask("tapml", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BODY_BYTES
    app.json.sort_keys = False  # type: ignore[attr-defined]
    json_errors(app)
    app.register_blueprint(views.blueprint(state))
    socketio = SocketIO(
        app,
        async_mode="threading",
        transports=["websocket"],
        max_http_buffer_size=MAX_MESSAGE_BYTES,
        # In the order they came, and without a thread for each: a reply must not overtake a verdict.
        async_handlers=False,
        ping_interval=10,
        ping_timeout=60,
    )
    sockets.attach(socketio, state)
    app.wsgi_app = Guard(app.wsgi_app, state.security)  # type: ignore[method-assign]
    return app


def _bind(app: Flask, host: str, port: int, certificate: tuple[Path, Path] | None) -> BaseWSGIServer:
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
    context = (str(certificate[0]), str(certificate[1])) if certificate else None
    try:
        return make_server(host, port, app, threaded=True, request_handler=_Handler, ssl_context=context)
    except OSError as error:
        raise InputError(f"cannot use the certificate {certificate}: {error}") from error
