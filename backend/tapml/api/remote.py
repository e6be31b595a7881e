"""One program's use of a remote device: calls in the background, many to a message; frees that travel with them."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapml.devices import Blobs, CallResult
from tapml.devices import Device as RemoteDevice
from tapml.errors import DeviceError, DeviceLost

if TYPE_CHECKING:
    from tapml.api.devices import Device

Commands = Sequence[dict[str, Any]]

# Frees that no message takes along travel by themselves after this time.
_FREE_SECONDS = 0.1
# A call is sent at the latest after this time.
_LINGER_SECONDS = 0.0005
# More commands than this wait for those before them.
_MOST_QUEUED = 20_000

_HERE = str(Path(__file__).parent)
_names = itertools.count()


def new_name(prefix: str) -> str:
    """A name that this process has not given to anything else."""
    return f"{prefix}{next(_names)}"


def blocking() -> bool:
    """Does every call wait for its end (`TAPML_BLOCKING=1`), so that its error is raised where it was made?"""
    return os.environ.get("TAPML_BLOCKING", "") not in ("", "0")


class RemoteSession:
    """Commands to one device, in order.

    `do` is asynchronous: what it is given goes out in the background, together with all else that gathered while the
    message before was under way. `run` waits. After an error what was still queued is not run; the error is raised by
    the next `do` or `run`.

    What Python drops is put on a queue (in whatever thread the garbage collector runs, perhaps inside another call)
    and travels with the next message, or shortly after by itself.
    """

    def __init__(self, device: RemoteDevice, blobs: Blobs) -> None:
        self.device = device
        self.blobs = blobs
        self.lost: DeviceLost | None = None
        self._changed = threading.Condition(threading.RLock())
        self._queued: list[dict[str, Any]] = []
        self._places: list[str] = []
        self._sending = False
        self._gathering = 0
        self._closed = False
        self._error: DeviceError | None = None
        self._dropped: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        for work in (self._send_queued, self._sweep):
            threading.Thread(target=work, name=f"{work.__name__} {device.id}", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Can it be used? After a loss a new session is wanted."""
        return self.lost is None and self.device.connected

    def do(self, commands: Commands) -> None:
        """Queue commands. Raises the DeviceError of an earlier one, if there was one."""
        if blocking() and not self._gathering:
            self.run(commands)
            return
        place = _caller()
        with self._changed:
            self._raise_earlier()
            while len(self._queued) > _MOST_QUEUED and not self._gathering and self._error is None:
                self._changed.wait(0.1)
            self._queued += commands
            self._places += [place] * len(commands)
            if not self._sending and not self._gathering:
                self._changed.notify_all()

    def run(self, commands: Commands, *, download: int = 0, timing: bool = False) -> CallResult:
        """Send what is queued and these commands, and wait for their end.

        Raises DeviceError with what the device reported. After DeviceLost nothing of this session is left there.
        """
        with self._changed:
            while self._sending:
                self._changed.wait(0.1)
            self._raise_earlier()
            sent, places = self._take()
            self._sending = True
        try:
            return self._call([*sent, *commands], places, download, timing)
        finally:
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def drop(self, command: dict[str, Any]) -> None:
        """Send a "free" or "unload" some time soon. Never waits and takes no lock: finalizers call it."""
        self._dropped.put(command)

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Send nothing until the end of the block, then all in one message, and wait for its end."""
        with self._changed:
            self._gathering += 1
        try:
            yield
        finally:
            with self._changed:
                self._gathering -= 1
                last = not self._gathering
        if last:
            self.run([])

    def close(self) -> None:
        """Send what is queued, free what Python dropped, and end the threads."""
        if self.alive:
            with contextlib.suppress(DeviceError):
                self.run([])
        self.abandon()

    def abandon(self) -> None:
        """End the threads; the program is ending, or the device is gone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._dropped.put(None)

    # ------------------------------------------------ sending

    def _call(self, commands: list[dict[str, Any]], places: list[str], download: int, timing: bool) -> CallResult:
        params = {"commands": commands, "timing": timing}
        try:
            return self.device.call("execute", params, download_bytes=download)
        except DeviceError as error:
            if isinstance(error, DeviceLost):
                self.lost = error
            command = error.report.command if error.report else None
            if command is not None and command < len(places):
                error.add_note(f"the call was made at {places[command]}")
            raise

    def _take(self) -> tuple[list[dict[str, Any]], list[str]]:
        """What is queued, and what was dropped after it."""
        sent, places = self._queued, self._places
        self._queued, self._places = [], []
        return sent + self._freed(), places

    def _send_queued(self) -> None:
        while True:
            with self._changed:
                while (not self._queued or self._sending or self._gathering) and not self._closed:
                    self._changed.wait(1)
                if self._closed:
                    return
                # Whoever is about to wait for the call takes it along in one message.
                self._changed.wait(_LINGER_SECONDS)
                if not self._queued or self._sending or self._gathering:
                    continue
                sent, places = self._take()
                self._sending = True
            try:
                self._call(sent, places, 0, False)
            except DeviceError as error:
                with self._changed:
                    self._error = error
                    self._queued, self._places = [], []
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()

    def _raise_earlier(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self.lost is not None:
            raise DeviceLost(
                f"{self.device.name} was lost, and all tensors and libraries on it ({self.lost.summary}): get the "
                "device anew with tml.webgpu(...) and upload again"
            )

    # ------------------------------------------------ freeing

    def _freed(self) -> list[dict[str, Any]]:
        """What was dropped since; a command may free many."""
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
            with self._changed:
                # Behind the calls that use it; nobody waits.
                freed = self._freed()
                self._queued += freed
                self._places += [""] * len(freed)
                if not self._sending and not self._gathering:
                    self._changed.notify_all()


def _caller() -> str:
    """The line of the user's program that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextmanager
def batch(device: Device) -> Iterator[None]:
    """Calls and allocations on `device` inside the `with` block travel in one message, and its end waits for them.

    On cpu() and cuda() calls are made at once.
    """
    session = getattr(device, "session", None)
    if session is None:
        yield
        return
    with session.gather():
        yield
