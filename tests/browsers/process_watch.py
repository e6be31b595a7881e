"""What runs below this process, and waiting for it to be gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing import resource_tracker

import psutil


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def descendants() -> list[psutil.Process]:
    """Without the one that multiprocessing keeps as long as this process lives."""
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return [process for process in found if process.pid != resource_tracker._resource_tracker._pid]


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Fails if one of them still runs after a while. Who lost its parent is a zombie until init sees to it."""
    end = time.monotonic() + 5
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
