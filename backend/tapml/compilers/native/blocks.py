"""Which blocks of a product subgroups compute, each as matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native import split
from tapml.compilers.native.rectangles import Rectangle

SUBGROUP = 32
"""Invocations of a subgroup."""

SIDE = 16
"""Rows, columns and inner points of a subgroup matrix."""


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
    Blocks(32, 64, 4, 2, 64),
    Blocks(80, 64, 2, 2, 32),
    Blocks(80, 32, 1, 4, 64),
    Blocks(32, 64, 2, 2, 32),
    Blocks(32, 32, 2, 2, 32),
    Blocks(16, 32, 2, 2, 64),
)
"""From the least memory traffic to the most workgroups: of each size the best on an H200 (docs/kernels.md)."""

BLOCKS_OF_BITS: Mapping[int, tuple[Blocks, ...]] = {
    4: (BLOCKS[0], Blocks(64, 64, 2, 2, 64), *BLOCKS[2:]),
    8: (BLOCKS[0], Blocks(64, 32, 2, 4, 64), *BLOCKS[2:]),
}
"""The same where one factor is of integers of so many bits, which subgroups make float16 first: what is the fastest of
those of 128 x 128 elements differs."""

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

_PROCESSORS = 132
"""Of a large device, each of which runs several workgroups."""

_MOST_SPLITS = 4
_FAR_LESS = 0.87


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
    products: int = 1,
) -> Blocks:
    """What is estimated to take the least time; more workgroups to a sum than `least` where that is far less. `across`:
    whether vectors of the left and of the right factor are of lines. `products`: of float16, for each of the
    program (pieces.py)."""
    known = [
        replace(blocks, splits=least)
        for blocks in choices
        if fits(blocks.height, blocks.depth, blocks.invocations, across[0])
        and fits(blocks.width, blocks.depth, blocks.invocations, across[1])
    ]

    def time(blocks: Blocks) -> float:
        parts = split.cost(rows * columns * batch, blocks.splits)
        return _time(blocks, rows, columns, batch, inner, products) + parts

    best = min(known, key=time)
    most = min(_MOST_SPLITS, inner // 256, split.MOST_BYTES // (4 * rows * columns * batch))
    shared = [replace(blocks, splits=splits) for blocks in known for splits in range(least + 1, most + 1)]
    faster = min(shared, key=time, default=best)
    return faster if time(faster) < _FAR_LESS * time(best) else best


def _time(blocks: Blocks, rows: int, columns: int, batch: int, inner: int, products: int) -> float:
    """In nanoseconds: a step along the inner axis takes a processor what all of its workgroups multiply and bring, and
    not less than one subgroup waits for. The numbers are those of nine convolutions and two products on an H200, each
    in all blocks: what this chooses takes at most 3 % more than the fastest. Of several products to each, workgroups of
    a processor take as long as one after the other (15 products of integers there)."""
    groups = -(-rows // blocks.height) * -(-columns // blocks.width) * batch * blocks.splits
    each, squares = -(-groups // _PROCESSORS), blocks.depth / SIDE
    alone = 737 + 9.2 * blocks.rows * blocks.columns / SIDE**2 * squares * products
    multiplied = 0.94 * blocks.height * blocks.width / SIDE**2
    brought = 0.98 * (blocks.height + blocks.width)
    together = each * (alone if products > 1 else (multiplied + brought + 5.3) * squares)
    return -(-inner // (blocks.depth * blocks.splits)) * max(alone, together)
