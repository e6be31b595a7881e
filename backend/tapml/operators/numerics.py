"""What an operator computes, as far as the tolerance needs it: accumulation lengths, builtins, any arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tapml.expressions import evaluate
from tapml.operators.program import FLOATS, OperatorProgram

_ROUNDED = ("add", "sub", "mul", "div")


@dataclass(frozen=True)
class Numerics:
    """`accumulation_length`: the most terms summed into one element (1: no reduction).
    `builtins`: math functions called, sorted ("exp", "tanh").
    `operations`: floating-point operations an element goes through, counted in the program text.
    """

    accumulation_length: int
    builtins: tuple[str, ...]
    operations: int

    @property
    def exact(self) -> bool:
        """Only moves, selects or compares values: there is nothing to round."""
        return self.operations == 0 and not self.builtins


def stated(document: Mapping[str, Any]) -> Numerics:
    """What a kernel's document says."""
    found = document["numerics"]
    return Numerics(found["accumulation_length"], tuple(found["builtins"]), found["operations"])


def numerics(program: OperatorProgram, sizes: Mapping[str, int] | None = None) -> Numerics:
    """Read the numerics off a program; `sizes`: of a template's symbols."""
    accumulation = 1
    builtins: set[str] = set()
    operations = 0
    for block in program.blocks:
        reduced = [evaluate(axis.extent, sizes or {}) for axis in block.axes if axis.reduction]
        accumulation = max(accumulation, math.prod(reduced))
        for node in block.expressions:
            if node.dtype not in FLOATS:
                continue
            if node.kind == "call":
                builtins.add(str(node.value))
            elif node.kind == "cast":
                # f32 -> f16 rounds. An integer's cast does too from 2^24 on, where no mask, index or count lies.
                operations += node.operands[0].dtype in FLOATS
            else:
                operations += node.kind in _ROUNDED
    return Numerics(accumulation, tuple(sorted(builtins)), operations)
