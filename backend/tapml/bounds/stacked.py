"""Calls of one program that are evaluated together: what Python takes for each of them it takes once.

A recurrent layer calls the same few operators in each of its steps, of some hundred elements. Their inputs are stacked
along an axis of their own, which large ones that all calls share do not have. Every element comes out as if its call
were alone, to the last bit: a program is taken where its operations look at one element at a time or are sums of
products, of which BLAS is given one call's after the other, and calls where what is exact in one is exact in all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Iterator, Sequence, Set

import numpy as np

from tapml.bounds.blocks import is_product_sum
from tapml.bounds.converted import any_subnormal
from tapml.bounds.uncertain import FLOATS, Uncertain
from tapml.operators.affine import affine
from tapml.operators.program import Axis, Block, Expression, Loop, OperatorProgram, Store

CALL = "of which call"
"""The variable that tells calls apart; TVM's have no spaces."""

Call = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
"""The inputs, and what the reference platform made of them."""

_SHARED = 1 << 14
"""Elements: an input of as many is not copied, so all calls that are stacked have the same."""
_MOST = 1 << 17
"""Elements of a stacked buffer: all of them stay in a processor's cache."""

_KINDS = ("constant", "load", "add", "sub", "mul", "div", "max", "min")
_FUNCTIONS = ("erf", "exp", "exp2", "fabs", "log", "log2", "rsqrt", "sigmoid", "sqrt", "tanh")
"""What makes an element of one element of each operand, and is exact or not whatever these are."""


def stackable(program: OperatorProgram) -> bool:
    """Whether calls of a program may be stacked."""
    buffers = (*program.parameters, *program.temporaries)
    return all(buffer.dtype in FLOATS for buffer in buffers) and all(map(_is_plain, program.blocks))


def _is_plain(block: Block) -> bool:
    stores = [statement for statement in (*block.first, *block.body) if isinstance(statement, Store)]
    if block.sequential or len(stores) < len(block.first) + len(block.body):
        return False
    if any(axis.reduction for axis in block.axes) and not (len(block.body) == 1 and is_product_sum(stores[-1])):
        return False
    return all(_are_affine(store.indices) and _is_element_wise(store.value) for store in stores)


def _is_element_wise(found: Expression) -> bool:
    if found.dtype not in FLOATS:
        return False
    if found.kind == "load":
        return _are_affine(found.operands)
    known = found.kind in _KINDS or (found.kind == "call" and found.value in _FUNCTIONS)
    return known and all(map(_is_element_wise, found.operands))


def _are_affine(indices: Sequence[Expression]) -> bool:
    return all(affine(index) is not None for index in indices)


def alike(program: OperatorProgram, calls: Sequence[Call]) -> list[list[int]]:
    """The calls of a program that is stackable by their numbers, those together that can be evaluated so."""
    found: dict[tuple[Hashable, ...], list[int]] = {}
    for number, (inputs, _) in enumerate(calls):
        found.setdefault(tuple(_kind(array) for array in inputs), []).append(number)
    given = len(calls[0][0]) if calls else 0
    own = [buffer.shape for buffer in (*program.parameters[given:], *program.temporaries)]
    own += [array.shape for array in (calls[0][0] if calls else ()) if array.size < _SHARED]
    at_once = max(1, _MOST // max(1, *map(math.prod, own)))
    return [numbers[start : start + at_once] for numbers in found.values() for start in range(0, len(numbers), at_once)]


def _kind(array: np.ndarray) -> Hashable:
    """A state of zeros, as a recurrence begins with, makes sums that are exact."""
    if array.size >= _SHARED:
        return id(array)
    return bool(array.any()), any_subnormal(array.reshape(-1), str(array.dtype))


def stacked(program: OperatorProgram, calls: Sequence[Call]) -> tuple[OperatorProgram, list[np.ndarray]]:
    """The program of calls that are `alike`, and its inputs."""
    given = len(calls[0][0])
    inputs, apart = [], {buffer.name for buffer in (*program.parameters[given:], *program.temporaries)}
    for place, buffer in enumerate(program.parameters[:given]):
        arrays = [call_inputs[place] for call_inputs, _ in calls]
        if arrays[0].size >= _SHARED:
            inputs.append(arrays[0])
        else:
            inputs.append(np.stack([array.reshape(buffer.shape) for array in arrays]))
            apart.add(buffer.name)

    count = len(calls)
    parameters, temporaries = (
        tuple(
            dataclasses.replace(buffer, shape=(count, *buffer.shape)) if buffer.name in apart else buffer
            for buffer in buffers
        )
        for buffers in (program.parameters, program.temporaries)
    )
    blocks = tuple(_of_calls(block, count, apart) for block in program.blocks)
    return dataclasses.replace(program, parameters=parameters, temporaries=temporaries, blocks=blocks), inputs


_VARIABLE = Expression("variable", "int64", (), CALL)


def _of_calls(block: Block, count: int, apart: Set[str]) -> Block:
    def loaded(found: Expression) -> Expression:
        if found.kind != "load":
            return dataclasses.replace(found, operands=tuple(map(loaded, found.operands)))
        return dataclasses.replace(found, operands=(_VARIABLE, *found.operands)) if found.value in apart else found

    def stored(statements: Sequence[object]) -> Iterator[Store]:
        for store in statements:
            assert isinstance(store, Store)
            yield Store(store.buffer, (_VARIABLE, *store.indices), loaded(store.value))

    return dataclasses.replace(
        block,
        loops=(Loop(CALL, "int64", count), *block.loops),
        axes=(Axis(CALL, "int64", count, False, _VARIABLE), *block.axes),
        first=tuple(stored(block.first)),
        body=tuple(stored(block.body)),
    )


def of_call(output: Uncertain, number: int) -> Uncertain:
    """One call's part of what a stacked program gives."""
    shape = output.value.shape[1:]
    error = None if output.error is None else output.error[number].reshape(shape)
    return Uncertain(output.value[number].reshape(shape), error)


def differ(error: np.ndarray) -> bool:
    """Whether what stacked calls stored is exact in some of them only."""
    most = error.reshape(len(error), -1).max(axis=1, initial=0.0)
    return not (~(most <= 0)).all()
