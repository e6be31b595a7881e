"""Where exported tests are read from: files that are opened for each reading, so that none is held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tapml.npy import Open

__all__ = ["Open", "in_pieces", "opening"]

_PIECE = 1 << 20


def opening(path: Path) -> Open:
    """For a file that lies at `path`."""
    return lambda: path.open("rb")


def in_pieces(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    """That part of a file; less where it ends before."""
    file.seek(start)
    while length and (piece := file.read(min(length, _PIECE))):
        length -= len(piece)
        yield piece
