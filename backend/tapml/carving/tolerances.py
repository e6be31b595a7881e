"""The tolerances of carved tests, and of the whole model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from tapml.carving.deriving import Deriving
from tapml.carving.runs import Progress, ReferenceRun, Run
from tapml.carving.spill import let_go
from tapml.compare.agreement import Agreement, agreement
from tapml.compare.choices import Choice, choices
from tapml.compare.operators import OperatorTolerances
from tapml.compare.tolerance import UNIT, noisy, perturb, shares
from tapml.errors import InputError
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Lowered, Model
from tapml.memory import trim
from tapml.platforms.reference import Values, to_numpy
from tapml.program import Graph, Node, NodeKind
from tapml.program.graph import shown_by
from tapml.suite import CarvedTest, TensorRef, TensorStore, Tolerance
from tapml.threads import ahead

Stored = Mapping[str, Future[TensorRef]]
"""Value id -> where it is stored."""


class Tolerances:
    """Derives them from what was recorded."""

    def __init__(
        self,
        lowered: Lowered,
        models: Mapping[Graph, Model],
        kernels: Mapping[str, CompiledKernel],
        reference: ReferenceRun,
        store: TensorStore,
    ) -> None:
        """`models` by the graph of a step: the operators' programs at its sizes."""
        self._reference = reference
        self._platform = reference.platform
        self._store = store
        self._models, self._kernels = models, kernels
        self._symbols = {found.name: [symbol.name for symbol in found.symbols] for found in lowered.operators}

    def begun(self, runs: Sequence[Run]) -> Deriving:
        """Begins with the bounds of their calls, in its `with` block, which no thread may be started before."""
        return Deriving(runs, self._models, self._kernels, self._store.put)

    def tests(
        self, runs: Sequence[Run], stored: Sequence[Stored], deriving: Deriving, progress: Progress
    ) -> list[CarvedTest]:
        """A carved test of each kernel call; `stored` is where the values of each run are."""
        random = np.random.default_rng(0)
        total = sum(len(run.graph.kernel_nodes) for run in runs)
        done = 0

        def finished(calls: int) -> None:
            nonlocal done
            done += calls
            progress("tolerances", done, total)

        bounds = deriving.bounds(finished)
        tests: list[CarvedTest] = []
        for run, refs in zip(runs, stored, strict=True):
            for node in run.graph.kernel_nodes:
                tolerances = bounds.tolerances.get((run.number, node.id))
                if tolerances is None:  # in order: each takes of the same random numbers
                    tolerances = self._estimated(bounds.left[run.number, node.id], run, node, random)
                tests.append(
                    CarvedTest(
                        id=f"{node.id}.s{run.number}",
                        node=node.id,
                        kernel=node.kernel,
                        step=run.number,
                        inputs=tuple(refs[value].result() for value in node.inputs),
                        outputs=tuple(refs[value].result() for value in node.outputs),
                        tolerances=tolerances,
                        sizes={name: run.graph.sizes[name] for name in self._symbols[node.kernel]},
                    )
                )
        trim()
        return tests

    def _estimated(
        self, operator: OperatorTolerances, run: Run, node: Node, random: np.random.Generator
    ) -> tuple[Tolerance, ...]:
        inputs = [run.arrays[value] for value in node.inputs]
        expected = [run.arrays[value] for value in node.outputs]
        types = [run.graph.values[value].type for value in node.outputs]

        def move(times: int) -> list[list[np.ndarray]]:
            moved: list[list[np.ndarray]] = [[] for _ in expected]
            for _ in range(times):
                perturbed = [self._platform.tensor(perturb(array, random)) for array in inputs]
                for position, result in enumerate(self._platform.call(node.kernel, perturbed, types, run.graph.sizes)):
                    moved[position].append(to_numpy(result, types[position].dtype))
            return moved

        try:
            return operator.estimated(expected, move)
        finally:
            let_go([*inputs, *expected])

    def of_model(self, runs: Sequence[Run], tests: Sequence[CarvedTest]) -> dict[str, Any]:
        """How far the model's outputs move when every operator is off by a random share of its own tolerance: those of
        all steps, for all are judged by it, whatever their sizes, and what is off in a state is off in the next step.
        What an output may differ by itself is the least that is allowed: a share of it, of few elements, may round to
        nothing."""
        bounds = {(test.step, test.node): test.tolerances for test in tests}
        random = np.random.default_rng(1)

        def moves() -> Iterator[np.ndarray]:
            """What each value that may differ is moved by; where no bound says what that is, as shares of it."""
            for run in runs:
                for node in run.graph.kernel_nodes:
                    for value, bound in zip(node.outputs, bounds[run.number, node.id], strict=True):
                        array = run.arrays[value]
                        if _may_differ(bound, array):
                            share = shares(array.shape, random)
                            yield share if bound.bound is None else share * self._allowed(bound, array)

        chosen = {run.number: choices(run.graph, run.arrays.get) for run in runs}
        # What is chosen from need be no output.
        sources = {(number, choice.source): choice for number, of in chosen.items() for choice in of.values()}
        apart = [0.0]

        def disturb(run: Run, node: Node, current: Values) -> None:
            for value in {value for value in node.inputs if (run.number, value) in sources}:
                array = to_numpy(current[value], run.graph.values[value].type.dtype)
                apart.append(agreement([array], [sources[run.number, value].values]).max_abs_error)
            if node.kind is NodeKind.VIEW:
                return
            for value, bound in zip(node.outputs, bounds[run.number, node.id], strict=True):
                if _may_differ(bound, run.arrays[value]):
                    array = to_numpy(current[value], run.graph.values[value].type.dtype)
                    by = next(made)
                    if bound.bound is None:
                        with np.errstate(over="ignore", invalid="ignore"):
                            by = by * self._allowed(bound, array)
                    current[value] = self._platform.tensor(noisy(array, by))

        with ahead(moves()) as made:
            disturbed = self._reference.again(runs, after=disturb)
        found = worst(
            [
                agreement(_without(outputs, chosen[run.number]), _without(run.outputs, chosen[run.number]))
                for outputs, run in zip(disturbed, runs, strict=True)
            ]
        )
        found = Agreement(found.cosine, float(np.max([found.max_abs_error, *apart])))
        if not np.isfinite(found.max_abs_error):
            raise InputError(
                "the model's output becomes NaN or infinite when its operators are off by no more than they may be: "
                "it has no tolerance at these inputs, give others"
            )
        cosine = 1.0 - max(1e-6, 4.0 * (1.0 - found.cosine)) if np.isfinite(found.cosine) else 1.0 - 1e-6
        own = worst([self._of_outputs(run, bounds) for run in runs])
        return {
            "cosine": max(min(cosine, own.cosine), 0.99),
            "max_abs_error": max(4.0 * found.max_abs_error, own.max_abs_error),
            "reasons": [
                "with every operator off by a random share of its own tolerance the output moves by "
                f"{found.max_abs_error:.3g} (cosine {found.cosine:.9f}); four times that is allowed, and at least what "
                f"the last operators may be off by, {own.max_abs_error:.3g}"
            ],
        }

    def _of_outputs(self, run: Run, bounds: Mapping[tuple[int, str], tuple[Tolerance, ...]]) -> Agreement:
        """The least that a model's outputs may agree with what they are, each of them as the output of its operator."""
        shown = shown_by(run.graph)
        outputs = {shown[value] for value in run.graph.outputs}
        most = squares = 0.0
        for node in run.graph.kernel_nodes:
            for value, bound in zip(node.outputs, bounds[run.number, node.id], strict=True):
                if value in outputs and (bound.absolute or bound.relative):
                    allowed = self._allowed(bound, run.arrays[value]).astype(np.float64)
                    allowed = allowed[np.isfinite(allowed)]
                    most, squares = max(most, float(np.max(allowed, initial=0.0))), squares + float(allowed @ allowed)
        length = sum(float(np.square(a, dtype=np.float64).sum(where=np.isfinite(a))) for a in run.outputs)
        # What is added at a right angle to the outputs turns them most.
        return Agreement(float(np.sqrt(max(1.0 - squares / length, 0.0))) if length else 1.0, most)

    def _allowed(self, tolerance: Tolerance, array: np.ndarray) -> np.ndarray:
        """What each element may differ by."""
        if tolerance.bound is not None:
            bound = self._store.get(tolerance.bound)
            # What nothing is promised for is not disturbed: the whole model's output would have no bound either.
            return np.where(np.isfinite(bound), bound, 0.0)
        allowed: np.ndarray = tolerance.absolute + tolerance.relative * np.abs(array.astype(np.float32))
        return allowed


def _may_differ(tolerance: Tolerance, array: np.ndarray) -> bool:
    return bool(tolerance.absolute or tolerance.relative) and str(array.dtype) in UNIT


def _without(outputs: Sequence[np.ndarray], chosen: Mapping[int, Choice]) -> list[np.ndarray]:
    """Those that are numbers."""
    return [output for place, output in enumerate(outputs) if place not in chosen]


def worst(found: Sequence[Agreement]) -> Agreement:
    """NaN where one of them is."""
    return Agreement(float(np.min([a.cosine for a in found])), float(np.max([a.max_abs_error for a in found])))
