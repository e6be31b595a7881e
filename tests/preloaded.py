"""`tapml ARGUMENTS`, and Python scripts that use it, in processes of their own that have loaded TVM already.

Loading it takes longer than what most tests want of a command. One process loads all that commands use and then forks
for each; the rest is as in a shell: arguments, environment, current folder, standard output and error, exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

_LARGEST_MESSAGE = 1 << 17
_PRINT_STACKS = signal.SIGUSR1
_START_SECONDS = 120.0
_HANGS_SECONDS = 900.0
"""After which a command is taken for one that hangs: where other tests have the processors, building a model takes
minutes."""
_ENVIRONMENT = dict(os.environ)
"""Of no test: the process outlives the one that happens to start it."""


@dataclass(frozen=True)
class Ran:
    """`out` and `err` are empty where they went elsewhere."""

    code: int
    out: str
    err: str


def tapml(*arguments: str | Path, **options: Any) -> Ran:
    """`tapml ARGUMENTS`, with the options of `python`."""
    return python("-m", "tapml", *arguments, **options)


def python(
    *arguments: str | Path,
    timeout: float = _HANGS_SECONDS,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
    environment: Mapping[str, str] | None = None,
    largest_file: int | None = None,
) -> Ran:
    """Run `python FILE ...` or `python -m MODULE ...` to its end.

    `stdout`, `stderr`: files or descriptors to write to; by default what is written is returned. `largest_file`: bytes
    beyond which no file may be written (RLIMIT_FSIZE).
    """
    return _forking().run(
        {
            "arguments": [str(argument) for argument in arguments],
            "environment": dict(environment or os.environ),
            "folder": str(Path.cwd()),
            "largest_file": largest_file,
        },
        [_Output(stdout), _Output(stderr)],
        timeout,
    )


class _Output:
    """A descriptor to write to, and what was written if that is nobody else's."""

    def __init__(self, given: IO[Any] | int | None) -> None:
        self._data = b""
        self._reader: threading.Thread | None = None
        if given is None:
            self._read_end, self.descriptor = os.pipe()
            self._reader = threading.Thread(target=self._read, daemon=True)
        else:
            self.descriptor = given if isinstance(given, int) else given.fileno()

    def given_away(self) -> None:
        """The other process has it now."""
        if self._reader is not None:
            os.close(self.descriptor)
            self._reader.start()

    def text(self) -> str:
        if self._reader is not None:
            self._reader.join()
        return self._data.decode()

    def _read(self) -> None:
        with os.fdopen(self._read_end, "rb") as file:
            self._data = file.read()


class _Forking:
    """The process that forks. One command at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_ENVIRONMENT,
            )
        self._socket.settimeout(_START_SECONDS)
        assert self._socket.recv(_LARGEST_MESSAGE) == b"ready", "it did not start: what it printed says why"

    def run(self, task: dict[str, Any], outputs: list[_Output], timeout: float) -> Ran:
        self._socket.settimeout(timeout)
        socket.send_fds(self._socket, [json.dumps(task).encode()], [output.descriptor for output in outputs])
        for output in outputs:
            output.given_away()
        try:
            answer = self._socket.recv(_LARGEST_MESSAGE)
        except TimeoutError:
            self._print_stacks()
            _forking.cache_clear()
            self.close()
            said = "".join(output.text() for output in outputs)
            raise AssertionError(
                f"python {task['arguments']} did not end within {timeout:.0f} s and said: {said}"
            ) from None
        return Ran(json.loads(answer), outputs[0].text(), outputs[1].text())

    def _print_stacks(self) -> None:
        """Have what it runs say in its standard error where its threads are."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children():
                process.send_signal(_PRINT_STACKS)
                time.sleep(1)

    def close(self) -> None:
        """End it, and what it runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                process.kill()
        self._socket.close()
        self._process.kill()
        self._process.wait()


@functools.cache
def _forking() -> _Forking:
    forking = _Forking()
    atexit.register(forking.close)
    return forking


def _serve(connection: socket.socket) -> None:
    """In the other process: fork for each task until nobody asks any more. Returns in none of the children."""
    import onnx
    import playwright.async_api
    import websocket

    import tapml.carving.carve
    import tapml.cli.commands
    import tapml.cli.locate_command
    import tapml.cli.test_command
    import tapml.importing.onnx_file  # noqa: F401

    del onnx, playwright, websocket
    gc.collect()
    gc.freeze()
    connection.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_MESSAGE, 2)
        if not message:
            return
        child = os.fork()
        if not child:
            connection.close()
            _become(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        connection.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _become(task: dict[str, Any], stdout: int, stderr: int) -> None:
    """Python, as it is started in a shell. Raises SystemExit."""
    for descriptor, place in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    faulthandler.register(_PRINT_STACKS)
    os.chdir(task["folder"])
    os.environ.clear()
    os.environ.update(task["environment"])
    if task["largest_file"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest_file"], resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    if task["arguments"][0] == "-m":
        sys.path.insert(0, task["folder"])
        sys.argv = task["arguments"][1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(task["arguments"][0]).parent))
        sys.argv = task["arguments"]
        runpy.run_path(sys.argv[0], run_name="__main__")
    raise SystemExit(0)


if __name__ == "__main__":
    del sys.path[0]  # this folder, where a command would not look
    _serve(socket.socket(fileno=int(sys.argv[1])))
