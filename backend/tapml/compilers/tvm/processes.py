"""Work in two processes, for TVM compiles on one core: scheduling is Python, so threads gain little."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tapml.threads import blas_threads

T = TypeVar("T")
Task = tuple[str, Callable[[], T]]
"""A name, and what gives the result. It is not sent to the other process: TVM's objects cannot be. Its result is."""

_SILENT = 60.0
"""Seconds without a result after which the second process is taken for one that hangs."""

_PR_SET_PDEATHSIG = 1


def in_two_processes(tasks: Sequence[Task[T]]) -> Iterator[tuple[str, T]]:
    """Names and results of `tasks` as they finish, every other one from a second process that begins as a copy of this
    one. Whatever ends this process, or the iteration, ends that.

    Gives fewer where it dies or hangs: what is left is the caller's to do. Where copies are not safe, this process does
    all.
    """
    if not _can_fork():
        yield from ((name, task()) for name, task in tasks)
        return
    helper = _Helper(tasks[1::2])
    try:
        for name, task in tasks[0::2]:
            yield name, task()
            yield from helper.finished(0.0)
        yield from helper.finished(_SILENT)
    finally:
        helper.end()


def _can_fork() -> bool:
    """Whether a copy of this process can work: on Linux, with more than one core, and without threads, for one of them
    might hold a lock that nobody opens in the copy (those of PyTorch do). OpenBLAS looks after its own."""
    if sys.platform != "linux" or (os.cpu_count() or 1) < 2 or threading.active_count() > 1:
        return False
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/proc/self/task").iterdir()) <= blas_threads()
    return False


class _Helper(Generic[T]):
    """The second process."""

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._results, sending = multiprocessing.Pipe(duplex=False)
        parent = os.getpid()

        def work() -> None:
            self._results.close()
            # An interrupt reaches the first process, too, which ends this one.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                return
            # Garbage collection writes to all that it looks at, of which there would be two copies then.
            gc.freeze()
            with contextlib.suppress(OSError):  # nobody is there any more
                for name, task in tasks:
                    sending.send((name, task()))

        self._process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later count OpenBLAS's threads
            self._process.start()
        sending.close()

    def finished(self, seconds: float) -> Iterator[tuple[str, T]]:
        """What it has done since it was asked last, and what it does within so many seconds, each after the other."""
        try:
            while self._results.poll(seconds):
                yield self._results.recv()
        except (EOFError, OSError):  # it is at its end, as expected or not
            return

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._results.close()
