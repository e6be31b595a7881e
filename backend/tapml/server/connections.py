"""Connections that are open: how many there may be, and how long each may take for what."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Literal

ENVIRON_KEY = "tapml.connection"
"""Where a request's WSGI environment has its Connection; not there where no server of ours runs the application."""

Stage = Literal["new", "stranger", "member", "receiving", "socket", "settled"]
"""What is known of a connection: nothing; a visitor of a shared link; a request that is allowed; one whose body is on
its way; a WebSocket that has not said yet what for; one that has."""

MOST_OPEN = 256
"""Connections in all, each of which has a thread or, as a WebSocket, three."""

_MOST: dict[Stage, int] = {
    "new": 64, "stranger": 64, "member": 160, "receiving": 32, "socket": 16, "settled": 64,
}  # fmt: skip
_MOST_OF_ONE_ADDRESS: dict[Stage, int] = {"new": 48, "stranger": 24}

REQUEST_SECONDS = 10.0
"""For a request's head, from the connection on; TLS's handshake included."""
SETTLE_SECONDS = 20.0
"""For a WebSocket, until it is a device that was welcomed or a page that listens: on a machine that is busy with a
browser's start that takes long. Idle ones make room for others after a second anyway."""
_BODY_SECONDS = 20.0
_SLOWEST_BYTES_PER_SECOND = 64_000
_STALE_SECONDS = 1.0
_CHECK_SECONDS = 0.25

LATE = "this took too long"
FULL = "too many connections are open: try again in a moment"


@dataclass(eq=False)
class Connection:
    """One connection. `refusal` is set when it was ended from this side, with the status and the sentence to say."""

    socket: socket.socket
    address: str
    stage: Stage = "new"
    since: float = field(default_factory=time.monotonic)
    deadline: float | None = None
    refusal: tuple[int, str] | None = None

    def end(self, status: int, sentence: str) -> None:
        """Whoever reads from it finds its end at once. May be called from any thread."""
        if self.refusal is None:
            self.refusal = (status, sentence)
        # Not by way of TLS, which would forget there and then that the connection is encrypted.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RD)


class Connections:
    """All connections of a server. Close it to end the thread that watches them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="connections", daemon=True).start()

    def close(self) -> None:
        """End all of them."""
        self._closing.set()
        for connection in self._all():
            connection.end(503, "the server is being stopped")
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)

    def open(self, sock: socket.socket, address: str) -> Connection | None:
        """A connection that was just accepted; None where there are too many. What has said nothing for longer than a
        second makes room.
        """
        connection = Connection(sock, address, deadline=time.monotonic() + REQUEST_SECONDS)
        with self._lock:
            if len(self._open) >= MOST_OPEN or not self._room(connection, "new"):
                return None
            self._open.add(connection)
        return connection

    def closed(self, connection: Connection) -> None:
        with self._lock:
            self._open.discard(connection)

    def advance(self, connection: Connection, stage: Stage) -> bool:
        """More is known of a connection now; False where there are too many of that kind."""
        with self._lock:
            if connection.stage == stage:
                return True
            if not self._room(connection, stage):
                return False
            connection.stage, connection.since = stage, time.monotonic()
            connection.deadline = connection.since + SETTLE_SECONDS if stage == "socket" else None
        return True

    def receiving(self, connection: Connection, length: int) -> None:
        """A body of `length` bytes is on its way, which is given the time that it takes over a slow network."""
        if not self.advance(connection, "receiving"):
            connection.end(503, FULL)
        connection.deadline = time.monotonic() + _BODY_SECONDS + length / _SLOWEST_BYTES_PER_SECOND

    def received(self, connection: Connection) -> None:
        """The body has arrived, or will not any more."""
        connection.deadline = None
        connection.stage = "member"

    def count(self, stage: Stage) -> int:
        """How many are known for so much, and no more."""
        return sum(connection.stage == stage for connection in self._all())

    def _room(self, connection: Connection, stage: Stage) -> bool:
        alike = [other for other in self._open if other.stage == stage and other.refusal is None]
        of_one = [other for other in alike if other.address == connection.address]
        for others, most in ((of_one, _MOST_OF_ONE_ADDRESS.get(stage)), (alike, _MOST[stage])):
            if most is None or len(others) < most:
                continue
            oldest = min(others, key=lambda other: other.since)
            if stage not in ("new", "socket") or time.monotonic() - oldest.since < _STALE_SECONDS:
                return False
            oldest.end(503, FULL)
        return True

    def _all(self) -> list[Connection]:
        with self._lock:
            return list(self._open)

    def _watch(self) -> None:
        while not self._closing.wait(_CHECK_SECONDS):
            now = time.monotonic()
            for connection in self._all():
                if connection.deadline is not None and now > connection.deadline:
                    connection.end(408, LATE)
