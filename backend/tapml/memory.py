"""Memory that nobody uses any more, given back to the system before a phase begins that takes more."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator


def give_back() -> None:
    """Free what only cycles hold (importers' graphs), and have the C library return what is free: what ONNX Runtime and
    LLVM leave lies in pieces too small to go back by themselves."""
    gc.collect()
    trim()


def trim() -> None:
    """Have the C library return what is free, which is less than `give_back` does and takes far less time."""
    with contextlib.suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)


def as_old() -> None:
    """Python takes all that there is for old: it does not look through it at once when its collector is turned on
    again. For what makes much that stays, and no cycles."""
    gc.freeze()
    if not _frozen:
        gc.unfreeze()


class Trimming:
    """Trims whenever so much went through memory that what is left of it counts."""

    def __init__(self) -> None:
        self._bytes = self._times = 0

    def went_through(self, size: int) -> None:
        """So many bytes were held, and are no longer."""
        self._bytes, self._times = self._bytes + size, self._times + 1
        if self._bytes >= _TRIMMED_BYTES or self._times >= _TRIMMED_TIMES:
            trim()
            self._bytes = self._times = 0


_TRIMMED_BYTES = 2 << 20
_TRIMMED_TIMES = 16
"""However little each time: it lies in pieces of all sizes."""


@contextlib.contextmanager
def only_new_garbage() -> Iterator[None]:
    """Within it `give_back` looks for garbage among what was made since: modules of TVM and PyTorch are a million
    objects that stay, and looking through them takes a tenth of a second each time. Python by itself looks more
    seldom, too."""
    if _frozen:
        yield
        return
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_MADE_SINCE, *before[1:])
    _frozen.append(True)
    try:
        yield
    finally:
        _frozen.pop()
        gc.set_threshold(*before)
        gc.unfreeze()


_MADE_SINCE = 100_000
"""Objects, of a hundred bytes or so, after which Python looks for garbage: as often as it would (700), that took some
three hundredths of the carve of a recurrent model, and what it found was little."""

_frozen: list[bool] = []
"""One within `only_new_garbage`. Python knows, and counts a million objects to say so."""
