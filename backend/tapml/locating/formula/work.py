"""How much a search may compute: counted, so that it finds the same on every machine, however busy."""

from __future__ import annotations

import time

_STEP = 2000
"""What an operation of numpy costs besides its elements, in elements."""

_SECONDS = 60.0
"""Far from what is counted: for a machine on which something is wrong."""


class Work:
    """Elements that may be computed, `most` of them."""

    def __init__(self, most: int) -> None:
        self._rest = most
        self._end = time.monotonic() + _SECONDS

    def add(self, elements: int, steps: int = 1) -> None:
        """So many elements have been computed, in so many operations."""
        self._rest -= elements + _STEP * steps

    def more(self, elements: int) -> None:
        """From now on there is so much left."""
        self._rest = elements

    def over(self) -> bool:
        return self._rest < 0 or time.monotonic() > self._end
