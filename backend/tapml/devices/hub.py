"""Devices by id, whatever transport brought them (the server's Socket.IO)."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tapml.devices.calls import PendingCall
from tapml.devices.device import Device, Send
from tapml.errors import InputError
from tapml.files import sha256, unique
from tapml.first_error import first_error
from tapml.protocol.base import PROTOCOL_VERSION
from tapml.protocol.session import Hello, Refusal, Welcome
from tapml.results.base import id_of_name
from tapml.text import meant

_MOST_DEVICES = 200


class DeviceHub:
    """All devices of a server. `on_change` is called (from any thread) when the list changes."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._by_connection: dict[str, Device] = {}
        # By the secrets' hashes: how long it takes to look one up tells nothing of another.
        self._expected: dict[str, str] = {}
        self._changed = threading.Condition()
        self.on_change: Callable[[], None] = lambda: None

    def expect(self, name: str) -> str:
        """The secret for a runner that is about to be started as `name`. One that was given out for `name` before
        is worth nothing any more.
        """
        secret = secrets.token_urlsafe(24)
        with self._changed:
            self._expected = {known: other for known, other in self._expected.items() if other != name}
            self._expected[sha256(secret)] = name
        return secret

    def hello(self, message: Any, send: Send, connection: str) -> Welcome | Refusal:
        """A runner introduced itself; the answer goes back to it."""
        version = message.get("protocol") if isinstance(message, dict) else None
        if version != PROTOCOL_VERSION:
            shown = repr(version)[:40]
            return Refusal(error=f"this server speaks protocol {PROTOCOL_VERSION}, the runner {shown}: reload the page")
        try:
            hello = Hello.model_validate(message)
        except ValidationError as error:
            return Refusal(error=f"hello is malformed: {first_error(error)}")
        if not hello.name.isprintable():
            return Refusal(error="hello is malformed: name: has control characters")
        with self._changed:
            started = self._expected.get(sha256(hello.secret)) if hello.secret else None
            if hello.secret and started is None:
                return Refusal(error="this server did not start this runner, or started another in its place: close it")
            device = self._resumed(hello, started)
            if device is not None:
                welcome = device.attach(hello, send, connection)
            elif len(self._forget_some()) >= _MOST_DEVICES:
                return Refusal(error=f"{_MOST_DEVICES} devices are connected already: close some")
            else:
                device, welcome = self._join(hello, started, send, connection)
            self._move(connection, device)
            self._changed.notify_all()
        self.on_change()
        return welcome

    def _resumed(self, hello: Hello, started: str | None) -> Device | None:
        """The device that this runner was before, which it has to prove by the session's secret."""
        device = self._devices.get(hello.resume.device) if hello.resume else None
        if device is None or hello.resume is None or not device.connected or device.started != started:
            return None
        return device if device.proves(hello.resume.session) else None

    def _join(self, hello: Hello, started: str | None, send: Send, connection: str) -> tuple[Device, Welcome]:
        """Ids are made of names ("firefox-153"), so that results of separate runs belong to the same device.

        Nobody gets the place of a device that is there or may come back, nor ever that of one the server started;
        what it started itself gets its own place, whoever has held a like name since.
        """
        known = next((d for d in self._devices.values() if started and d.started == started), None)
        if known is None:
            device_id = unique(id_of_name(hello.name), lambda taken: self._is_taken(taken, started))
            known = self._devices.get(device_id)
        if known is not None:
            return known, known.rejoin(hello, send, connection)
        device = self._devices[device_id] = Device(device_id, hello, send, connection, started)
        return device, device.welcome()

    def _is_taken(self, device_id: str, started: str | None) -> bool:
        known = self._devices.get(device_id)
        return known is not None and bool(known.connected or known.started or started)

    def _move(self, connection: str, device: Device) -> None:
        """From now on `connection` alone speaks for `device`, and for no other."""
        before = self._by_connection.get(connection)
        if before is not None and before is not device and before.speaks_on(connection):
            before.leave("its runner introduced itself as another device")
        others = [known for known, found in self._by_connection.items() if found is device and known != connection]
        for known in others:
            del self._by_connection[known]
        self._by_connection[connection] = device

    def _forget_some(self) -> list[Device]:
        """Those that have left are remembered for their ids, but not for ever; gives those that are left."""
        gone = [device for device in self._devices.values() if not device.connected and not device.busy]
        for device in gone[: max(0, len(self._devices) - _MOST_DEVICES + 1)]:
            del self._devices[device.id]
        return list(self._devices.values())

    def of_connection(self, connection: str) -> Device | None:
        """The device that this connection speaks for."""
        with self._changed:
            device = self._by_connection.get(connection)
        return device if device is not None and device.speaks_on(connection) else None

    def disconnected(self, connection: str, why_gone: str | None = None) -> None:
        """The connection ended; its device may come back, or is gone for good where `why_gone` says so."""
        with self._changed:
            device = self._by_connection.pop(connection, None)
        if device is not None and device.detach(connection, why_gone):
            self.on_change()

    def left(self, wanted: Callable[[Device], bool], why: str) -> None:
        """These devices are gone for good: their pages were closed, their processes ended."""
        for device in self.connected():
            if wanted(device):
                device.leave(why)
        self.on_change()

    def connected(self) -> list[Device]:
        with self._changed:
            return [device for device in self._devices.values() if device.connected]

    def gone(self) -> list[Device]:
        """Those that were connected and are not any more, as far as they are remembered."""
        with self._changed:
            return [device for device in self._devices.values() if not device.connected]

    def get(self, device_id: str) -> Device | None:
        with self._changed:
            return self._devices.get(device_id)

    def of_call(self, call_id: str) -> PendingCall[Any, Any] | None:
        """The running call of that id, over all devices."""
        return next((call for device in self.connected() if (call := device.running_call(call_id))), None)

    def wait_for(
        self, wanted: Callable[[Device], bool], timeout: float | None, check: Callable[[], None] = lambda: None
    ) -> Device | None:
        """The first connected device that `wanted` accepts; None after `timeout` seconds. `check` is called now and
        then, to end the wait by raising.
        """

        def find() -> Device | None:
            return next((d for d in self._devices.values() if d.connected and wanted(d)), None)

        with self._changed:
            # Short waits: on some platforms an endless one cannot be interrupted by Ctrl-C.
            deadline = None if timeout is None else time.monotonic() + timeout
            while (device := find()) is None:
                if deadline is not None and time.monotonic() > deadline:
                    return None
                check()
                self._changed.wait(0.25)
            return device


def device_named(wanted: str, connected: Mapping[str, str], otherwise: Sequence[str]) -> str:
    """The id of the device that has this id or, alone, this name. `connected`: names by id.

    Raises InputError that lists them where there is none or are several; `otherwise`: what else could be given.
    """
    if wanted in connected:
        return wanted
    found = [device for device, name in connected.items() if name.casefold() == wanted.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{len(found)} connected devices are called {wanted}: give the id of one, {', '.join(found)}")
    listed = ", ".join(f"{name} ({device})" for device, name in connected.items()) or "none"
    like = meant(wanted, [*connected.values(), *connected, *otherwise])
    raise InputError(
        f"no device {wanted!r}{like or ':'} give the name or id of a connected device ({listed}), or one of "
        f"{', '.join(otherwise)}"
    )
