"""Whether a program writes all that it gives, before it reads it.

What nobody wrote holds whatever lay in memory: a test of it would expect something else each time. Most programs are
shown to be whole by the form of their stores; the others are run with outputs and temporaries that hold different
things first (`filled`), of which a whole program gives no sign.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tapml.files import unique
from tapml.operators.program import (
    FLOATS,
    Axis,
    Block,
    Buffer,
    Expression,
    Let,
    Loop,
    OperatorProgram,
    Store,
    parts_of,
)


def doubtful(program: OperatorProgram, inputs: int) -> list[Buffer]:
    """Those of its outputs and temporaries that are not shown to be written whole before they are read. The first
    `inputs` of its parameters are what it is given."""
    own = {buffer.name: buffer for buffer in (*program.parameters[inputs:], *program.temporaries)}
    whole = {name for name, buffer in own.items() if 0 in buffer.shape}
    wrong: set[str] = set()
    for given in program.blocks:
        block = given.done
        if block is None:
            continue
        begun = {
            store.buffer: store
            for store in block.first
            if isinstance(store, Store) and store.buffer in own and _begins(block, store, own[store.buffer])
        }
        read = {name for name in _read(block) if name in own and name not in whole}
        wrong |= {name for name in read if name not in begun or not _reads_its_own(block, begun[name])}
        stores = [found for found in block.body if isinstance(found, Store) and found.buffer in own]
        whole |= {store.buffer for store in stores if _covers(block, store, own[store.buffer])} | {*begun}
    return [buffer for name, buffer in own.items() if name in wrong or name not in whole]


def filled(program: OperatorProgram, buffers: list[Buffer], other: bool) -> OperatorProgram:
    """The program behind blocks that fill `buffers` with one number, or with an `other`."""
    taken = {loop.variable for block in program.blocks for loop in block.loops}
    taken |= {axis.variable for block in program.blocks for axis in block.axes}
    blocks = [
        fill_block(f"before{number}", buffer, _number(buffer.dtype, other), taken)
        for number, buffer in enumerate(buffers)
        if 0 not in buffer.shape
    ]
    return dataclasses.replace(program, blocks=(*blocks, *program.blocks))


def fill_block(prefix: str, buffer: Buffer, value: Expression, taken: set[str]) -> Block:
    """A block that stores `value` everywhere, with variables of its own that are not `taken`."""
    loops, axes = [], []
    for dimension, extent in enumerate(buffer.shape):
        loop, axis = (unique(f"{prefix}_{role}{dimension}", taken.__contains__, "_") for role in ("loop", "axis"))
        loops.append(Loop(loop, "int64", extent))
        axes.append(Axis(axis, "int64", extent, False, Expression("variable", "int64", (), loop)))
    indices = tuple(Expression("variable", "int64", (), axis.variable) for axis in axes)
    return Block(f"fill_{buffer.name}", tuple(loops), tuple(axes), (), (Store(buffer.name, indices, value),))


def _number(dtype: str, other: bool) -> Expression:
    value: bool | int | float = other if dtype == "bool" else (-2.5 if other else 1.5) if dtype in FLOATS else 2 - other
    return Expression("constant", dtype, (), value)


def _read(block: Block) -> Iterator[str]:
    return (str(found.value) for found in block.expressions if found.kind == "load")


def _begins(block: Block, store: Store, buffer: Buffer) -> bool:
    """Whether a store of `first` covers its buffer, and comes before all else that the block does at its element: at
    the first turn of each of the reduction's loops, which are nobody else's, its axes are at 0."""
    loops = [str(axis.value.value) for axis in block.axes if axis.value.kind == "variable"]
    plain = all(axis.value.kind == "variable" or axis.value.value == 0 for axis in block.axes if axis.reduction)
    return plain and len({*loops}) == len(loops) and _covers(block, store, buffer)


def _reads_its_own(block: Block, store: Store) -> bool:
    """Whether the block reads the buffer of a store of `first` in its body alone, at the store's own element."""

    def read(wholes: Sequence[Expression | Store | Let]) -> list[Expression]:
        return [found for whole in wholes for found in parts_of(whole) if is_load(found)]

    def is_load(found: Expression) -> bool:
        return found.kind == "load" and found.value == store.buffer

    before = [*(axis.value for axis in block.axes), *block.first]
    return not read(before) and all(found.operands == store.indices for found in read(block.body))


def _covers(block: Block, store: Store, buffer: Buffer) -> bool:
    """Whether each index is a loop of its own over the buffer's whole axis."""
    loops = {loop.variable: loop.extent for loop in block.loops}
    axes = {axis.variable: axis for axis in block.axes}
    seen: set[str] = set()
    for index, extent in zip(store.indices, buffer.shape, strict=True):
        if extent == 1:
            continue
        while index.kind == "cast":
            (index,) = index.operands
        axis = axes.get(str(index.value)) if index.kind == "variable" else None
        if axis is None or axis.reduction or axis.value.kind != "variable":
            return False
        loop = str(axis.value.value)
        if loop in seen or loops.get(loop) != extent:
            return False
        seen.add(loop)
    return True
