"""How many threads numpy's matrix products take, and work on a thread beside other work."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_AHEAD = 2
"""Items that are made before they are asked for."""

_END = object()


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
    _waiting.append(before)
    try:
        yield
    finally:
        _waiting.pop()
        put(before)


@contextlib.contextmanager
def ahead(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """The same items in order, a few of them made on a second thread before they are asked for: it gains the time in
    which either holds no lock of Python's, in numpy or compiled operators. Raises what making them raises."""
    with ThreadPoolExecutor(1, "ahead") as pool:
        waiting = deque(pool.submit(next, items, _END) for _ in range(_AHEAD))

        def made() -> Iterator[T]:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(pool.submit(next, items, _END))
                yield item  # type: ignore[misc]

        try:
            yield made()
        finally:
            pool.shutdown(cancel_futures=True)


def blas_threads() -> int:
    """How many OpenBLAS has, that of its caller among them, those that wait within `one_blas_thread` too; 1 where numpy
    is not a wheel with OpenBLAS in it."""
    found = _openblas()
    return 1 if found is None else max(found[0](), *_waiting)


_waiting = [1]
"""How many threads there were before each `one_blas_thread` that is entered: they wait, and do not end."""


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
