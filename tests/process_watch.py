"""What runs below this process, and waiting for it to be gone.

A browser ends helpers of its own at any time: whatever is asked of a process, it may be gone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker

import psutil

MOST_WAIT = 180.0
"""Seconds that anything which must come may take: a machine that runs other things beside is slow."""

_ENDING_SECONDS = 10.0
"""Of helpers that a browser leaves to end by themselves."""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + MOST_WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def descendants() -> list[psutil.Process]:
    """Without the one that multiprocessing keeps as long as this process lives."""
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return [process for process in found if process.pid != resource_tracker._resource_tracker._pid]


def command_line(process: psutil.Process) -> str:
    """Empty if the process is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def processes_named(name: str, below: psutil.Process | None = None) -> list[psutil.Process]:
    """Those with `name` in theirs; parents come before their children."""
    found = []
    for process in (below or psutil.Process()).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if name in process.name():
                found.append(process)
    return found


def zombies() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_renderers(processes: list[psutil.Process]) -> None:
    """What becomes of a tab whose page crashes."""
    for process in processes:
        if "--type=renderer" in command_line(process):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Fails if a process that was started meanwhile stays, even as a zombie of our own.

    It is ended then, so that a test that failed does not fail those after it.
    """
    before = set(descendants())
    yield
    end = time.monotonic() + _ENDING_SECONDS
    while (left := set(descendants()) - before) and time.monotonic() < end:
        time.sleep(0.05)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=5)
    assert left == set()


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Fails if one of them still runs after a while. Who lost its parent is a zombie until init sees to it."""
    end = time.monotonic() + MOST_WAIT
    while True:
        left = [process for process in processes if is_running(process)]
        if not left:
            return
        assert time.monotonic() < end, left
        time.sleep(0.05)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
