"""One program's use of a remote device: messages of many commands, frees that travel with them, batches."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tapml.devices import Blobs
from tapml.devices import Device as RemoteDevice
from tapml.errors import DeviceError, DeviceLost, InputError

if TYPE_CHECKING:
    from tapml.api.devices import Device

# Frees that no message takes along travel by themselves after this time.
_FREE_SECONDS = 0.1

_names = itertools.count()


def new_name(prefix: str) -> str:
    """A name that this process has not given to anything else."""
    return f"{prefix}{next(_names)}"


class RemoteSession:
    """Commands to one device. Calls of several threads take turns.

    What Python drops is put on a queue (in whatever thread the garbage collector runs, perhaps inside another call)
    and travels with the next message, or shortly after by itself.
    """

    def __init__(self, device: RemoteDevice, blobs: Blobs) -> None:
        self.device = device
        self.blobs = blobs
        self.lost: DeviceLost | None = None
        self._lock = threading.RLock()
        self._batch: list[dict[str, Any]] | None = None
        self._held: list[str] = []
        self._dropped: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._sweeper = threading.Thread(target=self._sweep, name=f"free {device.id}", daemon=True)
        self._sweeper.start()

    @property
    def alive(self) -> bool:
        """Can it be used? After a loss a new session is wanted."""
        return self.lost is None and self.device.connected

    def run(self, commands: Sequence[dict[str, Any]], *, download: int = 0, timing: bool = False) -> Any:
        """Send commands now, those of an open batch before them; gives the CallResult.

        Raises DeviceError with what the device reported. After DeviceLost nothing of this session is left there.
        """
        with self._lock:
            self._require_alive()
            sent = [*(self._batch or []), *self._taken(), *commands]
            held, self._held = self._held, []
            if self._batch is not None:
                self._batch = []
            try:
                return self.device.call("execute", {"commands": sent, "timing": timing}, download_bytes=download)
            except DeviceLost as error:
                self.lost = error
                raise
            finally:
                for digest in held:
                    self.blobs.release(digest)

    def do(self, commands: Sequence[dict[str, Any]]) -> None:
        """Send commands, or gather them where a batch is open."""
        with self._lock:
            if self._batch is None:
                self.run(commands)
            else:
                self._require_alive()
                self._batch += self._taken()
                self._batch += commands

    def hold(self, data: bytes | memoryview) -> str:
        """Serve bytes until the next message has been answered; gives their digest."""
        with self._lock:
            digest = self.blobs.hold(data)
            self._held.append(digest)
            return digest

    def drop(self, command: dict[str, Any]) -> None:
        """Send a "free" or "unload" some time soon. Never waits and takes no lock: finalizers call it."""
        self._dropped.put(command)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Gather commands and send them as one message at the end, or when something is read back."""
        with self._lock:
            if self._batch is not None:
                yield  # one inside another is part of it
                return
            self._batch = []
            try:
                yield
            except BaseException:
                with contextlib.suppress(DeviceError, InputError):
                    self.run([])
                raise
            else:
                self.run([])
            finally:
                self._batch = None

    def close(self) -> None:
        """Free what Python dropped, and use it no more."""
        with self._lock:
            if self.alive:
                with contextlib.suppress(DeviceError):
                    self.run([])
        self.abandon()

    def abandon(self) -> None:
        """End the thread that frees; the program is ending, or the device is gone."""
        self._dropped.put(None)

    def _require_alive(self) -> None:
        if self.lost is not None:
            raise DeviceLost(
                f"{self.device.name} was lost, and all tensors and libraries on it ({self.lost.summary}): get the "
                "device anew with tml.webgpu(...) and upload again"
            )

    def _taken(self) -> list[dict[str, Any]]:
        """What was dropped since; a message may hold many names."""
        tensors: list[str] = []
        others = []
        with contextlib.suppress(queue.Empty):
            while True:
                command = self._dropped.get_nowait()
                if command is None:
                    self._dropped.put(None)  # for the sweeper
                    break
                if command["op"] == "free":
                    tensors += command["tensors"]
                else:
                    others.append(command)
        return [*([{"op": "free", "tensors": tensors}] if tensors else []), *others]

    def _sweep(self) -> None:
        while (command := self._dropped.get()) is not None:
            self._dropped.put(command)
            time.sleep(_FREE_SECONDS)
            if not self.alive:
                return
            with contextlib.suppress(DeviceError), self._lock:
                if self._batch is None:
                    self.run([])


@contextmanager
def batch(device: Device) -> Iterator[None]:
    """Calls, allocations and uploads to `device` inside the `with` block travel in one message.

    It is sent at the end, or when something is read back; errors are raised then. On cpu() and cuda() calls are made
    at once.
    """
    session = getattr(device, "session", None)
    if session is None:
        yield
        return
    with session.batch():
        yield
