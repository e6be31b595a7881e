"""How many threads numpy's matrix products take."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it a matrix product has one thread, and the same sums whatever the machine.

    OpenBLAS has its threads wait for each other in busy loops: where other work has the processors, they take several
    times as long as one alone. Does nothing where numpy is not a wheel with OpenBLAS in it.
    """
    found = _openblas()
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


def blas_threads() -> int:
    """How many OpenBLAS has, that of its caller among them; 1 where numpy is not a wheel with OpenBLAS in it."""
    found = _openblas()
    return 1 if found is None else found[0]()


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    package = Path(np.__file__).parent
    places = (package.parent / "numpy.libs", package / ".dylibs")  # of Linux and Windows, of macOS
    for path in (path for place in places for path in place.glob("*scipy_openblas*")):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path))
            suffix = "64_" if "openblas64_" in path.name else ""
            get = library[f"scipy_openblas_get_num_threads{suffix}"]
            put = library[f"scipy_openblas_set_num_threads{suffix}"]
            get.argtypes, get.restype, put.argtypes, put.restype = [], ctypes.c_int, [ctypes.c_int], None
            return get, put
    return None
