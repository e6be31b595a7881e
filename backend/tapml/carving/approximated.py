"""Operators computed in another way that is as good: functions that are as exact as 1 is, long sums in float64.

sigmoid, tanh and erf are approximated by whoever computes them so that the ends of what they give, -1 and 1, are right
to a unit in the last place. Near 0 that is no better: ONNX Runtime's sigmoid(-20) is 0, and its tanh(1e-4) and TVM's
differ by 1e-8. What rounding the operators' inputs moves does not show it: 1 + erf(x) of a GELU may lose all that is
left.

Of thousands of terms that are summed one after the other small ones may vanish behind what they are added to, all of
them: the sum of a softmax over 6,625 logits is off by 1e-4 where the largest comes first, and the mean of 165,099
squares by 4e-5, for those near 0 come to nothing. No rounding at random shows that, but the sum without rounding does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tapml.bounds import APPROXIMATED
from tapml.compare.tolerance import UNIT
from tapml.lowering.lower import Model
from tapml.operators.program import Block, Buffer, Expression, Let, OperatorProgram, Store, parts_of
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
    temporaries, blocks = [*program.temporaries], []
    for block in program.blocks:
        off = _block(block, evenly)
        if not _long(off):
            blocks.append(off)
            continue
        store = off.body[0]
        assert isinstance(store, Store)
        (buffer,) = (one for one in (*program.parameters, *temporaries) if one.name == store.buffer)
        exact = Buffer(f"{buffer.name}_in_float64_{len(temporaries)}", "float64", buffer.shape)
        temporaries.append(exact)
        blocks += [_summed(off, buffer.name, exact.name), _rounded(off, store, exact.name)]
    return dataclasses.replace(program, temporaries=tuple(temporaries), blocks=tuple(blocks))


def _block(block: Block, evenly: bool) -> Block:
    first, body = (
        tuple(dataclasses.replace(statement, value=_value(statement.value, evenly)) for statement in statements)
        for statements in (block.first, block.body)
    )
    return dataclasses.replace(block, first=first, body=body)


def _long(block: Block) -> bool:
    """Whether it is a sum of many terms. What is summed of products rounds either way, but for squares."""
    terms = math.prod(axis.extent for axis in block.axes if axis.reduction)
    if terms < _LONG or block.sequential or len(block.body) > 1 or len(block.first) != 1:
        return False
    store = block.body[0]
    if not isinstance(store, Store) or store.value.kind != "add" or store.value.dtype not in ("float16", "float32"):
        return False
    so_far = Expression("load", store.value.dtype, store.indices, store.buffer)
    factors = [part.operands for part in parts_of(store.value) if part.kind == "mul"]
    return so_far in store.value.operands and all(one == other for one, other in factors)


def _summed(block: Block, buffer: str, exact: str) -> Block:
    """The block with what it sums up in `exact`."""

    def widened(statement: Store | Let) -> Store:
        assert isinstance(statement, Store)
        return Store(exact, statement.indices, wide(statement.value))

    def wide(found: Expression) -> Expression:
        if found.kind == "add":
            return dataclasses.replace(found, dtype="float64", operands=tuple(map(wide, found.operands)))
        if found.kind == "load" and found.value == buffer:
            return dataclasses.replace(found, dtype="float64", value=exact)
        return Expression("cast", "float64", (found,))

    first, body = (tuple(map(widened, statements)) for statements in (block.first, block.body))
    return dataclasses.replace(block, first=first, body=body)


def _rounded(block: Block, store: Store, exact: str) -> Block:
    """Behind it: what was summed up goes where it was summed up before."""
    spatial = tuple(axis for axis in block.axes if not axis.reduction)
    used = {part.value for axis in spatial for part in parts_of(axis.value) if part.kind == "variable"}
    total = Expression("load", "float64", store.indices, exact)
    into = Store(store.buffer, store.indices, Expression("cast", store.value.dtype, (total,)))
    loops = tuple(loop for loop in block.loops if loop.variable in used)
    return dataclasses.replace(
        block, name=f"{block.name}_rounded", loops=loops, axes=spatial, first=(), body=(into,), annotations={}
    )


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
