"""Work in two processes: what is Python for the most part gains little from threads."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import queue
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, TypeVar

from tapml.threads import blas_threads

T = TypeVar("T")
Task = tuple[str, Callable[[], T]]
"""A name, and what gives the result. It is not sent to the other process: TVM's objects cannot be. Its result is."""

_SILENT = 60.0
"""Seconds without a result after which the second process is taken for one that hangs."""

_MOST_TURNS = 4096
"""More tasks than these are taken several at a time: all turns have to fit into a pipe."""

_PR_SET_PDEATHSIG = 1


class Shared(Generic[T]):
    """Tasks, taken in order by two processes: by a second one, a copy of this one, from when they are entered, and by
    this one while it goes through `results`. Whatever ends this process, or leaves the `with` block, ends that.

    Where copies are not safe, this process does all, in `results`.
    """

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        count = min(len(tasks), _MOST_TURNS)
        self._tasks = [tasks[number::count] for number in range(count)]
        self._helper: _Helper[T] | None = None

    def __enter__(self) -> Shared[T]:
        if self._tasks and _can_fork():
            self._helper = _Helper(self._tasks)
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper is not None:
            self._helper.end()

    def results(self) -> Iterator[tuple[str, T]]:
        """Names and results as they finish, once. Gives fewer where the second process dies, hangs or fails: what is
        left is the caller's to do. Raises what a task raises here."""
        if self._helper is None:
            yield from ((name, task()) for tasks in self._tasks for name, task in tasks)
            return
        for tasks in self._helper.turns.taken():
            for name, task in tasks:
                yield name, task()
                yield from self._helper.finished(0.0)
        yield from self._helper.finished(_SILENT)


def _can_fork() -> bool:
    """Whether a copy of this process can work: on Linux, with more than one core, and without threads, for one of them
    might hold a lock that nobody opens in the copy (those of PyTorch do). OpenBLAS looks after its own."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or threading.active_count() > 1:
        return False
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/proc/self/task").iterdir()) <= blas_threads()
    return False


class _Turns(Generic[T]):
    """Whose turn it is: the numbers of all that is to be done lie in a pipe, and each is read once, by one process. A
    process that dies holds no lock."""

    _NUMBER = struct.Struct("=H")

    def __init__(self, tasks: Sequence[Sequence[Task[T]]]) -> None:
        self._tasks = tasks
        self._reading, writing = os.pipe()
        os.write(writing, b"".join(map(self._NUMBER.pack, range(len(tasks)))))
        os.close(writing)

    def taken(self) -> Iterator[Sequence[Task[T]]]:
        while number := os.read(self._reading, self._NUMBER.size):
            yield self._tasks[self._NUMBER.unpack(number)[0]]

    def close(self) -> None:
        os.close(self._reading)


class _Helper(Generic[T]):
    """The second process."""

    def __init__(self, tasks: Sequence[Sequence[Task[T]]]) -> None:
        self.turns = _Turns(tasks)
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
            with _sent(sending) as send, contextlib.suppress(Exception):  # the first process does it, and says what
                for own in self.turns.taken():
                    for name, task in own:
                        send((name, task()))

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
        self.turns.close()


@contextlib.contextmanager
def _sent(sending: Connection) -> Iterator[Callable[[object], None]]:
    """Sends beside other work: the first process may have no time for results until it is done with its own, and a pipe
    holds few."""
    waiting: queue.SimpleQueue[object] = queue.SimpleQueue()

    def send() -> None:
        with contextlib.suppress(OSError):  # nobody is there any more
            while (result := waiting.get()) is not None:
                sending.send(result)

    thread = threading.Thread(target=send, name="results")
    thread.start()
    try:
        yield waiting.put
    finally:
        waiting.put(None)
        thread.join()
