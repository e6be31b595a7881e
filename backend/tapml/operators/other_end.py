"""Which elements of an output come of data that point outside of a tensor: there a device may give anything.

A program on this machine clamps such an index (guard.py). The same program that takes the element at the other end
instead gives something else for exactly what depends on one.
"""

from __future__ import annotations

import dataclasses

from tapml.operators.program import Block, Expression, Let, OperatorProgram, Store, integer, parts_of


def from_the_other_end(program: OperatorProgram) -> OperatorProgram | None:
    """The program with each index that depends on data, where it lies below its tensor, at the tensor's end, and where
    it lies beyond, at its beginning. None where no index depends on data."""
    shapes = {buffer.name: buffer.shape for buffer in (*program.parameters, *program.temporaries)}
    turned = _Turned(shapes)
    blocks = tuple(turned.block(block) for block in program.blocks)
    return dataclasses.replace(program, blocks=blocks) if turned.any else None


class _Turned:
    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self._shapes = shapes
        self._loaded: set[str] = set()
        """Variables whose values depend on data."""
        self.any = False

    def block(self, block: Block) -> Block:
        self._loaded = set()
        first, body = (tuple(self._statement(s) for s in statements) for statements in (block.first, block.body))
        return dataclasses.replace(block, first=first, body=body)

    def _statement(self, statement: Store | Let) -> Store | Let:
        value = self._expression(statement.value)
        if isinstance(statement, Let):
            if self._depends(statement.value):
                self._loaded.add(statement.variable)
            return Let(statement.variable, value)
        return Store(statement.buffer, self._indices(statement.buffer, statement.indices), value)

    def _expression(self, given: Expression) -> Expression:
        if given.kind == "load":
            return dataclasses.replace(given, operands=self._indices(str(given.value), given.operands))
        if not given.operands:
            return given
        return dataclasses.replace(given, operands=tuple(map(self._expression, given.operands)))

    def _indices(self, buffer: str, indices: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(map(self._index, indices, self._shapes[buffer]))

    def _index(self, given: Expression, extent: int) -> Expression:
        index = self._expression(given)
        if not self._depends(given) or extent < 1:
            return index
        self.any = True
        zero, last = integer(0, index.dtype), integer(extent - 1, index.dtype)
        below = Expression("lt", "bool", (index, zero))
        beyond = Expression("gt", "bool", (index, last))
        inner = Expression("select", index.dtype, (beyond, zero, index))
        return Expression("select", index.dtype, (below, last, inner))

    def _depends(self, given: Expression) -> bool:
        return any(
            part.kind == "load" or (part.kind == "variable" and part.value in self._loaded) for part in parts_of(given)
        )
