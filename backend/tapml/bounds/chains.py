"""Sums and products of three and more numbers in one expression, which a device may compute in any order.

WGSL lets implementations reassociate, and compilers bring constants together: (x + 0.1) + 0.2 is x + 0.3 in Mesa. That
rounds where what is written does not, so it does not help a bound that each step as it is written is exact. NVIDIA's
compiler makes fma(x, 0.3, 0.03) of (x + 0.1) * 0.3, which is far off where x + 0.1 is small.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tapml.bounds import uncertain
from tapml.bounds.uncertain import FLOATS, Uncertain, ulp, unit
from tapml.operators.affine import affine
from tapml.operators.program import Block, Expression, OperatorProgram, Store

Evaluate: TypeAlias = Callable[[Expression], Uncertain]

_SUMS = ("add", "sub")
_MOST_TERMS = 8
"""Longer sums are not put together of those of several blocks: what is read twice would be computed again and again."""
_FRACTION = (1 << 52) - 1
"""Of a float64's bits: all zeros in powers of two."""


def is_arithmetic(node: Expression) -> bool:
    """Whether `evaluated` takes it."""
    return node.kind in (*_SUMS, "mul") and node.dtype in FLOATS


def evaluated(node: Expression, evaluate: Evaluate, *, walks: bool) -> Uncertain:
    """A sum, a difference or a product, whose operands are what `evaluate` gives: off by what it may be in any order.

    `walks`: roundings are independent of each other, as in a simulation (rounding.py): so many of them add up to the
    root of their number.
    """
    terms: list[Uncertain] = []
    if node.kind in _SUMS:
        found = _added(node, evaluate, terms)
        return _of_sum(found, terms, node.dtype, walks=walks) if len(terms) > 2 else found
    if walks:
        a, b = map(evaluate, node.operands)
        return distributed(node, uncertain.multiply(a, b, node.dtype))
    found = _multiplied(node, evaluate, terms)
    return _of_product(found, terms, node.dtype) if len(terms) > 2 else found


def _added(node: Expression, evaluate: Evaluate, terms: list[Uncertain]) -> Uncertain:
    """As it is written; appends what is added."""
    if node.kind in _SUMS:
        a, b = (_added(operand, evaluate, terms) for operand in node.operands)
        return uncertain.add(a, b, node.dtype, 1 if node.kind == "add" else -1)
    if (negated := _negated(node)) is not None and _is_sum(negated):
        found = _added(negated, evaluate, terms)
        return Uncertain(-found.value, found.error, found.ends and (-found.ends[1], -found.ends[0]))
    terms.append(evaluate(node))
    return terms[-1]


def _multiplied(node: Expression, evaluate: Evaluate, factors: list[Uncertain]) -> Uncertain:
    if node.kind == "mul":
        a, b = (_multiplied(operand, evaluate, factors) for operand in node.operands)
        return distributed(node, uncertain.multiply(a, b, node.dtype))
    factors.append(evaluate(node))
    return factors[-1]


def distributed(node: Expression, found: Uncertain) -> Uncertain:
    """A product or a quotient as it is written, `found`, where a device may also multiply the sum's constants by the
    factor, each rounded, and the rest of the sum by itself."""
    if (parts := _sum_and_factor(node)) is None or found.ends is not None:  # whole numbers, whose products are exact
        return found
    constants, by = [abs(one) for one in _constants(parts[0])], abs(parts[1])
    products = [one * by for one in constants]
    held = np.dtype(node.dtype).type
    with np.errstate(over="ignore"):
        exact = len(products) == 1 and float(held(products[0])) == products[0]
    if exact:
        return found
    return Uncertain(found.value, found.spread + unit(node.dtype) * sum(products))


def _sum_and_factor(node: Expression) -> tuple[Expression, float] | None:
    """A sum, some of whose terms are constants, and the constant that it is multiplied by, where that may round."""
    for place, other in ((1, 0), (0, 1)) if node.kind == "mul" else ((1, 0),) if node.kind == "div" else ():
        factor, given = node.operands[place], node.operands[other]
        if node.dtype in FLOATS and factor.kind == "constant" and factor.value and _constants(given):
            by = float(np.dtype(node.dtype).type(factor.value))
            if math.frexp(by)[0] not in (0.5, -0.5, 0.0):  # powers of two round nothing
                return given, by if node.kind == "mul" else 1.0 / by
    return None


def _constants(node: Expression) -> list[float]:
    """Those that a sum adds."""
    if node.kind not in _SUMS:
        return _constants(negated) if (negated := _negated(node)) is not None else []
    own = [float(operand.value) for operand in node.operands if operand.kind == "constant" and operand.value]
    return own + [constant for operand in node.operands for constant in _constants(operand)]


def _negated(node: Expression) -> Expression | None:
    """What TVM's negative is of."""
    for factor, other in (node.operands, node.operands[::-1]) if node.kind == "mul" else ():
        if factor.kind == "constant" and factor.value == -1:
            return other
    return None


def _is_sum(node: Expression) -> bool:
    negated = _negated(node)
    return node.kind in _SUMS or (negated is not None and _is_sum(negated))


def _of_sum(found: Uncertain, terms: Sequence[Uncertain], dtype: str, *, walks: bool) -> Uncertain:
    """One unit of the largest partial sum for each addition, as of a reduction; zeros add nothing."""
    if found.ends is not None:  # whole numbers, whose sums are exact
        return found
    with np.errstate(invalid="ignore", over="ignore"):
        size = sum(np.abs(term.value) for term in terms)
        off = sum(term.spread for term in terms)
        count = sum((term.value != 0) | (term.spread != 0) for term in terms) - 1.0
        peak = (size + np.abs(found.value)) / 2 + off
        most = (np.sqrt(np.maximum(count, 0.0)) if walks else count) * ulp(peak, dtype) + off
        if not walks:
            most = np.fmax(found.spread, most)
    counts = (count > 1) & np.isfinite(peak) & ~np.isinf(found.spread)
    exact = found.spread == 0
    if (exact & counts).any():
        exact = np.broadcast_to(exact & counts, counts.shape)
        counts = np.array(counts)
        counts[exact] = ~_exactly_in_any_order([term.value for term in terms], peak, exact, dtype)
    return Uncertain(found.value, np.where(counts, most, found.spread))


def _exactly_in_any_order(terms: Sequence[np.ndarray], peak: np.ndarray, where: np.ndarray, dtype: str) -> np.ndarray:
    """Whether no partial sum needs more digits than the dtype has, from the last digit of all terms to the largest."""
    last = np.full(int(np.count_nonzero(where)), np.inf)
    for term in terms:
        value = np.broadcast_to(term, where.shape)[where]
        fraction, exponent = np.frexp(value)
        digits = (fraction * 2.0**53).astype(np.int64)
        step = np.ldexp((digits & -digits).astype(np.float64), exponent - 53)
        np.minimum(last, np.where(value == 0, np.inf, step), out=last)
    found: np.ndarray = np.broadcast_to(peak, where.shape)[where] * unit(dtype) <= 2.0 * last
    return found


def _of_product(found: Uncertain, factors: Sequence[Uncertain], dtype: str) -> Uncertain:
    """One unit for each multiplication, also where those that are written are exact but for one. Where all are, those
    of fewer factors have fewer digits. Powers of two round nothing."""
    off = sum(factor.spread for factor in factors)
    count = sum((factor.value.view(np.int64) & _FRACTION) != 0 for factor in factors) - 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.fmax(found.spread, count * unit(dtype) * np.abs(found.value))
    counts = (count > 1) & (off == 0) & (found.spread > 0)
    return Uncertain(found.value, np.where(counts, most, found.spread)) if counts.any() else found


# ------------------------------------------------ of several blocks


def joined(program: OperatorProgram) -> OperatorProgram:
    """A program whose sums have within themselves the sums that other blocks store, and products the products, and
    the sums with constants that they multiply by one, as a kernel has them: TVM has a block for each addition. What a
    reduction reads too stays, a number of its own."""
    writers = Counter(name for block in program.blocks for name in _written(block))
    again = {name for name, count in writers.items() if count > 1}
    reduced = {name for block in program.blocks if _is_reduction(block) for name in _loads(block)}
    known: dict[str, _Made] = {}
    blocks = []
    for block in program.blocks:
        (store, *others) = block.body
        if isinstance(store, Store) and not others and not _is_reduction(block):
            value = _joined(store.value, known)
            if value is not store.value:
                block = dataclasses.replace(block, body=(dataclasses.replace(store, value=value),))
            variables = tuple(str(index.value) for index in store.indices if index.kind == "variable")
            each = len({*variables}) == len(store.indices) == len(block.axes)
            if each and store.buffer not in reduced and again.isdisjoint({store.buffer, *_loads(block)}):
                if value.kind == "load" and (moved := _inlined(value, known)) is not None:
                    value = moved
                if value.kind != "load":
                    known[store.buffer] = _Made(variables, value)
        blocks.append(block)
    if all(map(operator.is_, blocks, program.blocks)):
        return program
    return _without_unread(dataclasses.replace(program, blocks=tuple(blocks)))


class _Made(NamedTuple):
    """What a buffer holds at indices that are these variables."""

    variables: tuple[str, ...]
    value: Expression


def _is_reduction(block: Block) -> bool:
    return block.sequential or any(axis.reduction for axis in block.axes)


def _written(block: Block) -> set[str]:
    return {one.buffer for one in (*block.first, *block.body) if isinstance(one, Store)}


def _loads(block: Block) -> set[str]:
    return {str(node.value) for node in block.expressions if node.kind == "load"}


def _joined(node: Expression, known: Mapping[str, _Made]) -> Expression:
    operands = [_joined(operand, known) for operand in node.operands]
    if is_arithmetic(node) or node.kind == "div":
        for place, operand in enumerate(operands):
            made = _inlined(operand, known) if operand.kind == "load" else None
            if made is None or not _joins(node, place, made):
                continue
            others = sum(_terms(other, node.kind) for at, other in enumerate(operands) if at != place)
            if _terms(made, node.kind) + others <= _MOST_TERMS:
                operands[place] = made
    same = all(map(operator.is_, operands, node.operands))
    return node if same else dataclasses.replace(node, operands=tuple(operands))


def _joins(node: Expression, place: int, made: Expression) -> bool:
    """Whether what another block made belongs into this sum, product or quotient, as that operand."""
    if _is_sum_or_negated(node):
        return _is_sum(made)
    operands = [made if at == place else operand for at, operand in enumerate(node.operands)]
    together = _sum_and_factor(dataclasses.replace(node, operands=tuple(operands)))
    return (node.kind == "mul" and made.kind == "mul") or (together is not None and together[0] is made)


def _is_sum_or_negated(node: Expression) -> bool:
    return node.kind in _SUMS or _negated(node) is not None


def _terms(node: Expression, kind: str) -> int:
    kinds = ("mul",) if kind == "mul" and not _is_sum(node) else (*_SUMS, "mul")
    return sum(_terms(operand, kind) for operand in node.operands) if node.kind in kinds else 1


def _inlined(load: Expression, known: Mapping[str, _Made]) -> Expression | None:
    """What it loads, where that is known and its indices are sums of variables."""
    made = known.get(str(load.value))
    if made is None or any(affine(index) is None for index in load.operands):
        return None
    return _with_variables(made.value, dict(zip(made.variables, load.operands, strict=True)))


def _with_variables(node: Expression, values: Mapping[str, Expression]) -> Expression:
    if node.kind == "variable":
        return values[str(node.value)]
    return dataclasses.replace(node, operands=tuple(_with_variables(operand, values) for operand in node.operands))


def _without_unread(program: OperatorProgram) -> OperatorProgram:
    """Without the blocks whose results nobody reads any more."""
    results = {buffer.name for buffer in program.parameters}
    blocks: list[Block] = []
    for block in reversed(program.blocks):
        if any(not isinstance(one, Store) or one.buffer in results for one in block.body):
            results |= _loads(block)
            blocks.append(block)
    return dataclasses.replace(program, blocks=tuple(reversed(blocks)))
