"""Simulated devices: each has an outbox as @tapml/agent/tunnel has, and one connection of the tunnel."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import time
from dataclasses import dataclass, field

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.utilities import ProtocolError

from tapml.field.service.tunnel import PATH

TASK, VERSION, NAME = "shop/highlight", "1.0", "feature"
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0


@dataclass
class Fleet:
    """What all its devices do, and what came of it."""

    port: int
    bytes_each: int
    every: float
    """Seconds from one feature of a device to its next, on average; drawn, so that they do not come together."""
    phase: str = "ramp"
    sending: bool = False
    ending: bool = False
    took: dict[str, list[float]] = field(default_factory=dict)
    """By the phase in which a feature was emitted: seconds until it was acknowledged."""
    connections: int = 0
    reconnected: int = 0
    luck: random.Random = field(default_factory=lambda: random.Random(7))

    def feature(self) -> str:
        """JSON of about so many bytes, as a feature of numbers has them."""
        numbers = self.bytes_each // 8
        return json.dumps([round(self.luck.random(), 4) for _ in range(numbers)])


class Device:
    """`run` until the fleet ends and all is acknowledged."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet, self.device, self.stream = fleet, f"simulated-{number:08d}", f"stream-{number:012d}"
        self.emitted = 0
        self.acknowledged = 0
        self.waiting: dict[int, tuple[str, float, str]] = {}
        """By number: the value, when it was emitted, in which phase."""
        self.hashes: dict[int, str] = {}
        """MD5 of each value, as the database computes it."""
        self._sent = 0
        self._socket: WSConnection | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def connected(self) -> bool:
        return self._writer is not None

    def cut(self) -> None:
        """As a network does, without a word."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def run(self) -> None:
        emitting = asyncio.create_task(self._emit())
        wait = _FIRST_WAIT
        try:
            while not (self.fleet.ending and not self.waiting):
                before = self.acknowledged
                with contextlib.suppress(OSError, ProtocolError, TimeoutError, EOFError):
                    await self._connection()
                self._writer = None
                wait = _FIRST_WAIT if self.acknowledged > before else min(2 * wait, _LONGEST_WAIT)
                await asyncio.sleep(wait * (0.5 + self.fleet.luck.random()))
        finally:
            emitting.cancel()

    async def _emit(self) -> None:
        while True:
            await asyncio.sleep(2 * self.fleet.every * self.fleet.luck.random())
            if self.fleet.sending:
                self.emitted += 1
                value = self.fleet.feature()
                self.hashes[self.emitted] = hashlib.md5(value.encode()).hexdigest()
                self.waiting[self.emitted] = (value, time.monotonic(), self.fleet.phase)
                with contextlib.suppress(OSError):
                    await self._send()

    async def _connection(self) -> None:
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.fleet.port, limit=4096)
        self.fleet.reconnected += self.acknowledged > 0
        socket = WSConnection(ConnectionType.CLIENT)
        self._sent = -1
        try:
            request = Request(host="127.0.0.1", target=PATH, extensions=[PerMessageDeflate()])
            writer.write(socket.send(request))
            self._socket, self._writer = socket, writer
            while not (self.fleet.ending and not self.waiting):
                try:
                    async with asyncio.timeout(1 if self.fleet.ending else 60):
                        data = await reader.read(4096)
                except TimeoutError:
                    continue
                if not data:
                    return
                socket.receive_data(data)
                for event in socket.events():
                    if not await self._handle(event):
                        return
        finally:
            self.fleet.connections -= self._sent >= 0
            self._writer = None
            writer.transport.abort()

    async def _handle(self, event: object) -> bool:
        assert self._socket is not None
        assert self._writer is not None
        if isinstance(event, AcceptConnection):
            hello = {"tunnel": 1, "device": self.device, "stream": self.stream}
            self._writer.write(self._socket.send(TextMessage(json.dumps(hello))))
        elif isinstance(event, TextMessage):
            told = json.loads(event.data)
            if "error" in told:
                raise ProtocolError(told["error"])
            self._took(told["acknowledged"])
            if self._sent < 0:
                self.fleet.connections += 1
                self._sent = self.acknowledged
            await self._send()
        elif isinstance(event, Ping):
            self._writer.write(self._socket.send(event.response()))
        elif isinstance(event, CloseConnection | RejectConnection):
            return False
        return True

    def _took(self, last: int) -> None:
        now = time.monotonic()
        for number in range(self.acknowledged + 1, last + 1):
            _, emitted, phase = self.waiting.pop(number)
            self.fleet.took.setdefault(phase, []).append(now - emitted)
        self.acknowledged = max(self.acknowledged, last)

    async def _send(self) -> None:
        """One message at a time, as the agent does: its answer asks for the next one."""
        if self._writer is None or self._socket is None or self._sent != self.acknowledged:
            return
        batch = [number for number in sorted(self.waiting) if number > self._sent][:6]
        if not batch:
            return
        records = ",".join(
            f'{{"task":"{TASK}","version":"{VERSION}","name":"{NAME}","at":5,"value":{self.waiting[number][0]}}}'
            for number in batch
        )
        self._sent = batch[-1]
        self._writer.write(self._socket.send(TextMessage(f'{{"first":{batch[0]},"records":[{records}]}}')))
        await self._writer.drain()
