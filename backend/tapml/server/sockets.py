"""Socket.IO: devices on /device, pages that watch jobs on /events."""

from __future__ import annotations

from typing import Any

import engineio.json
from flask import request
from flask_socketio import ConnectionRefusedError as Refused
from flask_socketio import Namespace, SocketIO
from pydantic_core import to_json

from tapml.devices import Device
from tapml.devices.device import PAGE_CLOSED
from tapml.protocol.base import Message
from tapml.protocol.session import Refusal, Welcome
from tapml.server.connections import ENVIRON_KEY, FULL
from tapml.server.jobs import RunningJob
from tapml.server.state import State
from tapml.server.websocket import GOING_AWAY_KEY


class Json:
    """What Socket.IO encodes and decodes by: a message goes to the device as its class spells it, in one pass."""

    loads = staticmethod(engineio.json.loads)

    @staticmethod
    def dumps(value: Any, **options: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[-1], Message):
            return to_json(value).decode()
        return str(engineio.json.dumps(value, **options))


def attach(socketio: SocketIO, state: State) -> None:
    """Register both namespaces and forward jobs' events and changes of devices and kernels."""
    socketio.on_namespace(_DeviceNamespace(socketio, state))
    socketio.on_namespace(_EventNamespace("/events"))

    def job_event(job: RunningJob, number: int, event: dict[str, Any]) -> None:
        message = {"job": job.id, "suite": job.suite_id, "number": number, "event": event}
        socketio.emit("job", message, namespace="/events")

    def kernels_event(suite_id: str, kernels: dict[str, dict[str, Any]]) -> None:
        socketio.emit("kernels", {"suite": suite_id, "kernels": kernels}, namespace="/events")

    state.jobs.listener = job_event
    state.watch.listener = kernels_event
    state.hub.on_change = lambda: socketio.emit("devices", namespace="/events")


def _settle() -> bool:
    """The WebSocket's purpose is known: it may stay. False where too many are open."""
    connection, connections = request.environ[ENVIRON_KEY]
    return bool(connections.advance(connection, "settled"))


class _EventNamespace(Namespace):  # type: ignore[misc]  # flask_socketio has no types
    """Pages only listen."""

    def on_connect(self, _auth: Any = None) -> None:
        if not _settle():
            raise Refused(FULL)


class _DeviceNamespace(Namespace):  # type: ignore[misc]
    def __init__(self, socketio: SocketIO, state: State) -> None:
        super().__init__("/device")
        self._state = state
        self._socketio = socketio

    def on_hello(self, message: Any) -> Message:
        connection = request.sid  # type: ignore[attr-defined]  # added by flask_socketio

        def send(event: str, body: Message) -> None:
            self._socketio.emit(event, body, namespace="/device", to=connection)

        answer = self._state.hub.hello(message, send, connection)
        if isinstance(answer, Welcome) and not _settle():
            self._state.hub.disconnected(connection)
            answer = Refusal(error=FULL)
        return answer

    def on_progress(self, message: Any) -> None:
        if device := self._device():
            device.progress(message)

    def on_reply(self, message: Any) -> None:
        if device := self._device():
            device.reply(message)

    def on_disconnect(self, *_: Any) -> None:
        # A page says so itself, too, but a browser may close it before that request is on its way.
        why_gone = PAGE_CLOSED if request.environ.get(GOING_AWAY_KEY) else None
        self._state.hub.disconnected(request.sid, why_gone)  # type: ignore[attr-defined]

    def _device(self) -> Device | None:
        return self._state.hub.of_connection(request.sid)  # type: ignore[attr-defined]
