"""Where exported tests are read from: files that are opened for each reading, so that none is held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TypeAlias

_PIECE = 1 << 20

Open: TypeAlias = Callable[[], AbstractContextManager[IO[bytes]]]
"""Opens the file anew, at its beginning."""


def opening(path: Path) -> Open:
    """For a file that lies at `path`."""
    return lambda: path.open("rb")


def in_pieces(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    """That part of a file; less where it ends before."""
    file.seek(start)
    while length and (piece := file.read(min(length, _PIECE))):
        length -= len(piece)
        yield piece
