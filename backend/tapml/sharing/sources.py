"""Where exported tests are read from: files that are opened for each reading, so that none is held in memory."""

from __future__ import annotations

from pathlib import Path

from tapml.npy import Open, in_pieces

__all__ = ["Open", "in_pieces", "opening"]


def opening(path: Path) -> Open:
    """For a file that lies at `path`."""
    return lambda: path.open("rb")
