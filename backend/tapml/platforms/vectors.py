"""Loops in an order in which this machine computes several elements at a time, for native code.

A sum whose terms are added one after the other keeps a processor waiting: each term waits for the one before. So sums
that are stored next to each other are taken together: the loop over them is cut into tiles, and the turns of a tile are
the lanes of vectors, inside the loops of the sum. Every element is made of the same terms in the same order as before:
results are the same, bit by bit. Convolutions and matrix products take a fifth to a fifteenth of the time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapml.files import unique
from tapml.operators.affine import affine
from tapml.operators.program import INTEGERS, Axis, Block, Expression, Loop, OperatorProgram, Store, integer, parts_of

LANES = 32
"""Elements of a tile: as many sums of float32 are in registers at once on any machine, with room for their terms, and
enough that none waits for the one before."""

_LEAST = 4
"""An axis that is shorter is left as it is."""

_FARTHEST = 2
"""Elements that are so far from each other are yet read at once."""

_KINDS = ("constant", "variable", "load", "cast", "add", "sub", "mul", "min", "max")
"""What is done to every lane as it would be to one element. Functions are not among them: those of vectors may round
in another way."""

_DTYPES = ("float32", "float64", *INTEGERS)


@dataclass(frozen=True)
class Vectorized:
    """`lanes`: the loops of `program` whose turns are run at once; `steps`: how many turns its loops make, those at
    once being one."""

    program: OperatorProgram
    lanes: frozenset[str]
    steps: int


def vectorized(program: OperatorProgram) -> Vectorized:
    """A program that gives the same, bit by bit. Its indices are within its buffers, as `guarded` makes them."""
    names = {loop.variable for block in program.blocks for loop in block.loops}
    names |= {axis.variable for block in program.blocks for axis in block.axes}
    blocks: list[Block] = []
    lanes: set[str] = set()
    for block in program.blocks:
        axis = _lane_axis(block)
        for part in [block] if axis is None else _parts(block, axis):
            if axis is not None:
                part = _renamed(part, names)
                lanes.add(part.loops[-1].variable)
            blocks.append(part)
    steps = sum(math.prod(loop.extent for loop in block.loops if loop.variable not in lanes) for block in blocks)
    return Vectorized(dataclasses.replace(program, blocks=tuple(blocks)), frozenset(lanes), steps)


def _lane_axis(block: Block) -> Axis | None:
    """The axis whose elements may be summed at once; None where there is none.

    Each point of the spatial axes has elements of its own there, which the block stores and nothing else of it reads:
    so points may take turns, as long as the turns of each keep their order.
    """
    if not any(axis.reduction for axis in block.axes) or block.sequential or not _own_loops(block):
        return None
    store = block.body[0]
    if len(block.body) > 1 or len(block.first) > 1 or not isinstance(store, Store) or not store.indices:
        return None
    places = [str(index.value) for index in store.indices if index.kind == "variable"]
    spatial = {axis.variable: axis for axis in block.axes if not axis.reduction}
    apart = all(name in places or axis.extent == 1 for name, axis in spatial.items())
    axis = spatial.get(str(store.indices[-1].value)) if store.indices[-1].kind == "variable" else None
    if not apart or axis is None or axis.extent < _LEAST:
        return None
    for first in block.first:
        if not isinstance(first, Store) or first.buffer != store.buffer or first.indices != store.indices:
            return None
    parts = [part for statement in (*block.first, store) for part in parts_of(statement.value)]
    if not all(part.kind in _KINDS and part.dtype in _DTYPES for part in parts):
        return None
    loads = [part for part in parts if part.kind == "load"]
    if any(load.value == store.buffer and load.operands != store.indices for load in loads):
        return None
    return axis if all(_side_by_side(load, axis) for load in loads) else None


def _own_loops(block: Block) -> bool:
    """Whether each axis is one loop, and each loop one axis."""
    loops = [str(axis.value.value) for axis in block.axes if axis.value.kind == "variable"]
    return len(loops) == len(block.axes) and sorted(loops) == sorted(loop.variable for loop in block.loops)


def _side_by_side(load: Expression, axis: Axis) -> bool:
    """Whether the elements that are read along the axis are at equal distances in a row, or one alone."""
    for place, index in enumerate(load.operands):
        if any(part.kind == "variable" and part.value == axis.variable for part in parts_of(index)):
            found = affine(index)
            if place < len(load.operands) - 1 or found is None or not 0 < found[1].get(axis.variable, 0) <= _FARTHEST:
                return False
    return True


def _parts(block: Block, axis: Axis) -> Iterator[Block]:
    """Blocks that do the same one after the other; the last loop of each is over the lanes."""
    summed = [axis for axis in block.axes if axis.reduction]
    if block.first and summed:
        reductions = {str(axis.value.value) for axis in summed}
        loops = tuple(loop for loop in block.loops if loop.variable not in reductions)
        axes = tuple(axis for axis in block.axes if not axis.reduction)
        yield from _tiles(dataclasses.replace(block, loops=loops, axes=axes, first=(), body=block.first), axis)
        block = dataclasses.replace(block, first=())
    yield from _tiles(block, axis)


def _tiles(block: Block, axis: Axis) -> Iterator[Block]:
    loop = next(loop for loop in block.loops if loop.variable == axis.value.value)
    reductions = {str(axis.value.value) for axis in block.axes if axis.reduction}
    spatial = [found for found in block.loops if found.variable not in reductions and found is not loop]
    summed = [found for found in block.loops if found.variable in reductions]
    tiles, rest = divmod(loop.extent, LANES)
    if tiles:
        tile = Loop("tile", loop.dtype, tiles)
        start = Expression("mul", loop.dtype, (_variable(tile), integer(LANES, loop.dtype)))
        # The terms of a tile's sums stay at hand while all elements beside it are computed.
        around = [tile, *spatial] if summed else [*spatial, tile]
        yield _tiled(block, axis, [*around, *summed], start, Loop("lane", loop.dtype, LANES))
    if rest:
        start = integer(tiles * LANES, loop.dtype)
        yield _tiled(block, axis, [*spatial, *summed], start, Loop("lane", loop.dtype, rest))


def _tiled(block: Block, axis: Axis, loops: Sequence[Loop], start: Expression, lane: Loop) -> Block:
    value = Expression("add", lane.dtype, (start, _variable(lane)))
    axes = tuple(dataclasses.replace(found, value=value) if found is axis else found for found in block.axes)
    return dataclasses.replace(block, loops=(*loops, lane), axes=axes)


def _variable(loop: Loop) -> Expression:
    return Expression("variable", loop.dtype, (), loop.variable)


def _renamed(block: Block, taken: set[str]) -> Block:
    """The block with names of its own for all of its variables, which are `taken` from then on."""
    own: dict[str, str] = {}
    for name in [loop.variable for loop in block.loops] + [axis.variable for axis in block.axes]:
        own[name] = unique(name, taken.__contains__, "_")
        taken.add(own[name])

    def renamed(expression: Expression) -> Expression:
        operands = tuple(map(renamed, expression.operands))
        value = own[str(expression.value)] if expression.kind == "variable" else expression.value
        return dataclasses.replace(expression, operands=operands, value=value)

    (store,) = block.body
    assert isinstance(store, Store)
    return dataclasses.replace(
        block,
        loops=tuple(dataclasses.replace(loop, variable=own[loop.variable]) for loop in block.loops),
        axes=tuple(
            dataclasses.replace(axis, variable=own[axis.variable], value=renamed(axis.value)) for axis in block.axes
        ),
        body=(Store(store.buffer, tuple(map(renamed, store.indices)), renamed(store.value)),),
    )
