"""Temporaries that hold zeros before they are written: memory that was never written is undefined to a compiler."""

from __future__ import annotations

import dataclasses

from tapml.operators.program import Axis, Block, Buffer, Expression, Loop, OperatorProgram, Store, zero


def initialised(program: OperatorProgram) -> OperatorProgram:
    """The program, after blocks that fill each temporary which its first block does not fill by itself."""
    unsure = [buffer for buffer in program.temporaries if not _filled(program, buffer)]
    taken = {loop.variable for block in program.blocks for loop in block.loops}
    taken |= {axis.variable for block in program.blocks for axis in block.axes}
    blocks = tuple(_fill(buffer, taken) for buffer in unsure)
    return dataclasses.replace(program, blocks=(*blocks, *program.blocks))


def _filled(program: OperatorProgram, buffer: Buffer) -> bool:
    """Does the first block that touches it write every element before any is read?"""
    for block in program.blocks:
        begin = block.first or block.body
        stores = [s for s in (*block.first, *block.body) if isinstance(s, Store) and s.buffer == buffer.name]
        loads = [node.operands for node in block.expressions if node.kind == "load" and node.value == buffer.name]
        if not stores and not loads:
            continue
        if not stores or stores[0] not in begin or not _covers(block, stores[0].indices, buffer.shape):
            return False
        # What the block reads of it is what it has just written.
        return all(indices == stores[0].indices for indices in loads) and (bool(block.first) or not loads)
    return True


def _covers(block: Block, indices: tuple[Expression, ...], shape: tuple[int, ...]) -> bool:
    """Is each index an axis of its own, which runs through a loop of its own, over the whole dimension?"""
    if any(axis.value.kind != "variable" and axis.extent != 1 for axis in block.axes):
        return False
    loops = {loop.variable: loop.extent for loop in block.loops}
    used = [axis.value.value for axis in block.axes if axis.value.kind == "variable"]
    if len(used) != len(set(used)):
        return False
    reach = {a.variable: loops.get(str(a.value.value), 1) for a in block.axes if not a.reduction}
    seen: set[str] = set()
    for index, extent in zip(indices, shape, strict=True):
        if index.kind == "constant" and index.value == 0 and extent == 1:
            continue
        name = str(index.value)
        if index.kind != "variable" or name in seen or reach.get(name) != extent:
            return False
        seen.add(name)
    return True


def _fill(buffer: Buffer, taken: set[str]) -> Block:
    loops, axes = [], []
    for dimension, extent in enumerate(buffer.shape):
        names = []
        for role in ("fill", "filled"):
            name = f"{role}{dimension}"
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        loops.append(Loop(names[0], "int64", extent))
        axes.append(Axis(names[1], "int64", extent, False, Expression("variable", "int64", (), names[0])))
    indices = tuple(Expression("variable", "int64", (), axis.variable) for axis in axes)
    store = Store(buffer.name, indices, zero(buffer.dtype))
    return Block(f"fill_{buffer.name}", tuple(loops), tuple(axes), (), (store,))
