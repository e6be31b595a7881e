"""Which operators are attention: recognised by what they compute, a chain of four reductions.

Scores are a product of queries and keys; of each query the greatest is found, and the sum of their exponentials; then
values are mixed by these. What becomes of a score on the way (a scale, a soft cap, a bias, a mask), of the greatest (a
sink) and of what is mixed is kept as an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tapml.compilers.native.axes import Axes
from tapml.compilers.native.contraction import TOTAL, Contraction, factors_of, used, widened
from tapml.compilers.native.kernel import Found
from tapml.compilers.native.polynomials import Indices, Polynomial, number
from tapml.compilers.native.stages import Index, Numbering, Stage, loads, rewritten, substituted, variable, variables_of
from tapml.operators.program import FLOATS, Expression

HIGHEST, SUM, MIXED = "highest", "sum", "mixed"
"""Variables of an `Attended`: of a row the greatest score, the sum of weights, and the sum of weighted values."""

_NOWHERE = -1e29
"""A score that is below it has no weight."""


@dataclass(frozen=True)
class Attended:
    """With weights w = exp(score - `base`) over the keys of a row, SUM is the sum of w, and MIXED that of w * `value`.

    `scores` is the product whose sum is TOTAL in `score`: its columns are the keys, one axis. `base` and `finish`,
    which is stored where `stored` reads, know HIGHEST, the greatest score of the row.
    """

    scores: Contraction
    score: Expression
    value: Expression
    width: tuple[Index, ...]
    base: Expression
    finish: Expression
    stored: Expression
    first: tuple[Polynomial, ...]
    """Of the keys that a row sees: none before the greatest of these,"""
    last: tuple[Polynomial, ...]
    """none behind the least of these."""
    halved: bool
    """Whether the program has weights in float16."""

    @property
    def key(self) -> Index:
        return self.scores.columns[0]


@dataclass(frozen=True)
class _Chain:
    scores: Stage
    highest: Stage
    total: Stage
    mixed: Stage
    end: Stage | None


def attended(found: Found, indices: Indices) -> Attended | None:
    """What an operator of one output computes, where that is attention. `indices` come to know its axes."""
    chain = _chain(found)
    if chain is None:
        return None
    scores, key = chain.scores, ""
    factors = factors_of(scores.value)
    of_highest = _renamed(chain.highest, scores, found)
    of_total, of_mixed = (_renamed(stage, scores, found) for stage in (chain.total, chain.mixed))
    if factors is None or of_highest is None or of_total is None or of_mixed is None:
        return None
    key = of_highest.reduction[0].variable
    if any([index.variable for index in stage.reduction] != [key] for stage in (of_highest, of_total, of_mixed)):
        return None
    known = {
        scores.buffer: (scores.indices, variable(TOTAL, scores.value.dtype)),
        chain.highest.buffer: (of_highest.indices, variable(HIGHEST, chain.highest.value.dtype)),
        chain.total.buffer: (of_total.indices, variable(SUM, chain.total.value.dtype)),
        chain.mixed.buffer: (of_mixed.indices, variable(MIXED, chain.mixed.value.dtype)),
    }
    score, weight, mixed = (_with(stage.value, known) for stage in (of_highest, of_total, of_mixed))
    base = _base(weight, score)
    if base is None or variables_of(base) & {TOTAL, key}:
        return None
    value = _valued(mixed, weight)
    if value is None or variables_of(value[0]) & {TOTAL, HIGHEST, SUM, MIXED}:
        return None
    end = _end(chain, of_mixed, known, found)
    if end is None:
        return None
    finish, stored = end
    if value[1] is not None:
        # What is mixed is divided by the sum in the end, not each weight before it.
        dtype = chain.mixed.value.dtype
        # Weights of float16 may be mixed in float32.
        divisor = value[1] if value[1].dtype == dtype else Expression("cast", dtype, (value[1],))
        divided = Expression("div", dtype, (variable(MIXED, dtype), divisor))
        finish = substituted(finish, {MIXED: divided})
    roots = *factors, widened(value[0]), score, base, finish, stored
    return _arranged(found, indices, scores, key, of_mixed, roots, value[2])


def _chain(found: Found) -> _Chain | None:
    stages = [stage for stage in found.stages if stage.combine]
    ends = [stage for stage in found.stages if not stage.combine]
    if [stage.combine for stage in stages] != ["add", "max", "add", "add"] or len(ends) > 1 or len(found.outputs) != 1:
        return None
    if any(stage.value.dtype not in ("float32", "float16") for stage in stages):
        return None
    starts = [float(stage.start.value or 0) if _constant(stage.start) else None for stage in stages]
    scores, highest, *sums = stages
    if starts[0] != 0 or starts[2:] != [0, 0] or starts[1] is None or starts[1] > -65504:
        return None
    if any(len(stage.reduction) != 1 for stage in (highest, *sums)):
        return None
    # Of what is mixed there is an element for each column, too.
    total, mixed = sorted(sums, key=lambda stage: len(found.buffers[stage.buffer].shape))
    return _Chain(scores, highest, total, mixed, ends[0] if ends else None)


def _constant(found: Expression | None) -> TypeGuard[Expression]:
    return found is not None and found.kind == "constant"


def _renamed(stage: Stage, scores: Stage, found: Found) -> Stage | None:
    """With the variables of the scores that it reads, all of them in one place."""
    reads = [load for load in loads(stage.value) if load.value == scores.buffer]
    numbers = Numbering()
    if len({numbers(load) for load in reads}) != 1:
        return None
    names: dict[str, str] = {}
    for index, own in zip(reads[0].operands, scores.indices, strict=True):
        if index.kind == own.kind == "variable" and str(index.value) not in names:
            names[str(index.value)] = str(own.value)
        elif index.kind != "constant" or own.kind != "constant":
            return None
    values = {old: variable(new) for old, new in names.items()}

    def renamed(axes: Sequence[Index]) -> tuple[Index, ...]:
        return tuple(Index(names.get(axis.variable, axis.variable), axis.extent) for axis in axes)

    return Stage(
        stage.buffer,
        renamed(stage.spatial),
        tuple(substituted(index, values) for index in stage.indices),
        substituted(stage.value, values),
        renamed(stage.reduction),
        stage.combine,
        stage.start,
    )


def _with(root: Expression, known: Mapping[str, tuple[Sequence[Expression], Expression]]) -> Expression:
    """With variables in place of loads of one element each; loads of others stay."""
    numbers = Numbering()

    def change(load: Expression) -> Expression | None:
        if load.kind != "load" or str(load.value) not in known:
            return None
        place, made = known[str(load.value)]
        return made if [*map(numbers, load.operands)] == [*map(numbers, place)] else None

    return rewritten(root, change)


def _plain(found: Expression) -> Expression:
    """Without casts between floats."""
    while found.kind == "cast" and found.dtype in FLOATS and found.operands[0].dtype in FLOATS:
        found = found.operands[0]
    return found


def _base(weight: Expression, score: Expression) -> Expression | None:
    """What a weight is an exponential of, less the score."""
    power = _plain(weight)
    if power.kind != "call" or power.value != "exp":
        return None
    difference = _plain(power.operands[0])
    numbers = Numbering()
    if difference.kind != "sub" or numbers(_plain(difference.operands[0])) != numbers(_plain(score)):
        return None
    return difference.operands[1]


def _valued(mixed: Expression, weight: Expression) -> tuple[Expression, Expression | None, bool] | None:
    """The value of a term that is a weight times a value, what each weight is divided by, and whether weights are in
    float16."""
    mixed = _plain(mixed)
    if mixed.kind != "mul":
        return None
    numbers = Numbering()
    for weighted, value in (mixed.operands, mixed.operands[::-1]):
        divided = _plain(weighted)
        divisor = None
        if divided.kind == "div":
            divided, divisor = _plain(divided.operands[0]), divided.operands[1]
        if numbers(divided) == numbers(_plain(weight)):
            return value, divisor, _halved(weighted)
    return None


def _halved(found: Expression) -> bool:
    while found.dtype != "float16":
        if found.kind != "cast" or found.operands[0].dtype not in FLOATS:
            return False
        (found,) = found.operands
    return True


def _end(
    chain: _Chain, mixed: Stage, known: Mapping[str, tuple[Sequence[Expression], Expression]], found: Found
) -> tuple[Expression, Expression] | None:
    """What is stored, and a load of where, in the axes of what is mixed."""
    buffer = chain.end.buffer if chain.end else mixed.buffer
    dtype = found.buffers[buffer].dtype
    if chain.end is None:
        return known[mixed.buffer][1], Expression("load", dtype, mixed.indices, buffer)
    reads = [load for load in loads(chain.end.value) if load.value == mixed.buffer]
    numbers = Numbering()
    if len({numbers(load) for load in reads}) != 1:
        return None
    values: dict[str, Expression] = {}
    for index, own in zip(reads[0].operands, mixed.indices, strict=True):
        if index.kind == own.kind == "variable" and str(index.value) not in values:
            values[str(index.value)] = own
        elif index.kind != "constant" or own.kind != "constant":
            return None
    finish = _with(substituted(chain.end.value, values), known)
    buffers = known.keys()
    if any(load.value in buffers for load in loads(finish)):
        return None
    return finish, Expression("load", dtype, tuple(substituted(i, values) for i in chain.end.indices), buffer)


def _arranged(
    found: Found, indices: Indices, scores: Stage, key: str, mixed: Stage, roots: Sequence[Expression], halved: bool
) -> Attended | None:
    """In axes that are each of one kind: batch, rows, the keys, columns of values."""
    every = {axis.variable: axis for axis in (*scores.spatial, *mixed.spatial)}
    for axis in every.values():
        indices.declare(axis.variable, axis.extent)
    ordered = [axis for axis in mixed.spatial if axis.variable != key]
    rest = [axis for axis in every.values() if axis not in ordered and axis.variable != key]
    axes = Axes(indices, [*rest, *ordered, every[key]], roots, found.buffers)
    axes.arrange()
    left, right, value, score, base, finish, stored = axes.roots
    if every[key] not in axes.axes:
        return None
    queries, keys, values = (used(found, indices, factor) for factor in (left, right, value))
    groups: dict[str, list[Index]] = {"batch": [], "rows": [], "width": []}
    scored = used(found, indices, score) | used(found, indices, base)
    for axis in axes.axes:
        name = axis.variable
        if name == key:
            continue
        if name in values and name not in queries | keys | scored:
            groups["width"].append(axis)
        else:
            groups["batch" if name in keys | values else "rows"].append(axis)
    if key in queries or key not in keys or key not in values or used(found, indices, base) & {key}:
        return None
    if not groups["width"] or not isinstance(indices.size(mixed.reduction[0].extent), Polynomial):
        return None
    product = Contraction(
        axes=tuple(axes.axes),
        batch=tuple(groups["batch"]),
        rows=tuple(groups["rows"]),
        columns=(every[key],),
        inner=scores.reduction,
        left=left,
        right=right,
        dtype=scores.value.dtype,
        finish=score,
        stored=stored,
    )
    first, last = _seen(indices, score, key)
    return Attended(product, score, value, tuple(groups["width"]), base, finish, stored, first, last, halved)


def _seen(indices: Indices, score: Expression, key: str) -> tuple[tuple[Polynomial, ...], tuple[Polynomial, ...]]:
    """Between which keys a score is anything, as far as a mask says so by comparing the key's place."""
    first: list[Polynomial] = []
    last: list[Polynomial] = []
    score = _plain(score)
    if score.kind not in ("select", "if_then_else"):
        return (), ()
    condition, _, nowhere = score.operands
    if nowhere.kind != "constant" or not float(nowhere.value or 0) <= _NOWHERE:
        return (), ()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.kind == "and":
            waiting += part.operands
        if part.kind not in ("le", "lt", "ge", "gt") or part.operands[0].dtype not in ("int32", "int64"):
            continue
        low, high = part.operands if part.kind in ("le", "lt") else part.operands[::-1]
        # low + gap <= high
        apart = indices(high) - indices(low) - number(0 if part.kind in ("le", "ge") else 1)
        step, rest = apart.coefficient(key), apart.without(key)
        if step is None or step.constant not in (1, -1) or indices.depends(rest, key):
            continue
        if step.constant == -1:
            last.append(rest)
        else:
            first.append(rest * number(-1))
    return tuple(first), tuple(last)
