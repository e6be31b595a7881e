"""What rounding makes of a model's outputs on the reference platform: runs in which every operator rounds otherwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tapml.carving.approximated import approximated
from tapml.carving.runs import ReferenceRun, Run
from tapml.compare.tolerance import UNIT
from tapml.importing.model import Array
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import Numerics, numerics
from tapml.operators.program import FLOATS, OperatorProgram
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind

_UNKNOWN = 16.0
"""Units that an operator may be off by where nobody knows how it computes."""

_OF_BUILTIN = 4.0

_AT_STEPS = 2.0**-17
"""Relatively, what is given to operators that round to whole numbers is moved by: few numbers lie so near to a step
that rounding alone takes them over it, and few runs would show none of them."""

_STEPS = ("round", "floor", "ceil", "trunc", "nearbyint", "rint")

_MOST = 2.0**-5
"""What an element is moved by at most, relatively, whatever its dtype."""

_AT_ONCE = 1 << 16
"""Elements: weights are large, and so would be what comes between them and what they are moved to."""


def moved_by_rounding(
    reference: ReferenceRun,
    runs: Sequence[Run],
    models: Mapping[Graph, Model],
    after: Callable[[Run, Node, Values], None] | None = None,
) -> Iterator[list[list[Array]]]:
    """Without end: the outputs of each of `runs` where every operator that rounds is given inputs that are off by as
    many units in the last place as it may be off by itself, or by what rounding made of them where they were computed
    at import; after the first also where functions are no better than they are approximated, long sums are in float64,
    and numbers that are rounded to whole ones come out as the next one now and then. `models` by graph of a step;
    `after` is told of each node that was run, with the values that there are then."""
    units = {name: _units(program) for name, program in reference.programs.items()}
    random = np.random.default_rng(2)
    platform = reference.platform
    steps = {name for name, program in reference.programs.items() if _steps(program)}
    stepping: frozenset[str] = frozenset()
    coarse: frozenset[str] = frozenset()
    approximating: Reference | None = None

    def rounded(graph: Graph, node: Node, values: Values) -> None:
        if node.kind is NodeKind.VIEW or not units[node.kernel]:
            platform.run_node(graph, node, values)
            return
        # A graph's values are what was computed: only what the operator reads of them is off.
        inputs, others = {}, reference.otherwise(node.inputs, number)
        for value in node.inputs:
            array = to_numpy(others.get(value, values[value]), graph.values[value].type.dtype)
            off = units[node.kernel]
            if node.kernel in stepping and (own := UNIT.get(str(array.dtype))) is not None:
                off = max(off, _AT_STEPS / own)
            inputs[value] = platform.tensor(off_by(array, off, random, reference.model.unit))
        runs_it = approximating if approximating is not None and node.kernel in coarse else platform
        runs_it.run_node(graph, node, inputs)
        values.update((value, inputs[value]) for value in node.outputs)

    for number in itertools.count():  # noqa: B007  # `rounded` reads it
        yield reference.again(runs, instead=rounded, after=after)
        stepping = frozenset(steps)
        if not coarse:  # built once a first run does not do
            coarse, approximating = approximated(models, platform.platform)


def off_by(array: Array, units: float, random: np.random.Generator, unit: float | None = None) -> Array:
    """Every finite floating-point element moved up or down at random, by `units` in the last place; `unit` is that of 1
    where it is more than the dtype's own."""
    own = UNIT.get(str(array.dtype))
    if own is None:
        return array
    bits = np.unpackbits(np.frombuffer(random.bytes(-(-array.size // 8)), np.uint8), count=array.size)
    share = np.float32(min(units * max(own, unit or 0.0), _MOST))
    moved = np.empty(array.shape, array.dtype)
    into, given = moved.reshape(-1), array.reshape(-1)
    for start in range(0, given.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        values = given[part].astype(np.float32, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            found = (values + values * (share * (2 * bits[part].astype(np.float32) - 1))).astype(array.dtype)
        into[part] = np.where(np.isfinite(found), found, given[part])
    return moved


def _steps(program: OperatorProgram | External) -> bool:
    """Whether it rounds numbers to whole ones, and gives integers."""
    if not isinstance(program, OperatorProgram):
        return False
    parts = [found for block in program.blocks for found in block.expressions]
    rounds = any(found.kind == "call" and found.value in _STEPS for found in parts)
    return rounds and any(
        found.kind == "cast" and found.dtype not in FLOATS and found.operands[0].dtype in FLOATS for found in parts
    )


def _units(program: OperatorProgram | External) -> float:
    if isinstance(program, External):
        return _UNKNOWN
    found: Numerics = numerics(program)
    if found.exact:
        return 0.0
    return 1.0 + found.operations + _OF_BUILTIN * len(found.builtins) + math.sqrt(found.accumulation_length)
