"""A connected device: what it said of itself, and calls to it."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tapml.devices.calls import CallResult, OnProgress, PendingCall, hung_compiling, lost
from tapml.errors import DeviceError, DeviceLost
from tapml.program import TensorType
from tapml.protocol.base import Message
from tapml.protocol.methods import Command, ExecuteParams, ExecuteResult
from tapml.protocol.session import EXECUTE, CancelCall, Hello, Method, Params, Result, Welcome
from tapml.results.base import DeviceDocument, DeviceFacts

Send = Callable[[str, Message], None]
"""send(event, message) to one runner."""

_FACTS = set(DeviceFacts.__annotations__)

GRACE_SECONDS = 25.0
"""How long a device whose connection broke may take to come back before its call is given up."""

PAGE_CLOSED = "its page was closed"
"""Why a device is gone whose page said goodbye."""

CLOSED = "closed"
"""`DeviceLost.lost_reason` then: somebody closed the page, and nothing that ran on it is to blame."""

HANG_SECONDS = 30.0
"""GPU work that takes longer than this, without an end, is taken for hung."""

_SILENCE_SECONDS = 90.0
"""A working runner says something every two seconds; one that says nothing for so long hangs with its GPU."""

_COMPILING_GRACE_SECONDS = 5.0
"""A runner whose thread is free finds by itself, so much earlier, that a compilation does not end."""


class Device:
    """One device: what it said of itself, and calls to it, one at a time.

    A connection that breaks is waited for: the runner comes back with what the call made in the meantime.
    """

    def __init__(self, device_id: str, hello: Hello, send: Send, connection: str, started: str | None = None) -> None:
        """`started`: as what the server started this device, which it has proved; None for any other."""
        self.id = device_id
        self.hello = hello
        self.started = started
        self.grace_seconds = GRACE_SECONDS
        self.on_hung: Callable[[], None] = lambda: None
        """Called (from any thread) when the GPU hangs: whoever started the device may start it again."""
        self._session = secrets.token_urlsafe(24)
        self._send = send
        self._connection: str | None = connection
        self._away_since = 0.0
        self._gone: str | None = None
        self._lock = threading.Condition()
        self._one_call = threading.Lock()
        self._generation = 1
        self._call: PendingCall[Any, Any] | None = None

    @property
    def name(self) -> str:
        """What it runs in, with the version, for people: "Chromium 156"."""
        return self.hello.name

    @property
    def connected(self) -> bool:
        """Connected now, or expected back."""
        with self._lock:
            return self._reachable()

    @property
    def busy(self) -> bool:
        return self._one_call.locked()

    @property
    def generation(self) -> int:
        """Rises when the GPU device, or the whole runner, is replaced by another: what was on it is gone then."""
        with self._lock:
            return self._generation

    @property
    def why_gone(self) -> str:
        """In words, for a device that is not connected any more."""
        with self._lock:
            return self._gone or "its connection broke"

    def describe(self) -> DeviceDocument:
        """The `devices` entry of the result documents."""
        facts = self.hello.model_dump(include=_FACTS)
        return cast(DeviceDocument, {"id": self.id, **facts})

    def execute(
        self,
        commands: Sequence[Command],
        types: Sequence[TensorType] = (),
        *,
        hang_seconds: float = HANG_SECONDS,
        check: Callable[[], None] = lambda: None,
        generation: int | None = None,
    ) -> CallResult[ExecuteResult]:
        """Run commands in order. `types`: of the tensors that its "download" commands bring, which are `arrays` of
        the result then. The rest, and what it raises: see `call`.
        """
        params = ExecuteParams(commands=list(commands), timing=False)
        return self.call(EXECUTE, params, types, hang_seconds=hang_seconds, check=check, generation=generation)

    def call(
        self,
        method: Method[Params, Result],
        params: Params,
        types: Sequence[TensorType] = (),
        *,
        on_progress: OnProgress = lambda progress: None,
        hang_seconds: float = HANG_SECONDS,
        check: Callable[[], None] = lambda: None,
        generation: int | None = None,
        most_more: int = 0,
    ) -> CallResult[Result]:
        """Run one call to its end. Another thread's call waits for it.

        `types`: of the tensors that the call will send back; fewer bytes are an error, and so are more, but for
        `most_more` behind them.
        `hang_seconds`: how long the GPU may work on one piece, or one compilation take, before it counts as hung.
        `check` is called now and then and may raise to give the call up; the runner is told to drop it.
        `generation`: the only one the call makes sense on, because it uses what was left there.
        Raises DeviceLost when the device goes away and does not come back or is of another generation, DeviceError
        with what it reported.
        """
        with self._one_call:
            call = PendingCall(method, params, types, hang_seconds, on_progress, most_more)
            with self._lock:
                if not self._reachable():
                    raise self._lost("it is not connected any more")
                self._check_generation(generation)
                self._call = call
                if self._connection is not None:
                    self._send("call", call.message)
            try:
                self._wait(call, check, hang_seconds)
                return self._result(call, generation)
            except DeviceLost as error:
                if error.lost_reason == "hung":
                    self.on_hung()
                raise
            finally:
                with self._lock:
                    self._call = None

    def _wait(self, call: PendingCall[Any, Any], check: Callable[[], None], hang_seconds: float) -> None:
        silence = max(_SILENCE_SECONDS, 2 * hang_seconds)
        # Short waits: on some platforms an endless one cannot be interrupted by Ctrl-C.
        while not self._done(call, check):
            with self._lock:
                reachable = self._reachable()
                away = self._connection is None
            if not reachable:
                call.fail(self._lost(f"its connection broke {self.grace_seconds:.0f} s ago"))
            elif away:
                call.last_sign = time.monotonic()
            elif self._blocked_by_compiling(call, hang_seconds):
                self._cancel(call)
                call.fail(hung_compiling(self.name, call.compiling[-1], hang_seconds))
            elif time.monotonic() - call.last_sign > silence:
                self._cancel(call)
                what = f"it gave no sign for {silence:.0f} s while running {call.name}"
                call.fail(lost(self.name, what, reason="hung"))

    def _blocked_by_compiling(self, call: PendingCall[Any, Any], hang_seconds: float) -> bool:
        """Does it compile on the thread that would give a sign? A page does not: the GPU is another process's."""
        if not call.compiling or self.hello.runtime == "browser":
            return False
        return time.monotonic() - call.last_sign > hang_seconds + _COMPILING_GRACE_SECONDS

    def _done(self, call: PendingCall[Any, Any], check: Callable[[], None]) -> bool:
        try:
            if call.done.wait(0.1):
                return True
            check()
        except BaseException:  # Ctrl-C too
            self._cancel(call)
            raise
        return False

    def _result(self, call: PendingCall[Params, Result], generation: int | None) -> CallResult[Result]:
        # A runner that finds its GPU device lost says hello with a new one before it runs the call.
        try:
            result = call.result(self.name)
        except DeviceLost:
            raise
        except DeviceError:
            self._check_generation(generation)
            raise
        self._check_generation(generation)
        return result

    def _check_generation(self, wanted: int | None) -> None:
        if wanted is not None and wanted != self._generation:
            raise lost(self.name, "its GPU device was lost and replaced; what was on it is gone", reason="replaced")

    def _cancel(self, call: PendingCall[Any, Any]) -> None:
        with self._lock:
            if self._connection is not None:
                self._send("cancel", CancelCall(call=call.id))

    # ------------------------------------------------ what the runner sends

    def progress(self, message: Any) -> None:
        if call := self._running(message):
            call.progress(message)

    def reply(self, message: Any) -> None:
        if call := self._running(message):
            call.reply(message)

    def running_call(self, call_id: str) -> PendingCall[Any, Any] | None:
        """The call of that id while it runs."""
        with self._lock:
            return self._call if self._call is not None and self._call.is_id(call_id) else None

    def _running(self, message: Any) -> PendingCall[Any, Any] | None:
        return self.running_call(str(message.get("call"))) if isinstance(message, Mapping) else None

    # ------------------------------------------------ connection

    def proves(self, session: str) -> bool:
        """Is this the secret the runner got when it joined?"""
        with self._lock:
            return hmac.compare_digest(self._session.encode(), session.encode("utf-8", "surrogatepass"))

    def speaks_on(self, connection: str) -> bool:
        """Is this the connection it is on now?"""
        with self._lock:
            return self._connection == connection

    def attach(self, hello: Hello, send: Send, connection: str) -> Welcome:
        """The runner is (still, or again) there: on a new connection, or with a new GPU device on the same."""
        with self._lock:
            known = hello.resume.calls if hello.resume else []
            returned = self._connection != connection
            if hello.generation != self.hello.generation:
                self._generation += 1
            self.hello, self._send, self._connection, self._gone = hello, send, connection, None
            call = self._call
            if call is not None and returned and call.id not in known:
                # The message was lost with the connection, or it waited for one.
                send("call", call.message)
            return self.welcome()

    def welcome(self) -> Welcome:
        with self._lock:
            calls = {self._call.id: self._call.received} if self._call else {}
            return Welcome(device=self.id, session=self._session, calls=calls)

    def rejoin(self, hello: Hello, send: Send, connection: str) -> Welcome:
        """Another runner of the same name takes the place of one that is gone; nothing of that one is left."""
        with self._lock:
            self._session = secrets.token_urlsafe(24)
            self._generation += 1
            if self._call is not None:
                self._call.fail(lost(self.name, "it was started again"))
                self._call = None
        return self.attach(hello, send, connection)

    def detach(self, connection: str, why_gone: str | None = None) -> bool:
        """The connection ended; the runner may come back, but where `why_gone` says why not. False for a connection
        that was replaced.

        Of a device that it started the server knows better: a browser that is killed closes its connections as well.
        """
        with self._lock:
            if self._connection != connection:
                return False
            self._connection = None
            self._away_since = time.monotonic()
            if why_gone is not None and self.started is None:
                self._leave(why_gone)
            return True

    def leave(self, why: str) -> None:
        """The runner is gone for good: its call fails at once."""
        with self._lock:
            self._leave(why)

    def _leave(self, why: str) -> None:
        self._connection, self._gone = None, why
        if self._call is not None:
            self._call.fail(self._lost(why))

    def _lost(self, otherwise: str) -> DeviceLost:
        """`otherwise`: why, where nobody said it."""
        reason = CLOSED if self._gone == PAGE_CLOSED else "gone"
        return lost(self.name, self._gone or otherwise, reason=reason)

    def _reachable(self) -> bool:
        if self._connection is not None:
            return True
        return self._gone is None and time.monotonic() - self._away_since < self.grace_seconds
