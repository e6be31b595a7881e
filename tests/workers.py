"""What pytest's workers share: who runs what when, and what one of them makes for all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def in_order(items: list[pytest.Item], *first: str) -> None:
    """Files of these names come first: at the end one worker would wait for the other's. The rest stays as it is."""
    items.sort(key=lambda item: first.index(item.path.name) if item.path.name in first else len(first))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The path that `make(path)` filled, in this worker or in another. Nobody may change what is there."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / name
    made = folder / f"{name}.made"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make(path)
            made.touch()
    return path
