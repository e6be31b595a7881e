"""WebSockets under Engine.IO: one thread reads, messages are bounded while they arrive, and packets are checked."""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import engineio
import h11
from flask_socketio import SocketIO
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Message, Ping, Pong, Request, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from tapml.errors import InputError
from tapml.protocol.base import MAX_MESSAGE_BYTES
from tapml.server.connections import ENVIRON_KEY
from tapml.server.guard import answer
from tapml.strict_json import parse_json

PING_SECONDS = 10
"""How often a client is asked whether it is still there."""

SILENCE_SECONDS = 75.0
"""One that says nothing for so long is gone."""

GOING_AWAY_KEY = "tapml.going_away"
"""In the environment of a client that closed with 1001: its page is being closed or left (RFC 6455, section 7.4.1)."""

_RECEIVE_BYTES = 1 << 16
# What a packet of a few bytes may become when it is inflated is bounded with it.
_INFLATE_BYTES = 1 << 12
_CLOSE_SECONDS = 2.0
_PACKET = re.compile(r"4(?P<type>[01234])(?P<namespace>/[a-z]{1,20}),?(?P<number>[0-9]{0,9})(?P<json>.*)", re.DOTALL)
_EVENTS = {"/device": ("hello", "progress", "reply"), "/events": ()}


def install(socketio: SocketIO) -> None:
    """Have Engine.IO use this in place of its own."""
    engine = socketio.server.eio
    engine._async = {**engine._async, "websocket": _Upgrade}
    start = engine.start_background_task

    def start_background_task(target: Any, *arguments: Any, **options: Any) -> Any:
        # Its pings take a thread each, which outlives its client: who reads from a WebSocket sends them.
        if getattr(target, "__func__", None) is not engineio.socket.Socket._send_ping:
            return start(target, *arguments, **options)
        return None

    engine.start_background_task = start_background_task


class _Upgrade:
    """What Engine.IO calls with a request to upgrade, as WSGI."""

    def __init__(self, handler: Callable[[WebSocket], Any], server: Any) -> None:
        self._handler = handler

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        try:
            socket_ = WebSocket(environ)
        except (ProtocolError, h11.ProtocolError, ValueError):
            return answer(start_response, 400, "this is no request for a WebSocket")
        try:
            self._handler(socket_)
        finally:
            socket_.ended()
        return []  # and no answer: Guard knows


class WebSocket:
    """One connection, after its opening handshake. `wait` is for one thread, `send` and `close` for any."""

    def __init__(self, environ: dict[str, Any]) -> None:
        """Raises a ProtocolError of wsproto or h11, with nothing sent, for a request that is malformed."""
        self._environ = environ
        self._socket: socket.socket = environ["werkzeug.socket"]
        self._state, _ = environ[ENVIRON_KEY]
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._parts: list[Any] = []
        self._length = 0
        self._messages: list[str] = []
        self._packets = Packets()
        self._ping_due = time.monotonic() + PING_SECONDS
        self._protocol = WSConnection(ConnectionType.SERVER)
        headers = [(b"host", b"localhost"), (b"upgrade", b"websocket"), (b"connection", b"upgrade")]
        for name in ("version", "key", "extensions"):
            if (value := environ.get(f"HTTP_SEC_WEBSOCKET_{name.upper()}")) is not None:
                headers.append((f"sec-websocket-{name}".encode(), value.encode("latin-1")))
        self._protocol.initiate_upgrade_connection(headers, b"/")
        (request,) = self._protocol.events()
        assert isinstance(request, Request)
        self._deflates = any("permessage-deflate" in str(extension) for extension in request.extensions)
        # Never blocked within a call that holds the lock: TLS reads and writes take turns.
        self._socket.setblocking(False)
        self._readable = selectors.DefaultSelector()
        self._readable.register(self._socket, selectors.EVENT_READ)
        self._send(AcceptConnection(extensions=[PerMessageDeflate()]))

    def send(self, message: str | bytes) -> None:
        """Raises OSError where the connection has ended."""
        if self._closed:
            raise OSError("closed")
        self._send(Message(data=message))

    def wait(self) -> str | None:
        """The next message; None where there will be none any more."""
        while not self._messages:
            data = self._read()
            if not data or not self._take(data):
                if self._state.refusal is not None:
                    self._say_goodbye(CloseReason.TRY_AGAIN_LATER, self._state.refusal[1])
                return None
        message = self._messages.pop(0)
        if not self._packets.admit(message):
            self._say_goodbye(CloseReason.POLICY_VIOLATION, "this is no message of the session protocol")
            return None
        return message

    def close(self) -> None:
        """Does nothing when called again."""
        self._say_goodbye(CloseReason.NORMAL_CLOSURE, "")
        # Whoever waits for a message finds that there is none.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def ended(self) -> None:
        """Nobody reads from it any more."""
        self.close()
        self._readable.close()

    def _say_goodbye(self, code: CloseReason, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError, ProtocolError):
            self._send(CloseConnection(code, reason), _CLOSE_SECONDS)

    def _take(self, data: bytes) -> bool:
        """Events of received bytes; False where they end the connection."""
        step = _INFLATE_BYTES if self._deflates else len(data)
        for start in range(0, len(data), step):
            with self._lock:
                try:
                    self._protocol.receive_data(data[start : start + step])
                    events = list(self._protocol.events())
                except ProtocolError:
                    return False
            for event in events:
                if not self._handle(event):
                    return False
        return True

    def _handle(self, event: Any) -> bool:
        if isinstance(event, Ping):
            with contextlib.suppress(OSError):
                self._send(event.response(), _CLOSE_SECONDS)
        elif isinstance(event, TextMessage):
            return self._gather(event)
        elif isinstance(event, CloseConnection | BytesMessage):
            if isinstance(event, CloseConnection) and event.code == CloseReason.GOING_AWAY:
                self._environ[GOING_AWAY_KEY] = True
            self._say_goodbye(CloseReason.NORMAL_CLOSURE, "")
            return False
        else:
            return isinstance(event, Pong)
        return True

    def _gather(self, event: TextMessage) -> bool:
        self._length += len(event.data)
        if self._length > MAX_MESSAGE_BYTES:
            self._say_goodbye(CloseReason.MESSAGE_TOO_BIG, "a message is too large")
            return False
        self._parts.append(event.data)
        if event.message_finished:
            self._messages.append("".join(self._parts))
            self._parts, self._length = [], 0
        elif len(self._parts) > 10_000:
            self._parts = ["".join(self._parts)]
        return True

    def _read(self) -> bytes:
        """What has arrived; empty at the end of the connection, or after a long silence."""
        silent_since = time.monotonic()
        while self._state.refusal is None and time.monotonic() - silent_since < SILENCE_SECONDS:
            try:
                self._ping()
                with self._lock:
                    return self._socket.recv(_RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._readable.select(max(0.0, self._ping_due - time.monotonic()))
            except (OSError, ValueError, ProtocolError):
                return b""
        return b""

    def _ping(self) -> None:
        """When it is time. A client that something is being sent to may be slow to take it, and is not waited for."""
        if time.monotonic() >= self._ping_due:
            self._ping_due = time.monotonic() + PING_SECONDS
            if not self._writing.locked():
                self.send(engineio.packet.Packet(engineio.packet.PING).encode())

    def _send(self, event: Any, seconds: float = SILENCE_SECONDS) -> None:
        """One frame, whole, before the next. Raises OSError where the client takes nothing for so long."""
        with self._writing:
            with self._lock:
                view = memoryview(self._protocol.send(event))
            while view:
                try:
                    with self._lock:
                        sent = self._socket.send(view)
                    view = view[sent:]
                except (BlockingIOError, ssl.SSLWantWriteError):
                    with selectors.DefaultSelector() as writable:
                        writable.register(self._socket, selectors.EVENT_WRITE)
                        if not writable.select(seconds):
                            raise OSError("the client takes nothing") from None


class Packets:
    """Which packets a client may send, one after the other: Engine.IO and Socket.IO, for all that they read else."""

    def __init__(self) -> None:
        self._joined: set[str] = set()

    def admit(self, packet: str) -> bool:
        """Is this one allowed here?"""
        if packet in ("1", "2", "3"):
            return True
        found = _PACKET.fullmatch(packet)
        if found is None or found["namespace"] not in _EVENTS:
            return False
        try:
            said = parse_json(found["json"], "a packet", "") if found["json"] else None
        except InputError:
            return False
        return self._fits(found["type"], found["namespace"], found["number"], said)

    def _fits(self, kind: str, namespace: str, number: str, said: Any) -> bool:
        if kind == "0":  # connect
            fresh = namespace not in self._joined and not number and (said is None or isinstance(said, dict))
            self._joined.add(namespace)
            return fresh
        if namespace not in self._joined:
            return False
        if kind == "1":  # disconnect
            return not number and said is None
        if kind != "2" or not isinstance(said, list) or len(said) != 2:
            return False
        return isinstance(said[0], str) and said[0] in _EVENTS[namespace]
