"""Operators that give one of two tensors by a number."""

from __future__ import annotations

from tapml.operators.external import External
from tapml.operators.program import Expression, OperatorProgram, Store

_INTEGERS = ("int32", "uint32")


def is_choice(program: OperatorProgram | External) -> bool:
    """Whether an operator gives all of its second input where the one element of the first (int32 or uint32) is not 0,
    and else all of the third."""
    if isinstance(program, External) or len(program.parameters) != 4 or len(program.blocks) != 1:
        return False
    number, a, b, result = program.parameters
    (block,) = program.blocks
    if number.dtype not in _INTEGERS or any(axis != 1 for axis in number.shape) or program.temporaries:
        return False
    if any((found.shape, found.dtype) != (result.shape, result.dtype) for found in (a, b)):
        return False
    if block.first or len(block.body) != 1 or not isinstance(store := block.body[0], Store):
        return False
    if store.buffer != result.name or store.value.kind not in ("select", "if_then_else"):
        return False
    condition, first, second = store.value.operands
    if condition.kind != "ne" or not _is_zero(condition.operands[1]):
        return False
    # An operator writes all of its output: so the elements of one are those of the other.
    moved = all(
        found.kind == "load" and found.value == buffer.name and found.operands == store.indices
        for found, buffer in ((first, a), (second, b))
    )
    return moved and _is_number(condition.operands[0], number.name)


def _is_number(found: Expression, name: str) -> bool:
    if found.kind == "cast" and found.dtype == "int64":  # which holds all of both dtypes
        (found,) = found.operands
    return found.kind == "load" and found.value == name and all(map(_is_zero, found.operands))


def _is_zero(found: Expression) -> bool:
    return found.kind == "constant" and found.value == 0
