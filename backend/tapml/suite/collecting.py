"""Python's cycle collector looks through all that is alive again and again while a large document is read, and finds
nothing: it takes more time than the reading."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_collecting() -> Iterator[None]:
    """Pause it for the length of a `with` block. Who found it on turns it on again: where threads overlap, the other's
    pause may end early."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
