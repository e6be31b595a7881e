"""A server in this process: start, address, stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from flask import Flask
from flask_socketio import SocketIO

from tapml.history import check_database
from tapml.protocol.base import MAX_MESSAGE_BYTES
from tapml.server import sockets, views, websocket
from tapml.server.errors import json_errors
from tapml.server.guard import Guard
from tapml.server.http_server import listen
from tapml.server.model_views import pages_folder
from tapml.server.models import ModelFolder
from tapml.server.security import Security
from tapml.server.state import State

# Of bodies that are neither downloads, which their call bounds, nor imported files: job requests.
_MAX_BODY_BYTES = 1 << 20


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
        models: Path | None = None,
        pages: Path | None = None,
        origins: Sequence[str] = (),
    ) -> None:
        """`certificate`: (certificate, key) files for https, which other machines' browsers need for WebGPU.
        `database_url`: for the history of all suites; without it each suite keeps its own. `models`, `pages`:
        folders of compiled models and of web pages. `origins`: whose pages may load models, too.

        Raises InputError where the database or one of the others cannot be used.
        """
        check_database(database_url)
        self.state = State(
            Security(host, origins),
            database_url=database_url,
            models=ModelFolder(models) if models else None,
            pages=pages_folder(pages) if pages else None,
        )
        self.suite_ids = [self.state.suites.add(path) for path in suites]
        self._app = app = create_app(self.state)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = listen(host, port, app, certificate)
        scheme = "https" if certificate else "http"
        shown = f"[{host}]" if ":" in host else host
        self.state.url = f"{scheme}://{shown}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="http server", daemon=True)
        self._thread.start()
        self.state.watch.start()

    @property
    def url(self) -> str:
        return self.state.url

    def stop(self) -> None:
        """Close browsers, stop listening. May be called twice."""
        self.state.close()
        if (watching := self._app.extensions["socketio"].server.eio.service_task_event) is not None:
            watching.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def create_app(state: State) -> Flask:
    """The WSGI application over `state`, sockets included."""
    app = Flask("tapml", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BODY_BYTES
    app.url_map.merge_slashes = False  # by a redirect to wherever the request's Host says
    app.json.sort_keys = False  # type: ignore[attr-defined]
    json_errors(app)
    app.register_blueprint(views.blueprint(state))
    socketio = SocketIO(
        app,
        async_mode="threading",
        transports=["websocket"],
        json=sockets.Json,
        max_http_buffer_size=MAX_MESSAGE_BYTES,
        # In the order they came, and without a thread for each: a reply must not overtake a verdict.
        async_handlers=False,
        ping_interval=websocket.PING_SECONDS,
        ping_timeout=60,
    )
    websocket.install(socketio)
    sockets.attach(socketio, state)
    app.wsgi_app = Guard(app.wsgi_app, state.security)  # type: ignore[method-assign]
    return app
