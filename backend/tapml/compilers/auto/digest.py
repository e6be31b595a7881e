"""What an operator computes, as a digest: the key of a table of times."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tapml.errors import InputError
from tapml.files import sha256
from tapml.lowering.operator import Operator
from tapml.operators.program import Block, Expression, Let, OperatorProgram, Store


def digest(operator: Operator) -> str | None:
    """Of what it computes, on which sizes and in which dtypes, whatever it, its buffers and its variables are called:
    kernels of two operators with one digest take the same time. None for an operator that no program says."""
    try:
        program = operator.program
    except InputError:
        return None
    if not isinstance(program, OperatorProgram):
        return None
    names: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    buffers = [[names[one.name], one.dtype, one.shape] for one in (*program.parameters, *program.temporaries)]
    blocks = [_block(block, names) for block in program.blocks]
    symbols = [[symbol.name, symbol.minimum, symbol.maximum] for symbol in operator.symbols]
    return sha256(json.dumps([len(program.parameters), buffers, blocks, symbols]))


def _block(block: Block, names: Mapping[str, int]) -> list[Any]:
    loops = [[names[loop.variable], loop.extent] for loop in block.loops]
    axes = [[names[axis.variable], axis.extent, axis.reduction, _expression(axis.value, names)] for axis in block.axes]
    statements = [[_statement(one, names) for one in part] for part in (block.first, block.body)]
    return [loops, axes, *statements, dict(block.annotations)]


def _statement(found: Store | Let, names: Mapping[str, int]) -> list[Any]:
    if isinstance(found, Let):
        return [names[found.variable], _expression(found.value, names)]
    return [names[found.buffer], [_expression(one, names) for one in found.indices], _expression(found.value, names)]


def _expression(found: Expression, names: Mapping[str, int]) -> list[Any]:
    named = found.kind in ("variable", "load")
    value = names[str(found.value)] if named else found.value
    return [found.kind, found.dtype, repr(value), *(_expression(one, names) for one in found.operands)]


_LARGE = 1024
"""Sizes above this are computed by the same tiles."""


def judged_sizes(operator: Operator) -> dict[str, int]:
    """The sizes that a kernel of many sizes is judged at: of each symbol a quarter of the largest, but no more than is
    large for sure, and at least what is, as a factor, in the middle of its range. What large sizes take is what
    somebody waits for, and tiles that suit those are seldom far behind with small ones."""
    return {one.name: _judged(max(1, one.minimum), one.maximum) for one in operator.symbols}


def _judged(minimum: int, maximum: int) -> int:
    return max(round(math.sqrt(minimum * maximum)), min(maximum // 4, _LARGE))
