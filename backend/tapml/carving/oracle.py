"""Whether the reference run can be believed: every element of every output held against the oracle's.

Both compute the same operators on the same CPU, in other orders. What that explains is measured: the model runs again
with each operator's inputs off by some units in the last place (Monte Carlo arithmetic), and an element may differ by
what that moves its neighbours by. Elements are neighbours along each axis: the channels of an image, the columns of a
table, boxes and scores of one tensor have magnitudes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapml.carving.rounding import moved_by_rounding
from tapml.carving.runs import ReferenceRun, Run
from tapml.compare.agreement import Agreement, agreement
from tapml.compare.choices import Choice, choices
from tapml.compare.elements import errors, excesses, outside
from tapml.compare.tolerance import UNIT
from tapml.importing.model import Array
from tapml.lowering.lower import Model
from tapml.platforms.reference import Values, to_numpy
from tapml.program import Graph, Node

_ULPS = 8.0
"""Of an element, and of the largest of its neighbours: what differs by less agrees without a second run."""

_TIMES = 8.0
"""Of what rounding moved: one run shows one case of many."""

_MOST_RUNS = 4
_FEW = 64
"""Neighbours that are fewer tell too little by themselves."""


@dataclass(frozen=True)
class Difference:
    """The worst element of an output that differs."""

    output: str
    step: str
    said: str

    def __str__(self) -> str:
        return f"output {self.output} of {self.step}: {self.said}"


@dataclass
class Comparison:
    """`found`: the outputs of all steps together. `differences`: one for each output of a step that disagrees."""

    found: Agreement
    differences: list[Difference] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.differences


class OracleComparison:
    """Holds runs against what the oracle gave for them."""

    def __init__(self, reference: ReferenceRun, runs: Sequence[Run], models: Mapping[Graph, Model]) -> None:
        """`runs` are all of the model's steps, in order; `models` by graph of a step."""
        self._reference = reference
        self._runs = runs
        self._rounding = moved_by_rounding(reference, runs, models, self._see)
        self._choices = {run.number: choices(run.graph, run.arrays.get) for run in runs}
        self._sources = {
            (number, one.source): np.zeros(one.values.shape)
            for number, of in self._choices.items()
            for one in of.values()
        }
        """What is chosen from: by how much rounding moved it."""
        self._moved: list[list[Array]] = [[np.zeros(out.shape) for out in run.outputs] for run in runs]
        self._times = 0

    def compared(self) -> Comparison:
        """Every output of every step that has an expected one."""
        pairs = [
            (number, place, got, run.step.expected[place])
            for number, run in enumerate(self._runs)
            if run.step.expected is not None
            for place, got in enumerate(run.outputs)
        ]
        alike = [(got, wanted) for _, _, got, wanted in pairs if got.shape == wanted.shape]
        found = agreement(*zip(*alike, strict=True)) if alike else Agreement(1.0, 0.0)
        if len(alike) < len(pairs):
            found = Agreement(float("nan"), float("nan"))
        while True:
            differences = [found for pair in pairs for found in self._difference(*pair)]
            if not differences or self._times == _MOST_RUNS or len(alike) < len(pairs):
                return Comparison(found, differences)
            self._move()

    def _difference(self, number: int, place: int, got: Array, wanted: Array) -> Iterator[Difference]:
        run, model = self._runs[number], self._reference.model
        who = model.oracle or "the oracle"
        if got.shape != wanted.shape:
            said = f"it is {list(got.shape)}, and {who} gives {list(wanted.shape)}"
            yield Difference(model.outputs[place], run.step.description, said)
            return
        error, allowed = errors(got, wanted), self._allowed(number, place, got, wanted)
        wrong = outside(error, allowed)
        if choice := self._choices[run.number].get(place):
            # Of two elements that nearly tie either may come first: a place is no number.
            wrong = self._otherwise(run, choice, wanted)
        if not wrong.any():
            return
        at = np.unravel_index(int(np.argmax(np.where(wrong, excesses(error, allowed), -1.0))), got.shape)
        said = (
            f"element {[int(index) for index in at]} is {_number(got[at])}, and {who} gives {_number(wanted[at])} "
            f"(the error is {error[at]:.3g}, rounding explains {allowed[at]:.3g}); {int(wrong.sum())} of the "
            f"{got.size} elements of {list(got.shape)} differ by more than rounding explains"
        )
        yield Difference(model.outputs[place], run.step.description, said)

    def _allowed(self, number: int, place: int, got: Array, wanted: Array) -> Array:
        """By how much an element may differ, in float64."""
        moved = of_neighbours(self._moved[number][place])
        if got.dtype.kind in "biu":
            return moved
        size = np.abs(np.where(np.isfinite(wanted), wanted, 0).astype(np.float64))
        unit = self._reference.model.unit or UNIT[str(got.dtype)]
        return _ULPS * unit * (size + of_neighbours(size)) + _TIMES * moved

    def _otherwise(self, run: Run, choice: Choice, wanted: Array) -> Array:
        """Mask of the places that rounding does not make of the oracle's."""
        size = np.abs(np.where(np.isfinite(choice.values), choice.values, 0).astype(np.float64))
        unit = self._reference.model.unit or UNIT[str(choice.values.dtype)]
        moved = self._sources[run.number, choice.source]
        allowed = choice.most(_ULPS * unit * size + _TIMES * moved)
        return np.asarray(choice.apart(wanted) > allowed).reshape(wanted.shape)

    def _see(self, run: Run, node: Node, values: Values) -> None:
        for value in node.outputs:
            if (run.number, value) in self._sources:
                away = errors(to_numpy(values[value], run.graph.values[value].type.dtype), run.arrays[value])
                away = np.where(np.isfinite(away), away, 0.0)
                self._sources[run.number, value] = np.maximum(self._sources[run.number, value], away)

    def _move(self) -> None:
        """One more run with rounding."""
        self._times += 1
        for number, outputs in enumerate(next(self._rounding)):
            for place, output in enumerate(outputs):
                away = errors(output, self._runs[number].outputs[place])
                # What rounding makes infinite shows nothing of what it may be otherwise.
                away = np.where(np.isfinite(away), away, 0.0)
                self._moved[number][place] = np.maximum(self._moved[number][place], away)


def of_neighbours(values: Array) -> Array:
    """The largest of an element's neighbours, itself among them: along the axis where that is least, and of the whole
    where none has so many that they tell something."""
    result: Array = np.full(values.shape, np.max(values, initial=0.0))
    for axis in range(values.ndim):
        rest = tuple(other for other in range(values.ndim) if other != axis)
        if values.size >= _FEW * values.shape[axis] > 0:
            result = np.minimum(result, values.max(axis=rest, keepdims=True))
    return result


def _number(value: np.generic) -> str:
    return f"{value.item():.7g}" if np.asarray(value).dtype.kind == "f" else str(value.item())
