"""Sums of products of integers as an oracle takes them: of the floating-point numbers that the integers stand for.

Such a sum is exact (activations.py of importing), and the oracle's is not, so that what rounds in ours says little of
what may lie between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tapml.bounds.blocks import accumulation, is_product_sum
from tapml.operators.program import FLOATS, Block, Expression, Let, OperatorProgram, Store

_FLOAT = "float32"


def in_floats(program: OperatorProgram) -> OperatorProgram:
    """The program, in which integers that are multiplied and summed, and used for nothing else, are numbers of float32:
    what it gives is the same but for roundings."""
    held = {buffer.name: buffer.dtype for buffer in program.temporaries}
    sums = [store for block in program.blocks for store in _sums(block) if held.get(store.buffer) in _INTEGERS]
    names = {store.buffer for store in sums}
    names |= {str(part.value) for store in sums for part in accumulation(store)[1].operands if part.kind == "load"}
    if not sums or not all(held.get(name) in _INTEGERS for name in names) or not _alone(program, names):
        return program

    def wide(found: Expression) -> Expression:
        operands = tuple(map(wide, found.operands))
        dtype = _FLOAT if found.kind == "load" and found.value in names else found.dtype
        return replace(found, dtype=dtype, operands=operands)

    blocks = tuple(
        replace(
            block,
            first=tuple(_stored(one, names, wide) for one in block.first),
            body=tuple(_stored(one, names, wide) for one in block.body),
        )
        for block in program.blocks
    )
    temporaries = tuple(replace(one, dtype=_FLOAT) if one.name in names else one for one in program.temporaries)
    return replace(program, temporaries=temporaries, blocks=blocks)


_INTEGERS = ("int32",)


def _sums(block: Block) -> Iterator[Store]:
    """Its sum of products of elements, where it is one."""
    stores = [statement for statement in block.body if isinstance(statement, Store)]
    reduces = any(axis.reduction for axis in block.axes) and not block.sequential
    if reduces and len(stores) == len(block.body) == 1 and is_product_sum(stores[0]):
        yield stores[0]


def _alone(program: OperatorProgram, names: set[str]) -> bool:
    """Whether what these buffers hold is only multiplied, summed, and cast to floating-point numbers."""
    for block in program.blocks:
        sums = [*_sums(block)]
        for statement in block.body:
            if isinstance(statement, Store) and any(_loads(index, names) for index in statement.indices):
                return False
            whole = statement.value
            taken = _loads(whole, names)
            if not taken or statement in sums:
                continue
            if isinstance(statement, Store) and statement.buffer in names:
                return False
            if taken != sum(_loads(part, names) for part in _casts(whole)):
                return False
    return True


def _loads(whole: Expression, names: set[str]) -> int:
    own = whole.kind == "load" and whole.value in names
    return own + sum(_loads(part, names) for part in whole.operands)


def _casts(whole: Expression) -> Iterator[Expression]:
    """Elements that are cast to floating-point numbers."""
    if whole.kind == "cast" and whole.dtype in FLOATS and whole.operands[0].kind == "load":
        yield whole.operands[0]
        return
    for part in whole.operands:
        yield from _casts(part)


def _stored(one: Store | Let, names: set[str], wide: Callable[[Expression], Expression]) -> Store | Let:
    if not isinstance(one, Store) or one.buffer not in names:
        return replace(one, value=wide(one.value))
    if one.value.kind == "constant":
        value = Expression("constant", _FLOAT, (), float(one.value.value or 0))
    elif is_product_sum(one):
        value = wide(one.value)
        value = replace(value, dtype=_FLOAT, operands=tuple(replace(part, dtype=_FLOAT) for part in value.operands))
    else:
        value = Expression("cast", _FLOAT, (wide(one.value),))
    return replace(one, value=value)
