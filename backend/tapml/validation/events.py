"""Events of a running job (docs/http-api.md, "Events"): the same for terminal, web page and remote command line."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

Emit = Callable[[dict[str, Any]], None]
"""Receives events, from several threads."""


class Cancelled(Exception):
    """The job was asked to stop; what was done so far is kept."""


class Cancel:
    """Set from one thread, looked at by others."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        """Raise Cancelled once requested."""
        if self.requested:
            raise Cancelled


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
