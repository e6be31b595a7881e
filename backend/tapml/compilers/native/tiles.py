"""Which tile of a product a workgroup computes, and how many workgroups share out its inner axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native import split
from tapml.compilers.native.rectangles import Rectangle

DEPTH = 16
"""How far along the inner axis the parts in workgroup memory reach, in vectors of four."""


@dataclass(frozen=True)
class Tile(Rectangle):
    """Each of a workgroup's invocations computes `rows` * `columns` elements; `splits` workgroups share out the inner
    axis of each."""

    splits: int = 1

    @property
    def invocations(self) -> int:
        return self.high * self.wide


TILES = (
    Tile(8, 8, 16, 8),
    Tile(8, 8, 8, 8),
    Tile(4, 4, 16, 16),
    Tile(4, 4, 8, 8),
    Tile(2, 8, 8, 8),
    Tile(8, 2, 8, 8),
    Tile(2, 2, 8, 8),
)
"""From the least memory traffic to the most workgroups."""

LARGE_TILES = (Tile(8, 8, 16, 8), Tile(8, 8, 8, 16), Tile(8, 8, 8, 8), Tile(16, 8, 8, 16))
"""Of products that take far longer than a dispatch. The last one is only for columns beside each other: otherwise it
has more numbers than there are registers."""

_LARGE = 2**31
"""Multiplications of a product that takes a large device a tenth of a millisecond."""
_PROCESSORS = 132
_AT_ONCE = _PROCESSORS * 256
"""Invocations that a large device runs at full speed."""


def is_large(rows: int, columns: int, batch: int, inner: int) -> bool:
    """Whether a product takes far longer than a dispatch."""
    return rows * columns * batch * inner >= _LARGE and min(rows, columns) >= 64


def tile_of(rows: int, columns: int, batch: int, inner: int, across: bool = True, gathered: bool = False) -> Tile:
    """The tile that is estimated to take the least time; more than one workgroup to a sum where that is far less.
    `across`: whether columns of the right factor lie beside each other; `gathered`: whether its numbers are read one by
    one, as those of an image are."""
    most = min(split.MOST, inner // (4 * DEPTH), split.MOST_BYTES // (4 * rows * columns * batch))

    def time(tile: Tile) -> float:
        parts = split.cost(rows * columns * batch, tile.splits)
        if large:
            return _time_of_waves(tile, rows, columns, batch, inner) + parts
        return _time(tile, rows, columns, batch, inner, gathered) + parts

    large = is_large(rows, columns, batch, inner)
    if large:
        known: Sequence[Tile] = LARGE_TILES if across else LARGE_TILES[:-1]
        best, most = min(known, key=time), min(most, _MOST_SPLITS)
    else:
        known, best = TILES, min(TILES, key=lambda tile: _cost(tile, rows, columns, batch))
    shared = [replace(tile, splits=splits) for tile in known for splits in range(2, most + 1)]
    least = min(map(time, shared), default=math.inf)
    if least > _FAR_LESS * time(best):
        return best
    alike = 1.0 if large else _ALIKE
    return min((tile for tile in shared if time(tile) <= alike * least), key=lambda tile: (tile.splits, time(tile)))


_MOST_SPLITS = 4
_FAR_LESS = 0.85
_ALIKE = 1.1


def _cost(tile: Tile, rows: int, columns: int, batch: int) -> float:
    """In units of a multiplication: what an invocation multiplies and what it reads for that, by how often the device
    is filled."""
    each = tile.rows * tile.columns + 2 * (tile.rows + tile.columns)
    return max(1.0, _filled(tile, rows, columns, batch)) * each


def _groups(tile: Tile, rows: int, columns: int, batch: int) -> int:
    return -(-rows // tile.height) * -(-columns // tile.width) * batch * tile.splits


def _filled(tile: Tile, rows: int, columns: int, batch: int) -> float:
    """How often a large device is."""
    return _groups(tile, rows, columns, batch) * tile.invocations / _AT_ONCE


def _time(tile: Tile, rows: int, columns: int, batch: int, inner: int, gathered: bool) -> float:
    """In nanoseconds: of a step along the inner axis some for waiting, however little is multiplied, and some for what
    is multiplied and read. The numbers are those of six products on an H200, and of a small convolution."""
    each = 0.7 * tile.rows * tile.columns + 2.4 * (tile.rows + tile.columns) + 7
    waiting = 18 + (74 * tile.width / tile.invocations if gathered else 0)
    return inner / tile.splits * (waiting + _filled(tile, rows, columns, batch) * each)


def _time_of_waves(tile: Tile, rows: int, columns: int, batch: int, inner: int) -> float:
    """In nanoseconds: of as many workgroups as the device holds at a time, then of the rest. A step along the inner
    axis takes what is multiplied by those of one processor, and not less than a part of them waits for. The numbers are
    those of two products and a convolution on an H200."""
    wide = tile.rows > 8
    held = 2 if wide else min(4, 384 // tile.invocations)
    step, least = (102.0, 186.0) if wide else (57.1 * tile.height * tile.width / 8192, 94.0)
    whole, rest = divmod(_groups(tile, rows, columns, batch), held * _PROCESSORS)
    time = whole * max(least, step * held)
    if rest:
        time += max(least, step * -(-rest // _PROCESSORS))
    return inner / tile.splits * time
