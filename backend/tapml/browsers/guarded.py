"""Processes that end when they are closed and when this Python ends, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from tapml.errors import ToolchainError

_GUARD = Path(__file__).with_name("guard.py")
_LINES = 50
_WIDTH = 2000


class Child:
    """A process that ends when its standard input does, which this Python holds.

    `on_end` is called with the exit code, from a thread of its own, when it ends, for whatever reason.
    """

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_end: Callable[[int], None],
        close_seconds: float = 3.0,
    ) -> None:
        """Raises ToolchainError where `title` does not start."""
        self._close_seconds = close_seconds
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._on_end = on_end
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=dict(environment),
                start_new_session=True,  # Ctrl-C in a terminal is for us, who end it in our own time
            )
        except OSError as error:
            raise ToolchainError(f"{title} did not start: {error.strerror}") from error
        atexit.register(self.close)
        self._reader = threading.Thread(target=self._read, name="tapml-guarded", daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit code once it ended, or None where it still runs after `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    @property
    def lines(self) -> list[str]:
        """The last lines it wrote."""
        return list(self._lines)

    def wait_for_line(self, pattern: str, seconds: float) -> str | None:
        """The first line that matches, or None where none comes in time or before the process ends."""
        end = time.monotonic() + seconds
        while True:
            ended = not self._reader.is_alive()
            for line in self.lines:
                if re.fullmatch(pattern, line):
                    return line
            if ended or time.monotonic() > end:
                return None
            time.sleep(0.01)

    def descendants(self) -> list[psutil.Process]:
        """All processes that run below it, parents first."""
        try:
            found: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
        return found

    def close(self) -> None:
        """End it and wait until it is gone. Does nothing when called again."""
        atexit.unregister(self.close)
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(self._close_seconds)
        except subprocess.TimeoutExpired:
            for process in [*self.descendants(), self._process]:  # it hangs with its GPU, say
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join(self._close_seconds)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.append(line.rstrip()[:_WIDTH])
        self._on_end(self._process.wait())


def guarded(
    command: Sequence[str], environment: Mapping[str, str], on_end: Callable[[int], None] = lambda code: None
) -> Child:
    """Run `command` under guard.py, which ends all that it started, too. The exit code is the command's; a signal
    counts 128 more than its number.
    """
    # -P: the guard's neighbours are no modules for it to import.
    return Child(command[0], [sys.executable, "-P", str(_GUARD), *command], environment, on_end, close_seconds=10.0)
