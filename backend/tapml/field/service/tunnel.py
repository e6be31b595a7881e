"""The tunnel's server: thousands of WebSockets on one thread, what they bring committed together, then acknowledged.

A client says hello, is told the last number that is committed, and sends batches; each acknowledgement says the same
anew. Whoever breaks a rule is told which and loses the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, RejectConnection, Request, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import ProtocolError

from tapml.errors import InputError
from tapml.field.service.gathered import Gathered
from tapml.field.service.limits import Limiter
from tapml.field.service.proxies import address_behind
from tapml.field.storage.records import Batch, Hello, Records, Sent
from tapml.formats import validated
from tapml.strict_json import parse_json

PATH = "/field/tunnel"
MOST_OPEN = 10_000
MOST_OF_ADDRESS = 8_000
"""Of one address, so that it alone does not keep all others out."""
MOST_MESSAGE_BYTES = 262_144
BURST_BYTES = 1_048_576
BYTES_PER_SECOND = 65_536
_HEAD_SECONDS = 10.0
_SILENCE_SECONDS = 75.0
_PING_SECONDS = 25.0
_RECEIVE_BYTES = 4096
"""What so many may become when they are inflated is bounded with it."""
_MOST_AT_ONCE = 500
_FULL_SECONDS = 60.0
_MOST_CONTAINERS = 20_000
_FORWARDED = b"x-forwarded-for"
_REMEDY = "; send what @tapml/agent sends"

_log = logging.getLogger(__name__)


class TunnelServer:
    """Listens from its making until `stop`. Raises InputError where the address cannot be used."""

    def __init__(
        self,
        records: Records,
        now: Callable[[], int],
        *,
        host: str,
        port: int,
        origins: Collection[str],
        limiter: Limiter | None = None,
        proxies: int = 0,
    ) -> None:
        """`limiter`: how often an address and a device may connect. `proxies`: how many stand before it."""
        self._records, self._origins = records, set(origins)
        self._limiter, self._proxies = limiter, proxies
        self._stopping = False
        self.open = 0
        """Connections."""
        self._of_address: Counter[str] = Counter()
        self.bytes = 0
        """That came since the start."""
        self._loop = asyncio.new_event_loop()
        # They are sent again, when the database is back.
        self._taking = Gathered[Sent, int](
            lambda sent: records.take(sent, now()), "the tunnel's records are not taken for now", _MOST_AT_ONCE
        )
        self._greeting = Gathered[Hello, int](
            lambda hellos: records.lasts([(one.device, one.stream) for one in hellos]),
            "the tunnel welcomes nobody for now", _MOST_AT_ONCE,
        )  # fmt: skip
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        # The caller's thread may have a loop of its own, which runs.
        self._thread = threading.Thread(target=self._run, name="field tunnel", daemon=True)
        self._thread.start()
        serving = asyncio.start_server(self._serve, host, port, limit=_RECEIVE_BYTES, backlog=1024)
        try:
            self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        except OSError as error:
            self.stop()
            raise InputError(
                f"the tunnel cannot listen at {host}:{port} ({error.strerror}): give another port"
            ) from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """May be called twice. What was not acknowledged by now will be sent again by who sent it."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def traffic(self) -> dict[str, int]:
        """Records and streams in the database, and since the start connections that are open and bytes that came."""
        found = self._records.traffic()
        return {"streams": found["streams"], "records": found["records"], "open": self.open, "bytes": self.bytes}

    def _run(self) -> None:
        own = [self._loop.create_task(one.run()) for one in (self._taking, self._greeting)]
        self._loop.run_forever()
        if self._server is not None:
            self._server.close()
        ended = [*own, *self._tasks]
        for task in ended:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*ended, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        try:
            if self.open <= MOST_OPEN:
                client = _Client(self, reader, writer)
                try:
                    await client.run()
                finally:
                    client.leave()
        except (OSError, ProtocolError, TimeoutError, asyncio.CancelledError):
            pass  # it is gone, or speaks something else
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    def allowed(self, origin: str | None) -> bool:
        """Pages say where they are from; who is none says nothing."""
        return origin is None or origin in self._origins

    def address(self, peer: str, forwarded: Sequence[str]) -> str:
        """Of who connects."""
        return address_behind(peer, forwarded, self._proxies)

    def enter(self, address: str) -> bool:
        """A connection of this address; False where it has as many as it may."""
        if self._limiter is not None and self._of_address[address] >= MOST_OF_ADDRESS:
            return False
        self._of_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """One that entered."""
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    async def wait(self, address: str) -> float:
        """Seconds until this address may connect; 0 where it may now."""
        return 0.0 if self._limiter is None else await asyncio.to_thread(self._limiter.address, address)

    def wait_after(self, address: str, count: int) -> float:
        """Likewise, where it sent so many bytes."""
        return 0.0 if self._limiter is None else self._limiter.sent(address, count)

    async def wait_of(self, device: str) -> float:
        """Likewise, of a device."""
        return 0.0 if self._limiter is None else await asyncio.to_thread(self._limiter.device, device)

    async def last(self, hello: Hello) -> int:
        """The last number of its stream that is committed. Cancelled where it cannot be told now."""
        return await self._greeting.ask(hello)

    async def take(self, sent: Sent) -> int:
        """The same, when this is committed. Cancelled where it cannot be now."""
        return await self._taking.ask(sent)

    def received(self, count: int) -> None:
        self.bytes += count


class _Client:
    def __init__(self, server: TunnelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._socket = WSConnection(ConnectionType.SERVER)
        self._address: str | None = None
        self._hello: Hello | None = None
        self._message: list[str] = []
        self._length = 0
        self._allowance = float(BURST_BYTES)
        self._since = time.monotonic()

    def leave(self) -> None:
        """It is gone."""
        if self._address is not None:
            self._server.leave(self._address)

    async def run(self) -> None:
        began = time.monotonic()
        pinged = False
        while True:
            welcomed = self._hello is not None
            patience = _PING_SECONDS if welcomed else began + _HEAD_SECONDS - time.monotonic()
            try:
                # Not wait_for: a cancellation that comes together with data would be lost.
                async with asyncio.timeout(max(patience, 0.01)):
                    data = await self._reader.read(_RECEIVE_BYTES)
                pinged = False
            except TimeoutError:
                if not welcomed or pinged:
                    return
                pinged = True
                await self._send(self._socket.send(Ping()))
                continue
            if not data:
                return
            self._server.received(len(data))
            self._socket.receive_data(data)
            for event in self._socket.events():
                if not await self._handle(event):
                    return

    async def _handle(self, event: Any) -> bool:
        if isinstance(event, Request):
            return await self._accept(event)
        if isinstance(event, Ping):
            await self._send(self._socket.send(event.response()))
        elif isinstance(event, CloseConnection):
            with contextlib.suppress(ProtocolError):
                await self._send(self._socket.send(event.response()))
            return False
        elif isinstance(event, BytesMessage):
            return await self._close("messages are text")
        elif isinstance(event, TextMessage):
            self._length += len(event.data)
            if self._length > MOST_MESSAGE_BYTES:
                return await self._close(f"a message has at most {MOST_MESSAGE_BYTES} bytes: send smaller batches")
            self._message.append(event.data)
            if event.message_finished:
                text, self._message, self._length = "".join(self._message), [], 0
                return await self._take(text)
        return True

    async def _accept(self, request: Request) -> bool:
        headers = {name.lower(): value for name, value in request.extra_headers}
        forwarded = [value.decode("latin-1") for name, value in request.extra_headers if name.lower() == _FORWARDED]
        peer: tuple[Any, ...] = self._writer.get_extra_info("peername") or ("",)
        address = self._server.address(str(peer[0]), forwarded)
        wait = await self._server.wait(address)
        if not wait and not self._server.enter(address):
            wait = _FULL_SECONDS
        if wait:
            told = [(b"Retry-After", str(math.ceil(wait)).encode())]
            await self._send(self._socket.send(RejectConnection(status_code=429, headers=told)))
            return False
        self._address = address
        origin = headers.get(b"origin")
        allowed = self._server.allowed(None if origin is None else origin.decode("latin-1"))
        if request.target != PATH or not allowed:
            await self._send(self._socket.send(RejectConnection(status_code=403 if request.target == PATH else 404)))
            return False
        # Acknowledgements are short: what a compressor would remember for the next one is a hundred kilobytes.
        deflate = PerMessageDeflate(server_no_context_takeover=True)
        await self._send(self._socket.send(AcceptConnection(extensions=[deflate])))
        return True

    async def _take(self, text: str) -> bool:
        now = time.monotonic()
        self._allowance = min(BURST_BYTES, self._allowance + (now - self._since) * BYTES_PER_SECOND) - len(text)
        self._since = now
        if self._allowance < 0:
            return await self._close("this is too much at once: send at most 64 kB a second")
        if wait := self._server.wait_after(self._address or "", len(text)):
            seconds = math.ceil(wait)
            return await self._close(f"this address sends too much: come again in {seconds} s", seconds)
        try:
            found = parse_json(text, "a message", _REMEDY.removeprefix("; "), most_containers=_MOST_CONTAINERS)
            if self._hello is None:
                self._hello = validated("the hello", Hello, found, _REMEDY)
                if wait := await self._server.wait_of(self._hello.device):
                    seconds = math.ceil(wait)
                    return await self._close(f"this device connects too often: come again in {seconds} s", seconds)
                last = await self._server.last(self._hello)
            else:
                batch = validated("a batch", Batch, found, _REMEDY)
                last = await self._server.take(Sent(self._hello.device, self._hello.stream, batch))
        except InputError as error:
            return await self._close(str(error))
        await self._send(self._socket.send(TextMessage(json.dumps({"acknowledged": last}))))
        return True

    async def _close(self, sentence: str, wait: int | None = None) -> bool:
        """`wait`: seconds until it may come again."""
        told = {"error": sentence[:500], **({} if wait is None else {"wait": wait})}
        await self._send(self._socket.send(TextMessage(json.dumps(told))))
        await self._send(self._socket.send(CloseConnection(CloseReason.POLICY_VIOLATION)))
        return False

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(_SILENCE_SECONDS):
            await self._writer.drain()
