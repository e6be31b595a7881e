"""Run a command that ends, with all it started, as soon as nobody holds this process's standard input any more.

A program of its own (`python guard.py COMMAND ...`), for nothing in a Python that was killed could still end a thing.
The command's temporary files are in a folder that goes with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 5.0


def main(command: list[str]) -> int:
    """The command's exit code; 0 where it was ended for want of somebody who needs it."""
    if sys.platform == "linux":
        # What the command leaves without a parent becomes a child of this process, not of init.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ended = threading.Event()

    def then_end(wait: Callable[[], object]) -> None:
        wait()
        ended.set()

    with tempfile.TemporaryDirectory(prefix="tapml-", ignore_cleanup_errors=True) as folder:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder})
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        for wait in (sys.stdin.buffer.read, child.wait):
            threading.Thread(target=then_end, args=(wait,), daemon=True).start()
        ended.wait()
        code = child.poll()
        _kill_all()
    return 0 if code is None else code if code >= 0 else 128 - code


def _kill_all() -> None:
    end = time.monotonic() + _KILL_SECONDS
    while (left := psutil.Process().children(recursive=True)) and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


if __name__ == "__main__":
    # os._exit: the thread that reads standard input may still hold it.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
