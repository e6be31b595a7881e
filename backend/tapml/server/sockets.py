"""Socket.IO: devices on /device, pages that watch jobs on /events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request
from flask_socketio import ConnectionRefusedError as Refused
from flask_socketio import Namespace, SocketIO

from tapml.devices.protocol import ProtocolError
from tapml.server.jobs import Job
from tapml.server.state import State

# A verdict is under 10 kB; a WGSL error with its diagnostics at most a few hundred.
MAX_MESSAGE_BYTES = 4_000_000


def attach(socketio: SocketIO, state: State) -> None:
    """Register both namespaces and forward jobs' events and changes of the device list."""
    socketio.on_namespace(_DeviceNamespace(socketio, state))
    socketio.on_namespace(_EventNamespace("/events", state))

    def job_event(job: Job, number: int, event: dict[str, Any]) -> None:
        message = {"job": job.id, "suite": job.suite_id, "number": number, "event": event}
        socketio.emit("job", message, namespace="/events")

    state.jobs.listener = job_event
    state.hub.on_change = lambda: socketio.emit("devices", namespace="/events")


class _CheckedNamespace(Namespace):  # type: ignore[misc]  # flask_socketio has no types
    def __init__(self, name: str, state: State) -> None:
        super().__init__(name)
        self._state = state

    def on_connect(self, auth: Any = None) -> None:
        token = auth.get("token") if isinstance(auth, Mapping) else None
        if not self._state.security.allows(request, token if isinstance(token, str) else None):
            raise Refused("not allowed: open the pairing link the server printed")


class _EventNamespace(_CheckedNamespace):
    """Pages only listen."""


class _DeviceNamespace(_CheckedNamespace):
    def __init__(self, socketio: SocketIO, state: State) -> None:
        super().__init__("/device", state)
        self._socketio = socketio
        self._devices: dict[str, str] = {}

    def on_hello(self, message: Any) -> dict[str, str]:
        connection = request.sid  # type: ignore[attr-defined]  # added by flask_socketio

        def send(event: str, body: dict[str, Any]) -> None:
            self._socketio.emit(event, body, namespace="/device", to=connection)

        try:
            device = self._state.hub.hello(message, send, connection)
        except ProtocolError as error:
            return {"error": str(error)}
        self._devices[connection] = device.id
        return {"device": device.id}

    def on_progress(self, message: Any) -> None:
        if device := self._device(message):
            device.progress(str(message.get("call")), message.get("progress"))

    def on_reply(self, message: Any) -> None:
        if device := self._device(message):
            device.reply(str(message.get("call")), message)

    def _device(self, message: Any) -> Any:
        if not isinstance(message, Mapping):
            return None
        return self._state.hub.get(self._devices.get(request.sid, ""))  # type: ignore[attr-defined]

    def on_disconnect(self, *_: Any) -> None:
        connection = request.sid  # type: ignore[attr-defined]
        self._devices.pop(connection, None)
        self._state.hub.disconnected(connection)
