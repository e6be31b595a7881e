"""Which tiles of a product are worth a text: what one of them does is counted, and what others do follows from their
sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapml.compilers.auto.cost import Cost, cost
from tapml.compilers.auto.expected import coefficients, microseconds
from tapml.compilers.auto.space import NativeSpace
from tapml.compilers.native.matmul import Shape
from tapml.compilers.native.tiles import TILES, Tile

_KNOWN = TILES[3]
"""The tile that is counted, where it is one and the template takes none of them: in the middle."""

_CLOSE, _MOST = 1.15, 2
"""Of each kind of device, so many tiles of those within this of the best."""


def likely_tiles(space: NativeSpace, sizes: Mapping[str, int]) -> Sequence[Tile]:
    """Of `space.tiles`, those that are expected to be the fastest on a kind of devices; all where that cannot be
    told. It is told from what the template's own tile does, whose text a model chooses from in any case."""
    tiles, shape = space.tiles, space.shape
    if shape is None or not shape.tiled or len(tiles) <= _MOST:
        return tiles
    own = space.own_parameter
    known = own if isinstance(own, Tile) and own in TILES else _KNOWN if _KNOWN in tiles else tiles[-1]
    made = space.tile(known)
    counted = None if made is None else cost(made.kernel, made.variant, sizes)
    if counted is None:
        return tiles
    likely = set[Tile]()
    for kind in coefficients():
        times = {tile: microseconds(kind, _scaled(counted, known, tile, shape)) for tile in tiles}
        best = sorted(tiles, key=times.__getitem__)[:_MOST]
        likely.update(tile for tile in best if times[tile] <= _CLOSE * times[best[0]])
    return [tile for tile in tiles if tile in likely]


@dataclass(frozen=True)
class _Size:
    """`multiplied`: multiplications of an invocation; `brought`: numbers that it brings into workgroup memory for
    each point of the inner axis."""

    workgroups: float
    invocations: float
    multiplied: float
    brought: float
    vectors: float
    """Of numbers that it reads from there, beside each other."""


def _size(tile: Tile, shape: Shape) -> _Size:
    workgroups = -(-shape.rows // tile.height) * -(-shape.columns // tile.width) * shape.batch
    return _Size(
        workgroups,
        workgroups * tile.invocations,
        tile.rows * tile.columns * shape.inner,
        (tile.height + tile.width) / tile.invocations,
        tile.rows + tile.columns,
    )


def _scaled(counted: Cost, known: Tile, other: Tile, shape: Shape) -> Cost:
    """What is not multiplied is done for numbers that are brought: where they are taken from, say."""
    old, new = _size(known, shape), _size(other, shape)
    more = new.invocations / old.invocations
    brought = new.brought / old.brought
    path = new.multiplied + max(0.0, counted.path - old.multiplied) * brought
    return Cost(
        launches=counted.launches,
        operations=new.invocations * path,
        reads=counted.reads * more * brought,
        bytes=counted.bytes * more * brought,
        shared=counted.shared * more * new.vectors / old.vectors,
        barriers=counted.barriers * more,
        path=path,
        waits=counted.waits * brought,
        workgroups=new.workgroups,
        suspended=counted.suspended * more,
    )
