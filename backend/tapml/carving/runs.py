"""The reference run: each step's graph on the reference platform, and every value that it gave."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapml.carving.spill import Spill
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step
from tapml.lowering.lower import Lowered
from tapml.operators.external import External
from tapml.operators.program import OperatorProgram
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node
from tapml.program.limits import MEND

Progress = Callable[[str, int, int], None]
"""progress(phase, done, total)"""

Programs = Mapping[str, OperatorProgram | External]

Instead = Callable[[Graph, Node, Values], None]
"""Runs a node in place of the platform: reads the values, and writes the node's outputs among them."""


@dataclass
class Run:
    """One step's run: what each value was, parameters included, by value id."""

    number: int
    step: Step
    graph: Graph
    arrays: dict[str, np.ndarray]

    @property
    def outputs(self) -> list[np.ndarray]:
        return [self.arrays[value] for value in self.graph.outputs]


class ReferenceRun:
    """A model on the reference platform."""

    def __init__(self, lowered: Lowered, model: ImportedModel, programs: Programs, platform: Reference) -> None:
        """`programs` by kernel, at the sizes of some step."""
        self.platform = platform
        self.model = model
        self.programs = programs
        count = sum(len(function.inputs) for function in lowered.model.functions.values())
        weights = lowered.arguments[count : count + len(model.parameters)]
        self.parameters: Mapping[str, np.ndarray] = {
            **dict(zip(weights, (array for _, array in model.parameters), strict=True)),
            **lowered.constants,
        }
        computed = model.otherwise.names if model.otherwise is not None else ()
        self._computed = {v: name for v, (name, _) in zip(weights, model.parameters, strict=True) if name in computed}
        self.weights: Values = {value: platform.shared(array) for value, array in self.parameters.items()}

    def otherwise(self, values: Iterable[str], seed: int) -> Values:
        """Those of the values that are weights which were computed at import, as other roundings would make them."""
        computed = {value: name for value in values if (name := self._computed.get(value)) is not None}
        if not computed or not self._otherwise:
            return {}
        others = self._otherwise[seed % len(self._otherwise)]
        return {value: self.platform.tensor(others[name]) for value, name in computed.items()}

    @functools.cached_property
    def _otherwise(self) -> Sequence[Mapping[str, np.ndarray]]:
        assert self.model.otherwise is not None
        try:
            return self.model.otherwise.found()
        except InputError:  # what was computed once need not be again
            return ()

    def record(
        self,
        graphs: Sequence[Graph],
        progress: Progress = lambda phase, done, total: None,
        spill: Spill | None = None,
    ) -> list[Run]:
        """Every step, at its graph; what is a state begins with what the step before left. What is computed is in
        `spill`, where there is one.

        Raises InputError for a step that asks for more than the model can do (`ImportedModel.limits`)."""
        runs: list[Run] = []
        left: dict[str, np.ndarray] = {}
        total = sum(len(graph.nodes) for graph in graphs)
        done = itertools.count(1)
        steps = [(of, step) for of in (self.model, *self.model.beside.values()) for step in of.steps]
        for number, ((of, step), graph) in enumerate(zip(steps, graphs, strict=True)):
            inputs = dict(zip(graph.inputs, (step.inputs[n] for n in of.input_names), strict=True))
            inputs |= graph.begun(left)
            run = Run(number, step, graph, {**self.parameters, **inputs})

            def after(node: Node, current: Values, run: Run = run) -> None:
                # Outputs are freshly allocated for each call, so what is read here is what the call wrote.
                for value in node.outputs:
                    array = to_numpy(current[value], run.graph.values[value].type.dtype)
                    run.arrays[value] = array if spill is None else spill.put(array)
                progress("carving", next(done), total)

            self.platform.run(graph, {**self.weights, **self.platform.values(inputs)}, after=after)
            self._check_limits(of, run)
            left |= graph.left(run.outputs)
            runs.append(run)
        return runs

    def _check_limits(self, model: ImportedModel, run: Run) -> None:
        for name, cause in model.limits.items():
            if run.outputs[model.outputs.index(name)].any():
                raise InputError(f"{run.step.description}: {cause}: {MEND}")

    def again(
        self,
        runs: Sequence[Run],
        *,
        instead: Instead | None = None,
        after: Callable[[Run, Node, Values], None] | None = None,
    ) -> list[list[np.ndarray]]:
        """The outputs of each of `runs` where its nodes are run, or their outputs changed, in another way. States are
        what the run before left now, inputs those that were recorded."""
        found: list[list[np.ndarray]] = []
        left: dict[str, np.ndarray] = {}
        for run in runs:
            inputs = {value: run.arrays[value] for value in run.graph.inputs} | run.graph.begun(left)
            values = {**self.weights, **self.platform.values(inputs)}

            def changed(node: Node, current: Values, run: Run = run) -> None:
                if after:
                    after(run, node, current)

            self.platform.run(run.graph, values, after=changed, instead=instead)
            outputs = [to_numpy(values[value], run.graph.values[value].type.dtype) for value in run.graph.outputs]
            left |= run.graph.left(outputs)
            found.append(outputs)
        return found
