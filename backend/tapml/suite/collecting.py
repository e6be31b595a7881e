"""Python's cycle collector looks through all that is alive again and again while a large document is read, and finds
nothing: it takes more time than the reading."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextmanager
def not_collecting() -> Iterator[None]:
    """Pause it for the length of a `with` block, in whatever threads; it is as before when the last one ends."""
    global _pauses, _was_on
    with _lock:
        if _pauses == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_on:
                gc.enable()
