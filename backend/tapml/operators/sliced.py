"""The part of an operator's program that a box of its output needs: a smaller program, of smaller inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tapml.operators.affine import affine
from tapml.operators.program import Axis, Block, Buffer, Expression, Let, OperatorProgram, Store, integer, parts_of

Box: TypeAlias = tuple[tuple[int, int], ...]
"""From where to where, along each dimension."""


@dataclass(frozen=True)
class Sliced:
    """`program` gives the box `outputs` of each output for the box `inputs` of each input: an output's is what was
    asked for or more, an input's what is read of it."""

    program: OperatorProgram
    inputs: tuple[Box, ...]
    outputs: tuple[Box, ...]


def whole(shape: Sequence[int]) -> Box:
    """All of it."""
    return tuple((0, extent) for extent in shape)


def points(box: Box) -> int:
    """How many elements it has."""
    return math.prod(end - start for start, end in box)


def sliced(program: OperatorProgram, wanted: Sequence[Box | None]) -> Sliced:
    """What gives the boxes `wanted` of its outputs (None: nothing of this one)."""
    cut = _Cut(program)
    names = [buffer.name for buffer in program.parameters]
    results = names[len(names) - len(wanted) :]
    for name, box in zip(results, wanted, strict=True):
        cut.need(name, box or tuple((0, min(extent, 1)) for extent in cut.shape(name)))
    kept = [found for block in reversed(program.blocks) if (found := cut.narrowed(block)) is not None]
    blocks = tuple(cut.moved(block, ranges) for block, ranges in reversed(kept))
    made = replace(
        program,
        parameters=tuple(map(cut.buffer, program.parameters)),
        temporaries=tuple(cut.buffer(buffer) for buffer in program.temporaries if buffer.name in cut.boxes),
        blocks=blocks,
    )
    boxes = [cut.box(name) for name in names]
    return Sliced(made, tuple(boxes[: -len(wanted)]), tuple(boxes[-len(wanted) :]))


_Ranges: TypeAlias = Mapping[str, tuple[int, int]]


class _Cut:
    """The boxes of a program's buffers, as far as they are known."""

    def __init__(self, program: OperatorProgram) -> None:
        self._declared = {buffer.name: buffer for buffer in (*program.parameters, *program.temporaries)}
        self._fixed = {name: set[int]() for name in self._declared}
        for block in program.blocks:
            for store in _stores(block):
                seen: set[str] = set()
                for dimension, index in enumerate(store.indices):
                    found = _moves_along(index, block)
                    if found is None or found[0] in seen:
                        self._fixed[store.buffer].add(dimension)
                    else:
                        seen.add(found[0])
        self.boxes: dict[str, Box] = {}

    def shape(self, name: str) -> tuple[int, ...]:
        return self._declared[name].shape

    def box(self, name: str) -> Box:
        """Of what nothing needs, one element."""
        return self.boxes.get(name, tuple((0, min(extent, 1)) for extent in self.shape(name)))

    def need(self, name: str, box: Box) -> None:
        """As much of a buffer as `box`, besides what is needed of it."""
        before = self.boxes.get(name, box)
        self.boxes[name] = tuple(
            (0, extent) if dimension in self._fixed[name] else (min(a[0], b[0]), max(a[1], b[1]))
            for dimension, (a, b, extent) in enumerate(zip(before, box, self.shape(name), strict=True))
        )

    def narrowed(self, block: Block) -> tuple[Block, _Ranges] | None:
        """The values that a block's variables take, of what is needed of its buffers; None where nothing is. What it
        reads is needed then."""
        ranges = {axis.variable: (0, axis.extent) for axis in block.axes}
        stores = _stores(block)
        parts = [part for store in stores if store.buffer in self.boxes and (part := self._part(store, block, ranges))]
        if not parts:
            return None
        if not block.sequential:
            for variable in ranges:
                ends = [part[variable] for part in parts]
                ranges[variable] = (min(start for start, _ in ends), max(end for _, end in ends))
        for store in stores:
            self._read(store.buffer, store.indices, ranges)
        for found in (found for statement in (*block.first, *block.body) for found in parts_of(statement)):
            if found.kind == "load":
                self._read(str(found.value), found.operands, ranges)
        return block, ranges

    def _part(self, store: Store, block: Block, full: _Ranges) -> dict[str, tuple[int, int]] | None:
        """The values of a block's variables for which it writes what is needed; None where there are none."""
        ranges = dict(full)
        for dimension, (index, (start, end)) in enumerate(zip(store.indices, self.boxes[store.buffer], strict=True)):
            found = _moves_along(index, block)
            if found is None or dimension in self._fixed[store.buffer]:
                continue
            variable, constant = found
            low, high = ranges[variable]
            ranges[variable] = (max(low, start - constant), min(high, end - constant))
            if ranges[variable][0] >= ranges[variable][1]:
                return None
        return ranges

    def _read(self, name: str, indices: Sequence[Expression], ranges: _Ranges) -> None:
        box = []
        for index, extent in zip(indices, self.shape(name), strict=True):
            found = affine(index)
            if found is None or not found[1].keys() <= ranges.keys():
                box.append((0, extent))
                continue
            ends = [sorted((c * ranges[v][0], c * (ranges[v][1] - 1))) for v, c in found[1].items()]
            low = found[0] + sum(end[0] for end in ends)
            high = found[0] + sum(end[1] for end in ends)
            # What is outside a condition drops.
            low = min(max(low, 0), max(extent - 1, 0))
            box.append((low, max(min(high + 1, extent), min(low + 1, extent))))
        self.need(name, tuple(box))

    def buffer(self, buffer: Buffer) -> Buffer:
        return replace(buffer, shape=tuple(end - start for start, end in self.box(buffer.name)))

    def moved(self, block: Block, ranges: _Ranges) -> Block:
        """A block over these ranges, in buffers that are no more than their boxes."""
        begins = {variable: start for variable, (start, _) in ranges.items() if start}
        loops = {str(axis.value.value): axis.variable for axis in block.axes if axis.value.kind == "variable"}
        extents = {variable: end - start for variable, (start, end) in ranges.items()}

        def expression(found: Expression) -> Expression:
            operands = tuple(map(expression, found.operands))
            if found.kind == "variable" and found.value in begins:
                return _plus(found, begins[str(found.value)])
            if found.kind == "load":
                starts = self._starts(str(found.value))
                operands = tuple(_plus(index, -start) for index, start in zip(operands, starts, strict=True))
            return replace(found, operands=operands) if operands else found

        def statement(found: Store | Let) -> Store | Let:
            if isinstance(found, Let):
                return replace(found, value=expression(found.value))
            starts = self._starts(found.buffer)
            indices = tuple(_plus(expression(i), -start) for i, start in zip(found.indices, starts, strict=True))
            return replace(found, indices=indices, value=expression(found.value))

        return replace(
            block,
            loops=tuple(
                replace(loop, extent=extents[loops[loop.variable]]) if loop.variable in loops else loop
                for loop in block.loops
            ),
            axes=tuple(replace(axis, extent=extents[axis.variable]) for axis in block.axes),
            first=tuple(map(statement, block.first)),
            body=tuple(map(statement, block.body)),
        )

    def _starts(self, name: str) -> list[int]:
        return [start for start, _ in self.box(name)]


def _stores(block: Block) -> list[Store]:
    return [statement for statement in block.body if isinstance(statement, Store)]


def _moves_along(index: Expression, block: Block) -> tuple[str, int] | None:
    """(variable, constant) of an index that is their sum, of a variable that may be cut."""
    found = affine(index)
    if found is None or block.sequential:
        return None
    axes: dict[str, Axis] = {axis.variable: axis for axis in block.axes}
    variables = [variable for variable, coefficient in found[1].items() if coefficient]
    if len(variables) != 1 or found[1][variables[0]] != 1 or variables[0] not in axes:
        return None
    axis = axes[variables[0]]
    return None if axis.reduction or axis.value.kind != "variable" else (variables[0], found[0])


def _plus(found: Expression, number: int) -> Expression:
    if not number:
        return found
    if found.kind == "add" and found.operands[1].kind == "constant":
        number += int(found.operands[1].value or 0)
        found = found.operands[0]
        if not number:
            return found
    return Expression("add", found.dtype, (found, integer(number, found.dtype)))
