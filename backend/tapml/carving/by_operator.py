"""Each operator held against the oracle's own values: given the oracle's inputs, it must give the oracle's outputs.

Over a whole model rounding adds up, and a constant that is wrong in its fourth digit is less than that. Of one operator
rounding makes little, and what it makes can be simulated. Where the oracle gives nothing between operators of ours
they are held against it together.

The oracle's values are gone through twice: as they come some elements of each are looked at, to find out which of ours
it is, and they go to a file; then those that operators are held against are read, each for as long as one needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tapml.carving.grouped import Group, groups
from tapml.carving.in_full import Called, InFull
from tapml.carving.paired import Paired, Seen, digest, like, near, paired, seen, without_fill
from tapml.carving.runs import ReferenceRun, Run
from tapml.carving.sampled import Sampled, worst
from tapml.carving.spill import Spill, let_go
from tapml.compare.elements import errors
from tapml.compare.tolerance import UNIT
from tapml.importing.model import Array, Intermediate
from tapml.lowering.lower import Model
from tapml.memory import Trimming
from tapml.platforms.reference import Values
from tapml.program import Graph, NodeKind

_MOST_TOGETHER = 16
"""Operators that are held together: of more, rounding may hide what one does, and it takes long to say."""

_COPIED = 64.0
"""Units that what is only moved or chosen may be off by: of values that are alike another one was moved than is taken
for it, and a wrong choice or constant shows by thousands."""


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

    def __init__(self, reference: ReferenceRun, models: Mapping[Graph, Model], oracle: str, folder: Path) -> None:
        """`models` by graph of a step; `folder` is on the disk that has room for the oracle's values meanwhile."""
        self._reference = reference
        self._models = models
        self._oracle = oracle
        self._folder = folder
        self._in_full = InFull(reference, models)

    def held(self, runs: Sequence[Run], values: Iterable[Intermediate], *, choosing_together: bool = True) -> Held:
        """`values`: the oracle's, gone through once. Without `choosing_together` several operators of which one chooses
        may give what they like: of equals, in the order of a sort, any comes first. Raises InputError where the oracle
        gives no values."""
        oracle: list[list[Seen]] = [[] for _ in runs]
        trimming = Trimming()
        came: list[Intermediate] = []
        with Spill(self._folder) as spill:
            for number, said, array in values:
                if (one := seen(said, array)) is not None:
                    oracle[number].append(one)
                    kept = spill.put(array)
                    # What is too small for the file may be an array that the oracle goes on to write to.
                    came.append((number, said, array.copy() if kept is array else kept))
                    trimming.went_through(array.nbytes)
        del values
        found = Held(of=sum(len(run.graph.kernel_nodes) for run in runs))
        waiting = []
        for number, run in enumerate(runs):
            rounds = functools.partial(Group.rounds, model=self._models[run.graph])
            pairs = paired(run, oracle[number], self._reference.model.outputs, rounds)
            before = _states_before(runs, run)
            found.unclear = found.unclear or _unclear(run, pairs.all | before, oracle[number])
            held = pairs.held | before
            waiting.append(_Waiting(run, held, groups(run.graph, held)))
        del oracle  # 16 kB of each value
        judged: set[tuple[int, str]] = set()
        for run, group, pair, given in _arriving(waiting, came):
            said = self._wrong(run, group, pair, given)
            let_go([*given.values(), run.arrays[group.value], *([] if pair.array is None else [pair.array])])
            trimming.went_through(run.arrays[group.value].nbytes)
            judged |= {(run.number, node.id) for node in group.nodes if node.kind is NodeKind.KERNEL}
            alone = len(group.kernels) == 1 or not group.jumps(self._models[run.graph])
            if said and (choosing_together or alone):
                found.wrong.setdefault(" + ".join(group.kernels), said)
        found.operators = len(judged)
        return found

    def _wrong(self, run: Run, group: Group, pair: Paired, given: Mapping[str, Array]) -> str:
        """What is wrong with a group that is `given` the oracle's values; empty where nothing is."""
        platform, graph, model = self._reference.platform, run.graph, self._models[run.graph]
        shared = self._reference.weights
        values: Values = {v: shared[v] if v in shared else platform.tensor(a) for v, a in given.items()}
        for node in group.nodes:
            platform.run_node(graph, node, values)
        called = Called(model, graph, group, values, self._reference)
        got, wanted = called.array(group.value), pair.array
        assert wanted is not None
        # Where ours is float32 until what follows rounds it, the oracle's of float16 is rounded already.
        unit = max(UNIT.get(str(got.dtype), 0.0), pair.unit, self._reference.model.unit or 0.0)
        unit = 0.0 if got.dtype.kind in "biu" else unit
        places = worst(got, wanted, _COPIED * unit if group.exact(model) else unit)
        if places is not None and Sampled(model, group, given, got, wanted, unit).explained(places):
            return ""
        why = self._in_full.unexplained(called, without_fill(wanted), unit)
        return self._said(group, pair.said, got, wanted, why) if why else ""

    def _said(self, group: Group, said: str, got: Array, wanted: Array, why: str) -> str:
        at = np.unravel_index(int(np.argmax(errors(without_fill(got), without_fill(wanted)))), got.shape)
        element = [int(index) for index in at]
        mine, theirs = f"{got[at].item():.7g}", f"{wanted[at].item():.7g}"
        what = " and ".join(dict.fromkeys(group.kernels)) if len(group.kernels) < 4 else f"{len(group.kernels)} kernels"
        return (
            f"given {self._oracle}'s own inputs, {what} (node {group.nodes[-1].id}) gives something else for "
            f"{said}: element {element} is {mine}, and {self._oracle} gives {theirs} ({why})"
        )


def _states_before(runs: Sequence[Run], run: Run) -> dict[str, Paired]:
    """The states that a run begins with, as the oracle left them in the run before."""
    left: dict[str, Array] = {}
    for before in runs:
        if before.number < run.number and before.step.expected:
            left |= before.graph.left(before.step.expected)
    begun = run.graph.begun(left)
    return {value: Paired(f"state {run.graph.values[value].name}", array) for value, array in begun.items()}


class _Waiting:
    """The groups of a run that wait for the oracle's values, and the values that groups still need."""

    def __init__(self, run: Run, pairs: Mapping[str, Paired], planned: Sequence[Group]) -> None:
        self.run = run
        self._pairs = pairs
        self._groups = [group for group in planned if len(group.kernels) <= _MOST_TOGETHER]
        self._readers: dict[str, int] = {}
        self._missing: list[set[str]] = []
        for group in self._groups:
            needed = {value for value in (group.value, *group.inputs) if value in pairs}
            self._missing.append(needed)
            for value in needed:
                self._readers[value] = self._readers.get(value, 0) + 1
        self._by_said: dict[str, list[str]] = {}
        for value in self._readers:
            if pairs[value].array is None:
                self._by_said.setdefault(pairs[value].said, []).append(value)
        self._arrays: dict[str, Array] = {}
        self._units: dict[str, float] = {}

    def known(self) -> Iterator[tuple[Group, Paired, dict[str, Array]]]:
        """The groups that wait for no value of the oracle's but what it expects of the model."""
        yield from self._ready({v: a for v in self._readers if (a := self._pairs[v].array) is not None})

    def arrived(self, said: str, array: Array) -> Iterator[tuple[Group, Paired, dict[str, Array]]]:
        """The groups that waited for this value, and for nothing else."""
        arrays = self.run.arrays
        self._units.update(dict.fromkeys(self._by_said.get(said, ()), UNIT.get(str(array.dtype), 0.0)))
        yield from self._ready({value: like(array, arrays[value]) for value in self._by_said.pop(said, [])})

    def _ready(self, found: dict[str, Array]) -> Iterator[tuple[Group, Paired, dict[str, Array]]]:
        self._arrays.update(found)
        for group, missing in zip(self._groups, self._missing, strict=True):
            if not missing or not missing & found.keys():
                continue
            missing.difference_update(found)
            if missing:
                continue
            given = {v: self._arrays[v] if v in self._pairs else self.run.arrays[v] for v in group.inputs}
            value = group.value
            yield group, Paired(self._pairs[value].said, self._arrays[value], self._units.get(value, 0.0)), given
            for value in {group.value, *group.inputs} & self._readers.keys():
                self._readers[value] -= 1
                if not self._readers[value]:
                    del self._arrays[value]


def _arriving(
    waiting: Sequence[_Waiting], came: list[Intermediate]
) -> Iterator[tuple[Run, Group, Paired, dict[str, Array]]]:
    """`came`, in order, is empty at the end: nobody else holds what is needed no more."""
    for one in waiting:
        yield from ((one.run, *ready) for ready in one.known())
    came.reverse()
    while came:
        number, said, array = came.pop()
        yield from ((waiting[number].run, *ready) for ready in waiting[number].arrived(said, array))


def _unclear(run: Run, pairs: Mapping[str, Paired], oracle: Sequence[Seen]) -> bool:
    """Whether the oracle has a value without a partner, in between and of the size of one of ours without a partner: if
    they are the same, ours is far off, and what is behind it may hide that (a constant in front of a softmax)."""
    order = {one.said: place for place, one in enumerate(oracle)}
    partners = {pair.said for pair in pairs.values()}
    known = {one.digest for one in oracle if one.said in partners}
    known |= {digest(run.arrays[value]) for value in run.graph.inputs}
    # A view of what has a partner has one.
    left = [
        (place, one)
        for place, one in enumerate(oracle)
        if one.said not in partners and one.is_float and one.size > 1 and one.digest not in known
    ]
    for group in groups(run.graph, pairs):
        inner = (value for node in group.nodes if node.kind is NodeKind.KERNEL for value in node.outputs)
        alone = [run.arrays[value] for value in inner if value != group.value]
        begin = max((order.get(pairs[value].said, -1) for value in group.inputs if value in pairs), default=-1)
        end = order.get(pairs[group.value].said, len(order))
        between = [one for place, one in left if begin < place < end]
        for own in alone:
            if any(one.shape == own.shape for one in between) and not any(near(own, one) for one in between):
                return True
            let_go([own])
    return False
