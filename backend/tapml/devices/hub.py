"""Devices by id, whatever transport brought them (the server's Socket.IO)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from tapml.devices.calls import PendingCall, first_error
from tapml.devices.device import Device, Send
from tapml.protocol import PROTOCOL_VERSION, Hello, Refusal, Welcome


class DeviceHub:
    """All devices of a server. `on_change` is called (from any thread) when the list changes."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._by_connection: dict[str, Device] = {}
        self._changed = threading.Condition()
        self.on_change: Callable[[], None] = lambda: None

    def hello(self, message: Any, send: Send, connection: str) -> Welcome | Refusal:
        """A runner introduced itself; the answer goes back to it."""
        version = message.get("protocol") if isinstance(message, dict) else None
        if version != PROTOCOL_VERSION:
            return Refusal(
                error=f"this server speaks protocol {PROTOCOL_VERSION}, the runner speaks {version!r}: reload the page"
            )
        try:
            hello = Hello.model_validate(message)
        except ValidationError as error:
            return Refusal(error=f"hello is malformed: {first_error(error)}")
        with self._changed:
            device = self._devices.get(hello.resume.device) if hello.resume else None
            if device is not None and hello.resume and device.connected and device.proves(hello.resume.session):
                welcome = device.attach(hello, send, connection)
            else:
                device, welcome = self._join(hello, send, connection)
            self._by_connection[connection] = device
            self._changed.notify_all()
        self.on_change()
        return welcome

    def _join(self, hello: Hello, send: Send, connection: str) -> tuple[Device, Welcome]:
        """Ids are made of names ("firefox-153"), so that results of separate runs belong to the same device."""
        slug = re.sub(r"[^a-z0-9]+", "-", hello.name.lower()).strip("-")[:60] or "device"
        number, device_id = 1, slug
        while (known := self._devices.get(device_id)) is not None and known.connected:
            if hello.tag and known.hello.tag == hello.tag:
                break  # what this server started, started again
            number += 1
            device_id = f"{slug}-{number}"
        if known is not None:
            return known, known.rejoin(hello, send, connection)
        device = self._devices[device_id] = Device(device_id, hello, send, connection)
        return device, device.welcome()

    def of_connection(self, connection: str) -> Device | None:
        """The device that introduced itself on this connection."""
        with self._changed:
            return self._by_connection.get(connection)

    def disconnected(self, connection: str) -> None:
        """The connection ended; its device may come back."""
        with self._changed:
            device = self._by_connection.pop(connection, None)
        if device is not None and device.detach(connection):
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

    def get(self, device_id: str) -> Device | None:
        with self._changed:
            return self._devices.get(device_id)

    def of_call(self, call_id: str) -> PendingCall | None:
        """The running call of that id, over all devices."""
        return next((call for device in self.connected() if (call := device.running_call(call_id))), None)

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
