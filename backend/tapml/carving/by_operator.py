"""Each operator held against the oracle's own values: given the oracle's inputs, it must give the oracle's outputs.

Over a whole model rounding adds up, and a constant that is wrong in its fourth digit is less than that. Of one operator
rounding makes little, and what it makes can be simulated. Where the oracle gives nothing between operators of ours
they are held against it together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapml.bounds import NotDerivable, rounded
from tapml.carving.approximated import approximated
from tapml.carving.explained import Explained, finite, steps_explained
from tapml.carving.grouped import Group, groups, terms
from tapml.carving.paired import Paired, near, paired, without_fill
from tapml.carving.rounding import off_by
from tapml.carving.runs import ReferenceRun, Run
from tapml.compare.elements import errors
from tapml.compare.tolerance import UNIT
from tapml.importing.model import Array
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import numerics
from tapml.operators.program import FLOATS, OperatorProgram
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind

TIMES = 4.0
"""From here on rounding explains a difference no longer."""

_MOST_TOGETHER = 16
"""Operators that are held together: of more, rounding may hide what one does, and it takes long to say."""

_APPROXIMATED = 2.0
"""Units in the last place of 1 that functions may be off by which are no better than that."""

_MOVED = 3
"""Runs on the reference platform whose operators are given inputs that are off, and in float64 with roundings."""
_PLAIN = 64.0
"""Units that a tensor differs by at most where the runs with other inputs are enough: they may exaggerate."""
_TINY = 1e-300
_ROUNDED = 6
_MOST_TURNS = 2**33
"""Of loops in float64, in all runs together: what takes longer is only moved at its inputs."""
_MOST_STEPS = 2**12
_UNKNOWN = 16.0
"""Units that an operator may be off by where nobody knows how it computes."""


@dataclass
class Held:
    """`operators`: calls that were held against the oracle's own values, of `of` that there are. `wrong`: a sentence
    for each kernel or group of them that differs by more than rounding explains, by their names."""

    operators: int = 0
    of: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    unclear: bool = False
    """Operators were held together that may be what the oracle has values between, others than theirs."""


class ByOperator:
    """Holds the operators of runs against an oracle's values."""

    def __init__(self, reference: ReferenceRun, models: Mapping[Graph, Model], oracle: str) -> None:
        """`models` by graph of a step."""
        self._reference = reference
        self._models = models
        self._oracle = oracle
        self._coarse, self._approximating = approximated(models, reference.platform.platform, evenly=True)

    def held(
        self, runs: Sequence[Run], values: Sequence[Mapping[str, Array]], *, choosing_together: bool = True
    ) -> Held:
        """`values`: the oracle's, of each run, by what they are for people. Without `choosing_together` several
        operators of which one chooses may give what they like: of equals, in the order of a sort, any comes first."""
        found = Held()
        for run, own in zip(runs, values, strict=True):
            pairs = paired(run, own, self._reference.model.outputs)
            judged: set[str] = set()
            found.unclear = found.unclear or _unclear(run, pairs, own)
            for group, said in self._judged(run, pairs):
                judged |= {node.id for node in group.nodes if node.kind is NodeKind.KERNEL}
                alone = len(group.kernels) == 1 or not group.jumps(self._models[run.graph])
                if said and (choosing_together or alone):
                    found.wrong.setdefault(" + ".join(group.kernels), said)
            found.operators += len(judged)
            found.of += len(run.graph.kernel_nodes)
        return found

    def _judged(self, run: Run, pairs: dict[str, Paired]) -> Iterator[tuple[Group, str]]:
        """Each group of few operators, and what is wrong with it. Values are forgotten once nothing needs them."""
        graph, platform = run.graph, self._reference.platform
        planned = groups(graph, pairs)
        places = {node.id: place for place, node in enumerate(graph.nodes)}
        last = {value: places[node.id] for node in graph.nodes for value in (*node.outputs, *node.inputs)}
        for group in planned:
            for value in (*group.inputs, *(v for node in group.nodes for v in node.outputs)):
                last[value] = max(last[value], places[group.nodes[-1].id])
        of_node: dict[str, list[Group]] = {}
        for group in planned:
            of_node.setdefault(group.nodes[-1].id, []).append(group)
        leaving: dict[int, list[str]] = {}
        for value, place in last.items():
            leaving.setdefault(place, []).append(value)
        inputs = {value: run.arrays[value] for value in graph.inputs}
        values: Values = {**self._reference.weights, **platform.values(inputs)}
        for place, node in enumerate(graph.nodes):
            platform.run_node(graph, node, values)
            own = _Values(self._models[graph], graph, values)
            for group in of_node.get(node.id, ()):
                if len(group.kernels) <= _MOST_TOGETHER:
                    yield group, self._wrong(group, own, pairs[group.value])
            for group in of_node.get(node.id, ()):
                values[group.value] = platform.tensor(pairs.pop(group.value).array)
            for value in leaving.get(place, ()):
                values.pop(value, None)

    def _wrong(self, group: Group, own: _Values, pair: Paired) -> str:
        """What is wrong with a group whose nodes have run on the values that it is given; empty where nothing is."""
        got, wanted = without_fill(own.array(group.value)), without_fill(pair.array)
        error = errors(got, wanted)
        unit = max(UNIT.get(str(got.dtype), 0.0), self._reference.model.unit or 0.0)
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0).astype(np.float64))
        if not (error > unit * size).any():
            return ""
        moved = [errors(without_fill(found), got) for found in self._moved(group, own)]
        if unit == 0.0 or got.dtype.kind in "biu":
            if steps_explained(error, moved) or steps_explained(error, self._rounded(group, own)):
                return ""
            return self._said(group, pair, got, error, "more elements differ than rounding explains")
        jumps, aside = group.jumps(own.model), self._approximated(group, own, got)
        times = Explained(wanted, moved, unit, jumps=jumps).times(np.maximum(error - aside, 0))
        away = float(np.sqrt(np.mean(finite(error) ** 2) / max(float(np.mean(size**2)), _TINY)))
        if times <= 1 and away <= _PLAIN * unit:
            return ""
        try:
            exact, *runs = (without_fill(found, got.dtype) for found in own.in_float64(group, _ROUNDED))
        except NotDerivable:
            # What sums in another order is off by does not show at the inputs.
            order = 0.35 * math.sqrt(max(terms(own.model.programs[kernel]) for kernel in group.kernels))
            floor = [*moved, order * unit * size]
            times = Explained(wanted, floor, unit, jumps=jumps).times(np.maximum(error - aside, 0)) / 2
        else:
            base = np.where(np.isfinite(exact), exact, wanted)
            simulated = [errors(found, base) for found in runs]
            away = np.maximum(errors(wanted, base) - aside, 0)
            times = Explained(wanted, simulated, unit, jumps=jumps).times(away)
            # The reference platform's own result is what is carved.
            either = [*simulated, *moved]
            times = max(times, Explained(wanted, either, unit, jumps=jumps).times(errors(got, base)) / 4)
        if times <= TIMES:
            return ""
        return self._said(group, pair, got, error, f"{times:.3g} x what rounding explains")

    def _said(self, group: Group, pair: Paired, got: Array, error: Array, why: str) -> str:
        at = np.unravel_index(int(np.argmax(error)), got.shape)
        element = [int(index) for index in at]
        mine, theirs = f"{got[at].item():.7g}", f"{pair.array[at].item():.7g}"
        what = " and ".join(dict.fromkeys(group.kernels)) if len(group.kernels) < 4 else f"{len(group.kernels)} kernels"
        return (
            f"given {self._oracle}'s own inputs, {what} (node {group.nodes[-1].id}) gives something else for "
            f"{pair.said}: element {element} is {mine}, and {self._oracle} gives {theirs} ({why})"
        )

    def _moved(self, group: Group, own: _Values) -> list[Array]:
        """Its value where each operator's inputs are off by about what its own rounding makes."""
        found = []
        for number in range(_MOVED):
            random = np.random.default_rng(number)

            def off(node: Node, array: Array, random: np.random.Generator = random) -> Array:
                found = off_by(array, _units(own.model.programs[node.kernel]), random, self._reference.model.unit)
                # Masks and counts are what they are: 1 - mask, times a large number, would be anything.
                return np.where(array == np.rint(array), array, found) if array.dtype.kind == "f" else found

            found.append(own.again(group, lambda _: self._reference.platform, off))
        return found

    def _approximated(self, group: Group, own: _Values, got: Array) -> Array:
        """By how much its value may be off where functions are as exact as 1 is, and no more."""
        other, platform = self._approximating, self._reference.platform
        if other is None or not self._coarse.intersection(group.kernels):
            return np.zeros(())
        found = own.again(
            group, lambda node: other if node.kernel in self._coarse else platform, lambda _, array: array
        )
        return _APPROXIMATED * finite(errors(found, got))

    def _rounded(self, group: Group, own: _Values) -> list[Array]:
        try:
            exact, *runs = own.in_float64(group, _ROUNDED)
        except NotDerivable:
            return []
        return [errors(found, exact) for found in runs]


@dataclass(frozen=True)
class _Values:
    """What a graph's values are now."""

    model: Model
    graph: Graph
    values: Values

    def array(self, value: str) -> Array:
        return to_numpy(self.values[value], self.graph.values[value].type.dtype)

    def again(
        self, group: Group, platform: Callable[[Node], Reference], changed: Callable[[Node, Array], Array]
    ) -> Array:
        """A group's value where its nodes are run on other platforms and inputs."""
        found: Values = {value: self.values[value] for value in group.inputs}
        for node in group.nodes:
            runs_it, inputs = platform(node), {value: found[value] for value in node.inputs}
            if node.kind is NodeKind.KERNEL:
                dtypes = {value: self.graph.values[value].type.dtype for value in node.inputs}
                inputs = {
                    value: runs_it.tensor(changed(node, to_numpy(tensor, dtypes[value])))
                    for value, tensor in inputs.items()
                }
            runs_it.run_node(self.graph, node, inputs)
            found.update((value, inputs[value]) for value in node.outputs)
        return to_numpy(found[group.value], self.graph.values[group.value].type.dtype)

    def in_float64(self, group: Group, count: int) -> list[Array]:
        """A group's exact value, and as rounding makes it, up to so many times. Raises NotDerivable."""
        programs = [self.model.programs[kernel] for kernel in group.kernels]
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
        return [self._in_float64(group, None if number == 0 else number) for number in range(count + 1)]

    def _in_float64(self, group: Group, seed: int | None) -> Array:
        found = {value: self.array(value) for value in group.inputs}
        for node in group.nodes:
            inputs = [found[value] for value in node.inputs]
            types = [self.graph.values[value].type for value in node.outputs]
            if node.kind is NodeKind.VIEW:
                found[node.outputs[0]] = inputs[0].reshape(types[0].shape)
                continue
            program = self.model.programs[node.kernel]
            assert isinstance(program, OperatorProgram)
            try:
                outputs = rounded(program, inputs, seed)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError) as error:
                raise NotDerivable(f"{type(error).__name__}: {error}") from error
            for value, output, kind in zip(node.outputs, outputs, types, strict=True):
                array = np.broadcast_to(output, kind.shape)
                if seed is not None and kind.dtype in FLOATS:
                    with np.errstate(over="ignore"):
                        array = array.astype(kind.dtype)
                found[value] = array
        return found[group.value].astype(np.float64)


def _unclear(run: Run, pairs: Mapping[str, Paired], oracle: Mapping[str, Array]) -> bool:
    """Whether the oracle has a value without a partner, in between and of the size of one of ours without a partner: if
    they are the same, ours is far off, and what is behind it may hide that (a constant in front of a softmax)."""
    order = {said: place for place, said in enumerate(oracle)}
    partners = {pair.said for pair in pairs.values()}
    known = {_digest(array) for said, array in oracle.items() if said in partners}
    known |= {_digest(run.arrays[value]) for value in run.graph.inputs}
    # A view of what has a partner has one.
    left = [
        (order[said], array)
        for said, array in oracle.items()
        if said not in partners and array.dtype.kind == "f" and array.size > 1 and _digest(array) not in known
    ]
    for group in groups(run.graph, pairs):
        inner = (value for node in group.nodes if node.kind is NodeKind.KERNEL for value in node.outputs)
        alone = [run.arrays[value] for value in inner if value != group.value]
        begin = max((order.get(pairs[value].said, -1) for value in group.inputs if value in pairs), default=-1)
        end = order.get(pairs[group.value].said, len(order))
        between = [array for place, array in left if begin < place < end]
        for own in alone:
            if any(array.shape == own.shape for array in between) and not any(near(own, array) for array in between):
                return True
    return False


def _digest(array: Array) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


def _units(program: OperatorProgram | External) -> float:
    """Of its inputs, that about as much comes of as of its own rounding."""
    if not isinstance(program, OperatorProgram):
        return _UNKNOWN
    found = numerics(program)
    if found.exact:
        return 0.0
    return 0.5 + 0.5 * math.sqrt(found.operations + len(found.builtins)) + 0.15 * math.sqrt(found.accumulation_length)
