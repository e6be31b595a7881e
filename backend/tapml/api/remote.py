"""One program's use of a remote device: calls in the background, many to a message; frees that travel with them."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tapml.api.commands import Commands, Dropped, messages, still_due
from tapml.devices import Blobs, CallResult
from tapml.devices import Device as RemoteDevice
from tapml.errors import DeviceError, DeviceLost, InputError
from tapml.program import TensorType
from tapml.protocol import methods

# Frees that no message takes along travel by themselves after this time.
_FREE_SECONDS = 0.1
# A call is sent at the latest after this time.
_LINGER_SECONDS = 0.0005
# So many commands of a batch are worth a message: the device works while Python prepares the next ones.
_MUCH = 2_000
# More commands than this wait for those before them.
_MOST_QUEUED = 20_000

_ANEW = "get the device anew with tml.webgpu(...) and upload again"
_HERE = str(Path(__file__).parent)
_sessions = itertools.count(1)


def blocking() -> bool:
    """Does every call wait for its end (`TAPML_BLOCKING=1`), so that its error is raised where it was made?"""
    return os.environ.get("TAPML_BLOCKING", "") not in ("", "0")


class RemoteSession:
    """Commands to one device, in order.

    `do` is asynchronous: what it is given goes out in the background, together with all else that gathered while the
    message before was under way. `run` waits. After an error the calls that were still queued are not run; the error
    is raised by the next `do` or `run`.

    What Python drops travels with the next message, or shortly after by itself.
    """

    def __init__(self, device: RemoteDevice, blobs: Blobs) -> None:
        self.device = device
        self.blobs = blobs
        self.lost: DeviceLost | None = None
        self._generation: int | None = None
        """Of the device, since the first call: before it nothing was left there that a loss could take away."""
        self._prefix = f"s{next(_sessions)}/"
        self._numbers = itertools.count()
        self._libraries: set[str] = set()
        self._changed = threading.Condition(threading.RLock())
        self._queued: list[tuple[methods.Command, str]] = []
        """With the place in the caller's program."""
        self._sending = False
        self._gathering = 0
        self._closed = False
        self._error: DeviceError | None = None
        self._dropped = Dropped()
        threading.Thread(target=self._send_queued, name=f"sender {device.id}", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Can it be used? After a loss a new session is wanted."""
        return (
            self.lost is None
            and not self._closed
            and self.device.connected
            and self._generation in (None, self.device.generation)
        )

    def new_name(self, kind: str) -> str:
        """A name on the device that nothing else has: of a "t"ensor, a "l"ibrary, a call of a "f"unction."""
        return f"{self._prefix}{kind}{next(self._numbers)}"

    def do(self, commands: Commands) -> None:
        """Queue commands. Raises the DeviceError of an earlier one, if there was one; InputError after `close`."""
        if blocking() and not self._gathering:
            self.run(commands)
            return
        place = _caller()
        with self._changed:
            self._raise_earlier()
            while len(self._queued) > _MOST_QUEUED and self._error is None:
                self._changed.wait(0.1)
            self._queue(commands, place)
            if self._due():
                self._changed.notify_all()

    def run(self, commands: Commands, types: Sequence[TensorType] = ()) -> CallResult[methods.ExecuteResult]:
        """Send what is queued and these commands, and wait for their end. `types`: of the tensors that these download.

        Raises DeviceError with what the device reported, InputError after `close`. After DeviceLost nothing of this
        session is left there.
        """
        with self._changed:
            while self._sending:
                self._changed.wait(0.1)
            self._raise_earlier()
            sent, places = self._take()
            self._sending = True
        try:
            return self._call([*sent, *commands], places, types)
        finally:
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def load(self, commands: Sequence[methods.LoadCommand]) -> None:
        """What they load goes with the session."""
        self.run(commands)
        self._libraries |= {command.library for command in commands}

    def drop(self, *commands: methods.FreeCommand | methods.UnloadCommand) -> None:
        """Send them some time soon. Never waits and takes no lock: finalizers call it."""
        self._dropped.put(commands)

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Send nothing until there is much to send, or the block ends; then wait for all of it."""
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
        """Send what is queued, free all that this session has on the device, and end the thread."""
        if self.alive:
            everything: list[methods.Command] = [methods.FreePrefixCommand(prefix=self._prefix)]
            everything += [methods.UnloadCommand(library=library) for library in sorted(self._libraries)]
            # An error of an earlier call has nobody left to be told, and must not keep the frees from their way.
            for _ in range(3):
                with contextlib.suppress(DeviceError):
                    self.run(everything)
                    break
        self.abandon()

    def abandon(self) -> None:
        """End the thread; the program is ending, or the device is gone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ------------------------------------------------ sending

    def _call(
        self, commands: Commands, places: list[str], types: Sequence[TensorType] = ()
    ) -> CallResult[methods.ExecuteResult]:
        """All of `commands`, in as many messages as they need; downloads are of the last."""
        done = 0
        parts = list(messages(commands))
        try:
            for part in parts:
                wanted = types if part is parts[-1] else ()
                try:
                    result = self.device.execute(part, wanted, generation=self._generation)
                finally:
                    self._generation = self._generation or self.device.generation
                done += len(part)
            return result
        except DeviceLost as error:
            self.lost = error
            self._note_place(error, places, done)
            if error.report is None:
                raise DeviceLost(f"{error.summary}; {_ANEW}", device=error.device, reason=error.lost_reason) from error
            raise
        except DeviceError as error:
            self._note_place(error, places, done)
            self._leave_due(commands[done:], error)
            raise
        except BaseException as error:  # Ctrl-C too
            self._leave_due(commands[done:], None)
            if isinstance(error, Exception):
                raise DeviceError(f"a call could not be sent: {error}") from error
            raise

    def _leave_due(self, commands: Commands, error: DeviceError | None) -> None:
        """Some of these commands were not done. What must be is sent again, ahead of what waits."""
        report = error.report if error else None
        known = report.done if report else None
        if known is None:
            # Freeing twice does no harm. Making twice may fail for ever, and what was made may have been written to.
            due = still_due(command for command in commands if not isinstance(command, methods.AllocateCommand))
        else:
            failed = report.command if report else None
            due = still_due(command for place, command in enumerate(commands) if place >= known and place != failed)
        with self._changed:
            self._queued[:0] = [(command, "") for command in due]

    @staticmethod
    def _note_place(error: DeviceError, places: list[str], done: int) -> None:
        command = error.report.command if error.report else None
        if command is not None and done + command < len(places) and places[done + command]:
            error.add_note(f"the call was made at {places[done + command]}")

    def _due(self) -> bool:
        """Is there something for the background to send now?"""
        return not self._sending and len(self._queued) >= (_MUCH if self._gathering else 1)

    def _take(self) -> tuple[list[methods.Command], list[str]]:
        """What is queued, and what was dropped after it."""
        queued, self._queued = self._queued, []
        return [command for command, _ in queued] + self._dropped.take(), [place for _, place in queued]

    def _queue(self, commands: Commands, place: str) -> None:
        self._queued += [(command, place) for command in commands]

    def _send_queued(self) -> None:
        while True:
            with self._changed:
                while not self._due() and not self._closed:
                    # Nobody tells when something was dropped: finalizers take no lock.
                    if not self._changed.wait(_FREE_SECONDS) and self.alive:
                        self._queue(self._dropped.take(), "")  # behind the calls that use it
                if self._closed:
                    return
                # Whoever is about to wait for the call takes it along in one message.
                self._changed.wait(_LINGER_SECONDS)
                if not self._due():
                    continue
                sent, places = self._take()
                self._sending = True
            try:
                self._call(sent, places)
            except DeviceError as error:
                with self._changed:
                    self._error = error
                    # What waited for the failed call does not run.
                    left = still_due(command for command, _ in self._queued)
                    self._queued = [(command, "") for command in left]
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()

    def _raise_earlier(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._closed:
            raise InputError(f"{self.device.name} was closed: {_ANEW}")
        if self.lost is not None:
            raise DeviceLost(
                f"{self.device.name} was lost, and all tensors and libraries on it ({self.lost.summary}): {_ANEW}"
            )


def _caller() -> str:
    """The line of the user's program that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
