"""Which blocks of a product subgroups compute, each as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native import split
from tapml.compilers.native.rectangles import Rectangle

SUBGROUP = 32
"""Invocations of a subgroup."""


@dataclass(frozen=True)
class Blocks(Rectangle):
    """Each of a workgroup's subgroups computes `rows` * `columns` elements, `depth` steps along the inner axis at a
    time; `splits` workgroups share out the inner axis of each."""

    depth: int
    splits: int = 1

    @property
    def invocations(self) -> int:
        return self.high * self.wide * SUBGROUP


BLOCKS = (
    Blocks(64, 64, 2, 4, 32),
    Blocks(64, 64, 2, 2, 64),
    Blocks(80, 64, 2, 2, 32),
    Blocks(80, 32, 2, 2, 64),
    Blocks(32, 64, 2, 2, 32),
    Blocks(32, 32, 2, 2, 32),
    Blocks(16, 32, 2, 2, 64),
)
"""From the least memory traffic to the most workgroups: of each size the best on an H200 (docs/kernels.md)."""

BLOCKS_OF_PIECES = (
    Blocks(64, 64, 2, 2, 32),
    Blocks(32, 64, 2, 2, 32),
    Blocks(32, 32, 2, 2, 32),
    Blocks(16, 32, 2, 2, 64),
)
"""The same where factors are sums of two float16 (pieces.py): parts of both lie twice in workgroup memory, of which an
H200 has 48 KiB."""

BLOCKS_OF_LEFT_PIECES = (Blocks(64, 32, 2, 4, 32), *BLOCKS_OF_PIECES[1:])
"""Where that is the left factor alone."""

_AT_ONCE = 132
"""Workgroups that a large device runs at full speed."""

_UNIT = 0.52e-3
"""Nanoseconds of a large device for a multiplication of each subgroup: of three products on an H200."""

_MOST_SPLITS = 4
_FAR_LESS = 0.85


def fits(lines: int, depth: int, invocations: int, across: bool) -> bool:
    """Whether all invocations of a workgroup bring equally many vectors of a factor's part, of the same numbers in
    their lines; `across`: vectors are of eight lines."""
    fast = (lines if across else depth) // 8
    return invocations % fast == 0 and lines * depth // 8 % invocations == 0


def blocks_of(
    rows: int,
    columns: int,
    batch: int,
    inner: int,
    across: tuple[bool, bool] = (False, False),
    choices: Sequence[Blocks] = BLOCKS,
    least: int = 1,
) -> Blocks:
    """What is estimated to take the least time; more workgroups to a sum than `least` where that is far less. `across`:
    whether vectors of the left and of the right factor are of lines."""
    known = [
        replace(blocks, splits=least)
        for blocks in choices
        if fits(blocks.height, blocks.depth, blocks.invocations, across[0])
        and fits(blocks.width, blocks.depth, blocks.invocations, across[1])
    ]

    def time(blocks: Blocks) -> float:
        """In nanoseconds."""
        parts = split.cost(rows * columns * batch, blocks.splits)
        return _UNIT * _cost(blocks, rows, columns, batch) * inner / blocks.splits + parts

    best = min(known, key=time)
    most = min(_MOST_SPLITS, inner // 256, split.MOST_BYTES // (4 * rows * columns * batch))
    shared = [replace(blocks, splits=splits) for blocks in known for splits in range(least + 1, most + 1)]
    faster = min(shared, key=time, default=best)
    return faster if time(faster) < _FAR_LESS * time(best) else best


def _cost(blocks: Blocks, rows: int, columns: int, batch: int) -> float:
    """In units of a multiplication: what a workgroup multiplies and what it brings for that, by how often the device
    is filled. 64 is what chose the fastest of three products and a convolution on an H200."""
    groups = -(-rows // blocks.height) * -(-columns // blocks.width) * batch * blocks.splits
    each = blocks.height * blocks.width + 64 * (blocks.height + blocks.width)
    return -(-groups // _AT_ONCE) * each
