"""Garbage is collected without looking through what stays: carving collects several times (`tapml.memory`), and among
the objects of TVM's and PyTorch's modules that takes a third of a second each time."""

from __future__ import annotations

import gc
import sys

# Its plugin for pytest imports it at the end, and it asks the collector who holds some objects of other modules.
import hypothesis  # noqa: F401

_NEW_MODULES = 20
_seen = 0


def pytest_runtest_setup() -> None:
    """What is there when many modules have been imported is there to the end of the process."""
    global _seen
    if len(sys.modules) >= _seen + _NEW_MODULES:
        _seen = len(sys.modules)
        gc.collect()
        gc.freeze()
