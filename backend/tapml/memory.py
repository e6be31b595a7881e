"""Memory that nobody uses any more, given back to the system before a phase begins that takes more."""

from __future__ import annotations

import contextlib
import ctypes
import gc


def give_back() -> None:
    """Free what only cycles hold (importers' graphs), and have the C library return what is free: what ONNX Runtime and
    LLVM leave lies in pieces too small to go back by themselves."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
