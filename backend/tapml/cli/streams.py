"""Standard output and error that may fail without ending a run: a reader that left, a log on a full disk."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from typing_extensions import Buffer


class _Lasting(io.FileIO):
    """A descriptor to write to. After its first failure, which it keeps, it takes everything and writes nothing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.failure: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


class Lasting:
    """What became of standard output."""

    def __init__(self) -> None:
        self._raw: list[_Lasting] = []

    @property
    def output_failure(self) -> OSError | None:
        """Why standard output does not hold all; None where it does, or where its reader wanted no more (`| head`)."""
        failure = self._raw[0].failure if self._raw else None
        return None if failure is None or failure.errno == errno.EPIPE else failure


@contextmanager
def lasting_streams() -> Iterator[Lasting]:
    """Let standard output and error outlast a full disk or a reader that left; leave alone what somebody put there."""
    real = sys.stdout, sys.stderr
    lasting = Lasting()
    if all(type(stream) is io.TextIOWrapper for stream in real):
        for stream in real:
            stream.flush()
        sys.stdout, sys.stderr = (_outlasting(stream, lasting) for stream in real)
    try:
        yield lasting
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = real


def _outlasting(stream: TextIO, lasting: Lasting) -> TextIO:
    raw = _Lasting(stream.fileno())
    lasting._raw.append(raw)
    lines = stream.isatty() or stream is sys.stderr
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=lines
    )
