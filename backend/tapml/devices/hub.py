"""Connected devices and the calls running on them, whatever transport brought them (the server's Socket.IO)."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tapml.devices.protocol import Hello
from tapml.errors import DeviceError, DeviceLost

Send = Callable[[str, dict[str, Any]], None]
"""send(event, message) to one runner."""


@dataclass(frozen=True)
class CallResult:
    """What a call gave: its result, and the bytes of its downloads one after the other."""

    result: dict[str, Any]
    downloads: bytes


@dataclass
class _PendingCall:
    id: str
    on_progress: Callable[[dict[str, Any]], None]
    download_limit: int
    done: threading.Event = field(default_factory=threading.Event)
    reply: dict[str, Any] | None = None
    lost: str | None = None
    downloads: bytes = b""


class Device:
    """One device: what it said of itself, and calls to it, one at a time."""

    def __init__(self, device_id: str, hello: Hello, send: Send, connection: str) -> None:
        self.id = device_id
        self.hello = hello
        self._send = send
        self._connection: str | None = connection
        self._lock = threading.Lock()
        self._one_call = threading.Lock()
        self._call: _PendingCall | None = None
        self._last_sign = 0.0

    @property
    def name(self) -> str:
        """The browser with its version, for people: "Chromium 156"."""
        return self.hello.name

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def busy(self) -> bool:
        return self._one_call.locked()

    def describe(self) -> dict[str, Any]:
        """The `devices` entry of the result documents."""
        hello = self.hello
        return {
            "id": self.id,
            "name": hello.name,
            "user_agent": hello.user_agent,
            "adapter": dict(hello.adapter),
            "features": list(hello.features),
            "limits": dict(hello.limits),
        }

    def call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        on_progress: Callable[[dict[str, Any]], None] = lambda progress: None,
        download_bytes: int = 0,
        timeout: float = 600.0,
        check: Callable[[], None] = lambda: None,
    ) -> CallResult:
        """Run one call to its end. Another thread's call waits for it.

        `download_bytes` is how many bytes the call will send back; more are refused.
        `check` is called now and then and may raise to give the call up; the runner is told to drop it.
        Raises DeviceLost when the device goes away, DeviceError with what it reported, or after `timeout`
        seconds without reply or progress.
        """
        with self._one_call:
            call = _PendingCall(secrets.token_urlsafe(16), on_progress, download_bytes)
            with self._lock:
                if self._connection is None:
                    raise DeviceLost(f"device lost: {self.name} is not connected any more")
                self._call = call
            try:
                self._send("call", {"call": call.id, "method": method, "params": params})
                return self._wait(call, method, timeout, check)
            finally:
                with self._lock:
                    self._call = None

    def _wait(self, call: _PendingCall, method: str, timeout: float, check: Callable[[], None]) -> CallResult:
        self._last_sign = time.monotonic()
        while not call.done.wait(0.1):
            try:
                check()
            except BaseException:
                self._send("cancel", {"call": call.id})
                raise
            if time.monotonic() - self._last_sign > timeout:
                raise DeviceError(f"{self.name} gave no sign for {timeout:.0f} s while running {method}")
        if call.lost is not None:
            raise DeviceLost(f"device lost: {call.lost}")
        assert call.reply is not None
        if call.reply.get("ok") is True:
            return CallResult(dict(call.reply.get("result") or {}), call.downloads)
        raise _reported(call.reply.get("error"))

    # ------------------------------------------------ what the runner sends

    def progress(self, call_id: str, progress: Any) -> None:
        call = self._running(call_id)
        if call and isinstance(progress, Mapping):
            self._last_sign = time.monotonic()
            call.on_progress(dict(progress))

    def reply(self, call_id: str, message: Mapping[str, Any]) -> None:
        call = self._running(call_id)
        if call:
            call.reply = dict(message)
            call.done.set()

    def running_call(self, call_id: str) -> tuple[int, Callable[[bytes], None]] | None:
        """Download limit in bytes and where to put the downloads of a running call; None for any other id."""
        call = self._running(call_id)
        if call is None:
            return None

        def put(data: bytes) -> None:
            call.downloads = data

        return call.download_limit, put

    def _running(self, call_id: str) -> _PendingCall | None:
        with self._lock:
            return self._call if self._call is not None and self._call.id == call_id else None

    # ------------------------------------------------ connection

    def attach(self, hello: Hello, send: Send, connection: str) -> None:
        """The runner is back on a new connection."""
        with self._lock:
            self._abandon("it reconnected in the middle of a call")
            self.hello, self._send, self._connection = hello, send, connection

    def detach(self, connection: str, reason: str) -> bool:
        """The connection ended: a running call fails at once. False for a connection that was replaced."""
        with self._lock:
            if self._connection != connection:
                return False
            self._connection = None
            self._abandon(reason)
            return True

    def _abandon(self, reason: str) -> None:
        if self._call is not None:
            self._call.lost = reason
            self._call.done.set()


class DeviceHub:
    """All devices of a server. `on_change` is called (from any thread) when the list changes."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._changed = threading.Condition()
        self.on_change: Callable[[], None] = lambda: None

    def hello(self, message: Any, send: Send, connection: str) -> Device:
        """A runner introduced itself. Raises ProtocolError for a malformed message or another version."""
        hello = Hello.parse(message)
        with self._changed:
            known = self._devices.get(hello.resume or "")
            if known is not None and not known.connected:
                known.attach(hello, send, connection)
                device = known
            else:
                device = self._join(hello, send, connection)
            self._changed.notify_all()
        self.on_change()
        return device

    def _join(self, hello: Hello, send: Send, connection: str) -> Device:
        """Ids are made of names ("firefox-153"), so that results of separate runs belong to the same device."""
        slug = re.sub(r"[^a-z0-9]+", "-", hello.name.lower()).strip("-")[:60] or "device"
        number, device_id = 1, slug
        while device_id in self._devices and self._devices[device_id].connected:
            number += 1
            device_id = f"{slug}-{number}"
        known = self._devices.get(device_id)
        if known is not None:
            known.attach(hello, send, connection)
            return known
        self._devices[device_id] = Device(device_id, hello, send, connection)
        return self._devices[device_id]

    def disconnected(self, connection: str, reason: str = "its page was closed or its browser ended") -> None:
        with self._changed:
            devices = list(self._devices.values())
        detached = [device.detach(connection, f"{device.name}: {reason}") for device in devices]
        if any(detached):
            self.on_change()

    def connected(self) -> list[Device]:
        with self._changed:
            return [device for device in self._devices.values() if device.connected]

    def get(self, device_id: str) -> Device | None:
        with self._changed:
            return self._devices.get(device_id)

    def of_call(self, call_id: str) -> tuple[int, Callable[[bytes], None]] | None:
        """See Device.running_call; over all devices."""
        for device in self.connected():
            if found := device.running_call(call_id):
                return found
        return None

    def wait_for(self, wanted: Callable[[Device], bool], timeout: float | None) -> Device | None:
        """The first connected device that `wanted` accepts; None after `timeout` seconds."""

        def find() -> Device | None:
            return next((d for d in self._devices.values() if d.connected and wanted(d)), None)

        with self._changed:
            # Short waits: on some platforms an endless one cannot be interrupted by Ctrl-C.
            deadline = None if timeout is None else time.monotonic() + timeout
            while (device := find()) is None:
                if deadline is not None and time.monotonic() > deadline:
                    return None
                self._changed.wait(0.25)
            return device


def _reported(error: Any) -> DeviceError:
    if not isinstance(error, Mapping):
        return DeviceError("the device reported an error without saying what")
    message = str(error.get("message", "unknown error"))[:20000]
    kind = str(error.get("kind", "internal"))
    return DeviceLost(message) if kind == "device-lost" else DeviceError(message, kind)
