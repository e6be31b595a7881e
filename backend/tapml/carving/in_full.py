"""Whether rounding explains a difference, of all elements: who is accused was looked at so."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapml.bounds import NotDerivable
from tapml.carving.approximated import approximated
from tapml.carving.explained import Explained, finite, steps_explained
from tapml.carving.grouped import Group, terms
from tapml.carving.paired import without_fill
from tapml.carving.rounding import off_by
from tapml.carving.runs import ReferenceRun
from tapml.carving.sampled import COARSELY, TIMES, as_stored, in_float64
from tapml.compare.elements import errors
from tapml.importing.model import Array
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import numerics
from tapml.operators.program import OperatorProgram
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind

_MOVED = 3
"""Runs on the reference platform whose operators are given inputs that are off, and in float64 with roundings."""
_ROUNDED = 6
_PLAIN = 64.0
"""Units that a tensor differs by at most where the runs with other inputs are enough: they may exaggerate."""
_TINY = 1e-300
_MOST_TURNS = 2**33
"""Of loops in float64, in all runs together: what takes longer is only moved at its inputs."""
_MOST_STEPS = 2**12
_UNKNOWN = 16.0
"""Units that an operator may be off by where nobody knows how it computes."""


@dataclass(frozen=True)
class Called:
    """A group of operators that was run: `values` are what it was given, and what its nodes gave."""

    model: Model
    graph: Graph
    group: Group
    values: Values
    reference: ReferenceRun

    def array(self, value: str) -> Array:
        return to_numpy(self.values[value], self.graph.values[value].type.dtype)

    def given(self, seed: int | None) -> Values:
        """What the group was given, for a run with roundings of `seed`: what was computed rounds as well."""
        inputs = self.group.inputs
        others = {} if seed is None else self.reference.otherwise(inputs, seed)
        return {value: others.get(value, self.values[value]) for value in inputs}

    def again(
        self, platform: Callable[[Node], Reference], changed: Callable[[Node, Array], Array], seed: int | None = None
    ) -> Array:
        """The group's value where its nodes are run on other platforms and inputs."""
        found = self.given(seed)
        for node in self.group.nodes:
            runs_it, inputs = platform(node), {value: found[value] for value in node.inputs}
            if node.kind is NodeKind.KERNEL:
                dtypes = {value: self.graph.values[value].type.dtype for value in node.inputs}
                inputs = {
                    value: runs_it.tensor(changed(node, to_numpy(tensor, dtypes[value])))
                    for value, tensor in inputs.items()
                }
            runs_it.run_node(self.graph, node, inputs)
            found.update((value, inputs[value]) for value in node.outputs)
        return to_numpy(found[self.group.value], self.graph.values[self.group.value].type.dtype)

    def runs_in_float64(self, count: int) -> int:
        """How many runs with roundings there is time for, up to `count`. Raises NotDerivable where they are too few."""
        programs = [self.model.programs[kernel] for kernel in self.group.kernels]
        turns, steps = 0, 0
        for program in programs:
            if not isinstance(program, OperatorProgram):
                raise NotDerivable("an operator that is computed elsewhere")
            turns += program.turns
            in_order = (block for block in program.blocks if block.sequential)
            steps += sum(math.prod(axis.extent for axis in block.axes if axis.reduction) for block in in_order)
        count = min(count, _MOST_TURNS // max(turns, 1) - 1, _MOST_STEPS // max(steps, 1) - 1)
        if count < 2:
            raise NotDerivable("an operator that takes too long")
        return count

    def in_float64(self, count: int) -> Iterator[Array]:
        """The group's exact value, and then as rounding makes it, so many times. Raises NotDerivable."""
        for number in range(count + 1):
            yield self._in_float64(None if number == 0 else number)

    def _in_float64(self, seed: int | None) -> Array:
        given, types_of = self.given(seed), self.graph.values
        found = {value: to_numpy(tensor, types_of[value].type.dtype) for value, tensor in given.items()}
        for node in self.group.nodes:
            inputs = [found[value] for value in node.inputs]
            types = [self.graph.values[value].type for value in node.outputs]
            if node.kind is NodeKind.VIEW:
                found[node.outputs[0]] = inputs[0].reshape(types[0].shape)
                continue
            program = self.model.programs[node.kernel]
            assert isinstance(program, OperatorProgram)
            for value, output, kind in zip(node.outputs, in_float64(program, inputs, seed), types, strict=True):
                found[value] = as_stored(np.broadcast_to(output, kind.shape), kind.dtype, seed)
        return found[self.group.value]


class InFull:
    """Holds groups of operators against what the oracle gives."""

    def __init__(self, reference: ReferenceRun, models: Mapping[Graph, Model]) -> None:
        """`models` by graph of a step."""
        self._reference = reference
        self._models = models

    def unexplained(self, called: Called, wanted: Array, unit: float) -> str:
        """Why rounding does not explain that a group gives something else than `wanted`; empty where it does."""
        got = without_fill(called.array(called.group.value))
        error = errors(got, wanted)
        if unit == 0.0 or got.dtype.kind in "biu":
            moved = (errors(without_fill(found), got) for found in self._moved(called))
            if steps_explained(error, moved) or steps_explained(error, _rounded(called)):
                return ""
            return "more elements differ than rounding explains"
        explained = Explained(wanted, _MOVED, unit, jumps=called.group.jumps(called.model))
        plain = float(np.sqrt(np.mean(finite(error) ** 2) / max(explained.mean_square, _TINY))) <= _PLAIN * unit
        # What is off by how much is computed where it is needed: in float64 it takes twice as much.
        others: list[Array] = []
        if plain and explained.times(error) <= 1:
            return ""
        for found in self._moved(called):
            others.append(found)
            explained.add(errors(without_fill(found), got))
            if plain and explained.times(error) <= 1:
                return ""
        aside = self._approximated(called, got)
        error = np.maximum(error - aside, 0)
        if plain and aside.ndim and explained.times(error) <= 1:
            return ""
        try:
            times = self._times_in_float64(called, wanted, got, aside, others, explained)
        except NotDerivable:
            # What sums in another order is off by does not show at the inputs.
            order = 0.35 * math.sqrt(max(terms(called.model.programs[kernel]) for kernel in called.group.kernels))
            explained = explained.anew(_MOVED + 1)
            for found in others:
                explained.add(errors(without_fill(found), got))
            explained.add(order * unit * explained.size)
            times = explained.times(error) / 2
        return "" if times <= TIMES else f"{times:.3g} x what rounding explains"

    def _times_in_float64(
        self, called: Called, wanted: Array, got: Array, aside: Array, others: Sequence[Array], explained: Explained
    ) -> float:
        """How many times what rounding explains the differences are, by as many runs with roundings as it takes to
        explain them. Raises NotDerivable."""
        count = called.runs_in_float64(_ROUNDED)
        runs = (without_fill(found, got.dtype) for found in called.in_float64(count))
        base = next(runs)
        base = np.where(np.isfinite(base), base, wanted)
        theirs, ours = (np.maximum(errors(array, base) - aside, 0) for array in (wanted, got))
        simulated, either = explained.anew(count), explained.anew(count + _MOVED)
        for found in others:
            either.add(errors(without_fill(found), got))
        times = math.inf
        for run in runs:
            moved = errors(run, base)
            simulated.add(moved)
            either.add(moved)
            # The reference platform's own result is what is carved.
            times = max(simulated.times(theirs), either.times(ours) / 4)
            if times <= TIMES:
                break
        return times

    def _moved(self, called: Called) -> Iterator[Array]:
        """The value where each operator's inputs are off by about what its own rounding makes."""
        for number in range(_MOVED):
            random = np.random.default_rng(number)

            def off(node: Node, array: Array, random: np.random.Generator = random) -> Array:
                units = _units(called.model.programs[node.kernel])
                found = off_by(array, units, random, self._reference.model.unit)
                # Masks and counts are what they are: 1 - mask, times a large number, would be anything.
                return np.where(array == np.rint(array), array, found) if array.dtype.kind == "f" else found

            yield called.again(lambda _: self._reference.platform, off, number)

    def _approximated(self, called: Called, got: Array) -> Array:
        """By how much the value may be off where functions are as exact as 1 is, and no more, and by long sums."""
        coarse, other = self._coarse
        if other is None or not coarse.intersection(called.group.kernels):
            return np.zeros(())
        platform = self._reference.platform
        found = called.again(lambda node: other if node.kernel in coarse else platform, lambda _, array: array)
        return COARSELY * finite(errors(found, got))

    @functools.cached_property
    def _coarse(self) -> tuple[frozenset[str], Reference | None]:
        return approximated(self._models, self._reference.platform.platform, evenly=True)


def _rounded(called: Called) -> list[Array]:
    try:
        exact, *runs = called.in_float64(called.runs_in_float64(_ROUNDED))
    except NotDerivable:
        return []
    return [errors(found, exact) for found in runs]


def _units(program: OperatorProgram | External) -> float:
    """Of its inputs, that about as much comes of as of its own rounding."""
    if not isinstance(program, OperatorProgram):
        return _UNKNOWN
    found = numerics(program)
    if found.exact:
        return 0.0
    return 0.5 + 0.5 * math.sqrt(found.operations + len(found.builtins)) + 0.15 * math.sqrt(found.accumulation_length)
