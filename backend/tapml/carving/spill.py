"""What a run computed, in a file instead of in memory: all of it stays within reach, and what is read now counts."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

_LEAST = 1 << 14
"""Bytes: what is smaller stays in memory."""


class Spill:
    """A file that nobody else sees, which is gone with its last array."""

    def __init__(self, folder: Path) -> None:
        """`folder` is on the disk that has room for what a run computes."""
        self._file = None
        self._end = 0
        with contextlib.suppress(OSError):
            self._file = tempfile.TemporaryFile(dir=folder, prefix=".tapml-spill-")  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        """What was put stays readable."""
        if self._file is not None:
            self._file.close()

    def put(self, array: np.ndarray) -> np.ndarray:
        """The same array, not to be written to, in the file; itself where it is small, or the file takes no more."""
        if self._file is None or array.nbytes < _LEAST:
            return array
        begin = -(-self._end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        try:
            self._file.seek(begin)
            self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), array.nbytes, access=mmap.ACCESS_READ, offset=begin)
        except (OSError, ValueError):  # a full disk, or as many mappings as there may be: then as without a file
            self._file.close()
            self._file = None
            return array
        self._end = begin + array.nbytes
        return np.frombuffer(mapped, np.uint8).view(array.dtype).reshape(array.shape)


def let_go(arrays: Iterable[np.ndarray]) -> None:
    """Of those that lie in a file, what was read is in memory no longer, until it is read again."""
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            base = base.obj
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # Windows has nothing of the kind
            base.madvise(mmap.MADV_DONTNEED)
