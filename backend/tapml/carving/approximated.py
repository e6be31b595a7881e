"""Operators computed in another way that is as good: functions that are as exact as 1 is, sums in reverse order.

sigmoid, tanh and erf are approximated by whoever computes them so that the ends of what they give, -1 and 1, are right
to a unit in the last place. Near 0 that is no better: ONNX Runtime's sigmoid(-20) is 0, and its tanh(1e-4) and TVM's
differ by 1e-8. What rounding the operators' inputs moves does not show it: 1 + erf(x) of a GELU may lose all that is
left.

Of thousands of terms that are summed one after the other small ones may vanish behind a large one, all of them: the sum
of a softmax over 6,625 logits is off by 1e-4 where the largest comes first. No rounding at random shows that, but the
same sum from its other end does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tapml.bounds import APPROXIMATED
from tapml.compare.tolerance import UNIT
from tapml.lowering.lower import Model
from tapml.operators.program import FLOATS, Block, Expression, OperatorProgram, Store, integer, parts_of
from tapml.platforms.reference import Reference
from tapml.program import Graph

_LONG = 1024
"""Terms of a sum in which many may vanish."""

_TURNS = {"float32": 2.0**22, "float16": 2.0**10}
"""Radians for each 1 that a function gives: next to each other two values are off by different shares of a unit."""


def approximated(
    models: Mapping[Graph, Model], platform: str, *, evenly: bool = False
) -> tuple[frozenset[str], Reference | None]:
    """The kernels that call such functions or take such sums, and what runs them with each value of the functions off
    by up to one unit in the last place of 1, alike for alike values, or all by one unit (`evenly`), and with the sums
    in reverse order; None where there is no such kernel."""
    changed = []
    for graph, model in models.items():
        programs = {
            name: off
            for name, program in model.programs.items()
            if isinstance(program, OperatorProgram) and (off := _off(program, evenly)) != program
        }
        changed.append(Model(graph, [], programs))
    kernels = frozenset(name for model in changed for name in model.programs)
    return kernels, Reference(*changed, platform=platform) if kernels else None


def _off(program: OperatorProgram, evenly: bool) -> OperatorProgram:
    return dataclasses.replace(program, blocks=tuple(_block(block, evenly) for block in program.blocks))


def _block(block: Block, evenly: bool) -> Block:
    first, body = (
        tuple(dataclasses.replace(statement, value=_value(statement.value, evenly)) for statement in statements)
        for statements in (block.first, block.body)
    )
    return _backwards(dataclasses.replace(block, first=first, body=body))


def _backwards(block: Block) -> Block:
    """A long sum of one thing each from its other end. What is summed of products rounds either way."""
    reduced = [axis for axis in block.axes if axis.reduction]
    store = block.body[0]
    long = len(reduced) == 1 and reduced[0].extent >= _LONG and not block.sequential
    if not long or len(block.body) > 1 or not isinstance(store, Store) or store.value.dtype not in FLOATS:
        return block
    if store.value.kind != "add" or any(node.kind == "mul" for node in parts_of(store.value)):
        return block
    (axis,) = reduced
    variable = Expression("variable", axis.dtype, (), axis.variable)
    last = Expression("sub", axis.dtype, (integer(axis.extent - 1, axis.dtype), variable))

    def reversed_(found: Expression) -> Expression:
        if found == variable:
            return last
        return dataclasses.replace(found, operands=tuple(map(reversed_, found.operands)))

    return dataclasses.replace(block, body=(dataclasses.replace(store, value=reversed_(store.value)),))


def _value(found: Expression, evenly: bool) -> Expression:
    found = dataclasses.replace(found, operands=tuple(_value(operand, evenly) for operand in found.operands))
    if found.kind != "call" or found.value not in APPROXIMATED or found.dtype not in _TURNS:
        return found

    def constant(number: float) -> Expression:
        return Expression("constant", found.dtype, (), number)

    def product(one: Expression, other: Expression) -> Expression:
        return Expression("mul", found.dtype, (one, other))

    off = constant(UNIT[found.dtype])
    if not evenly:
        angle = product(constant(_TURNS[found.dtype]), found)
        # Of 0 it is 1: the tails are off as well.
        off = product(off, Expression("call", found.dtype, (angle,), "cos"))
    return Expression("add", found.dtype, (found, off))
