"""Socket.IO: devices on /device, pages that watch jobs on /events."""

from __future__ import annotations

from typing import Any

from flask import request
from flask_socketio import Namespace, SocketIO

from tapml.devices import Device
from tapml.server.jobs import Job
from tapml.server.state import State


def attach(socketio: SocketIO, state: State) -> None:
    """Register both namespaces and forward jobs' events and changes of the device list."""
    socketio.on_namespace(_DeviceNamespace(socketio, state))
    socketio.on_namespace(_EventNamespace("/events"))

    def job_event(job: Job, number: int, event: dict[str, Any]) -> None:
        message = {"job": job.id, "suite": job.suite_id, "number": number, "event": event}
        socketio.emit("job", message, namespace="/events")

    state.jobs.listener = job_event
    state.hub.on_change = lambda: socketio.emit("devices", namespace="/events")


class _EventNamespace(Namespace):  # type: ignore[misc]  # flask_socketio has no types
    """Pages only listen."""


class _DeviceNamespace(Namespace):  # type: ignore[misc]
    def __init__(self, socketio: SocketIO, state: State) -> None:
        super().__init__("/device")
        self._state = state
        self._socketio = socketio

    def on_hello(self, message: Any) -> dict[str, Any]:
        connection = request.sid  # type: ignore[attr-defined]  # added by flask_socketio

        def send(event: str, body: dict[str, Any]) -> None:
            self._socketio.emit(event, body, namespace="/device", to=connection)

        return self._state.hub.hello(message, send, connection).model_dump()

    def on_progress(self, message: Any) -> None:
        if device := self._device():
            device.progress(message)

    def on_reply(self, message: Any) -> None:
        if device := self._device():
            device.reply(message)

    def on_disconnect(self, *_: Any) -> None:
        self._state.hub.disconnected(request.sid)  # type: ignore[attr-defined]

    def _device(self) -> Device | None:
        return self._state.hub.of_connection(request.sid)  # type: ignore[attr-defined]
