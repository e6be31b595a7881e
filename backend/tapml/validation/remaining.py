"""How far a validation is on one device, and about how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Remaining:
    """Counts kernels as they are compiled and tests as they have verdicts. The time that passes until one is told is
    booked on its sort, so that what is left can be told in seconds: devices do one thing at a time, a wave of
    compilations and then its tests."""

    def __init__(self, kernels: int, tests: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`kernels` to compile, and `tests` to run."""
        self.kernels = kernels
        self._tests = tests
        self._compiled: set[str] = set()
        self._tested = 0
        self._clock = clock
        self._last = clock()
        self._spent = {"compile": 0.0, "test": 0.0}

    def compiled(self, kernel: str) -> int:
        """Kernels compiled by now, of `kernels`; one that is compiled again (its device was lost) counts once."""
        self._book("compile")
        self._compiled.add(kernel)
        return len(self._compiled)

    def tested(self) -> None:
        """A test has its verdict."""
        self._book("test")
        self._tested += 1

    @property
    def seconds(self) -> float | None:
        """That are left, about; None before a kernel is compiled and a test has run."""
        if not self._compiled or not self._tested:
            return None
        compile_seconds = self._spent["compile"] / len(self._compiled) * max(0, self.kernels - len(self._compiled))
        return round(compile_seconds + self._spent["test"] / self._tested * max(0, self._tests - self._tested), 1)

    def _book(self, what: str) -> None:
        now = self._clock()
        self._spent[what] += now - self._last
        self._last = now
