"""Programs that stay inside their buffers and do only what is defined, whatever a suite says and whatever is in its
tensors: for native code on this machine.

TVM and LLVM take it for granted that indices are in range, that no sum overflows, in whatever order they bring its
parts, and that a conversion keeps the number; checks that follow from that are compiled away. So each index that is not
shown to be in range is clamped, and integer arithmetic that may leave its dtype is done in int64, where the remainder
is spelled out. A right program gives the same results: there, indices are in range, and arithmetic wraps around.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tapml.errors import InputError
from tapml.operators.integers import (
    anything,
    arithmetic,
    clamped,
    comparison,
    converted,
    counts,
    number,
    widened,
)
from tapml.operators.program import (
    ARITHMETIC,
    BITWISE,
    CHOICES,
    COMPARISONS,
    FLOATS,
    INTEGERS,
    Axis,
    Block,
    Expression,
    Let,
    OperatorProgram,
    Store,
    zero,
)
from tapml.operators.ranges import Known
from tapml.operators.types import Wrong
from tapml.operators.written import doubtful, fill_block


def guarded(program: OperatorProgram) -> OperatorProgram:
    """The program with indices and integer arithmetic that are defined, and temporaries that hold zeros first, unless
    they are shown to be written before they are read.

    Raises InputError where that cannot be had: 64-bit arithmetic that may overflow, an axis whose values leave it.
    """
    guard = _Guard(program)
    taken = {loop.variable for block in program.blocks for loop in block.loops}
    taken |= {axis.variable for block in program.blocks for axis in block.axes}
    # Memory that was never written is undefined to a compiler.
    blocks = [
        fill_block(f"fill{number}", buffer, zero(buffer.dtype), taken)
        for number, buffer in enumerate(doubtful(program, len(program.parameters)))
        if 0 not in buffer.shape
    ]
    for place, given in enumerate(program.blocks):
        block = given.done
        if block is None:
            continue  # its buffers may be empty
        try:
            blocks.append(guard.block(block))
        except Wrong as error:
            raise InputError(
                f"operator {program.name} is not run, for it could reach outside its tensors: block {place} "
                f"({block.name}): {error}"
            ) from error
    return dataclasses.replace(program, blocks=tuple(blocks))


class _Guard:
    def __init__(self, program: OperatorProgram) -> None:
        self._shapes = {buffer.name: buffer.shape for buffer in (*program.parameters, *program.temporaries)}
        self._variables: dict[str, tuple[int, int]] = {}

    # ------------------------------------------------ statements

    def block(self, block: Block) -> Block:
        self._variables = {loop.variable: (0, loop.extent - 1) for loop in block.loops}
        axes = tuple(self._axis(axis) for axis in block.axes)
        first, body = (tuple(self._statement(s) for s in statements) for statements in (block.first, block.body))
        return dataclasses.replace(block, axes=axes, first=first, body=body)

    def _axis(self, axis: Axis) -> Axis:
        value = self._evaluate(axis.value)
        if value.low < 0 or value.high >= axis.extent:
            span = f"{value.low} to {value.high}"
            raise Wrong(f"the axis {axis.variable!r} of {axis.extent} takes values from {span}")
        self._variables[axis.variable] = (value.low, value.high)
        return dataclasses.replace(axis, value=value.expression)

    def _statement(self, statement: Store | Let) -> Store | Let:
        value = self._evaluate(statement.value)
        if isinstance(statement, Let):
            if value.expression.dtype not in FLOATS:
                self._variables[statement.variable] = (value.low, value.high)
            return Let(statement.variable, value.expression)
        indices = self._indices(statement.buffer, statement.indices)
        return Store(statement.buffer, indices, value.expression)

    def _indices(self, buffer: str, indices: Sequence[Expression]) -> tuple[Expression, ...]:
        shape = self._shapes[buffer]
        return tuple(self._index(index, extent) for index, extent in zip(indices, shape, strict=True))

    def _index(self, index: Expression, extent: int) -> Expression:
        if extent == 0:
            raise Wrong("it writes an element of an empty tensor")
        known = self._evaluate(index)
        if known.low >= 0 and known.high < extent:
            return known.expression
        return clamped(widened(known), 0, extent - 1).expression

    # ------------------------------------------------ expressions

    def _evaluate(self, given: Expression) -> Known:
        """The expression as it is to be, and what is known of it."""
        kind, dtype = given.kind, given.dtype
        if kind == "constant":
            return number(given)
        if kind == "variable":
            return Known(given, *self._variables[str(given.value)]) if counts(given) else Known(given)
        if kind == "load":
            if 0 in self._shapes[str(given.value)]:
                return number(zero(dtype))  # some condition keeps the program from getting here
            indices = self._indices(str(given.value), given.operands)
            return anything(dataclasses.replace(given, operands=indices))
        operands = [self._evaluate(operand) for operand in given.operands]
        same = dataclasses.replace(given, operands=tuple(operand.expression for operand in operands))
        if kind == "cast":
            return converted(same, operands[0])
        if kind in CHOICES:
            _, a, b = operands
            return Known(same, min(a.low, b.low), max(a.high, b.high)) if counts(same) else Known(same)
        if dtype in INTEGERS and kind in (*ARITHMETIC, *BITWISE):
            return arithmetic(kind, dtype, operands[0], operands[1])
        if kind in COMPARISONS and operands[0].expression.dtype in INTEGERS:
            return comparison(kind, operands[0], operands[1])
        return anything(same)
