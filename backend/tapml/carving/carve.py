"""Carve a model into a suite: reference run, carved tests, tolerances, kernels, agreement with the oracle."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tapml.compare.agreement import Agreement, agreement
from tapml.compare.operators import OperatorTolerances
from tapml.compare.tolerance import noisy, perturb
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS, compile_operators
from tapml.compilers.tvm.compile import TVM
from tapml.compilers.tvm.variants import BASE
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Lowered, Model, lower
from tapml.operators.numerics import stated
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind, Value, ValueKind
from tapml.program.program import MAIN, State, sizes_of
from tapml.suite import CarvedTest, Suite, SuiteWriter, TensorRef, TensorStore, Tolerance
from tapml.suite.suite import write_kernel

Progress = Callable[[str, int, int], None]
"""progress(phase, done, total)"""

# The oracle is another implementation on the same CPU: more than this apart is an importer bug, not rounding.
_ORACLE_COSINE = 1 - 1e-5
_ORACLE_RELATIVE = 1e-4


class _Recorder:
    """Writes tensors on a second thread, so that the reference run does not wait for disk and SHA-256."""

    def __init__(self, store: TensorStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(1, "tensor writer")
        self._waiting: deque[Future[TensorRef]] = deque()

    def put(self, array: np.ndarray, value: Value[Any]) -> Future[TensorRef]:
        """Raises what writing an earlier one raised: on a full disk the rest of the run would be for nothing."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._write, array, value))
        return self._waiting[-1]

    def finish(self) -> None:
        """Wait for everything to be written. Raises what writing raised (a full disk)."""
        for written in self._waiting:
            written.result()

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _write(self, array: np.ndarray, value: Value[Any]) -> TensorRef:
        try:
            return self._store.put(array, value.type.encoding)
        except InputError as error:
            raise InputError(f"{value.name or value.id}: {error}") from error


def carve(
    model: ImportedModel,
    path: Path,
    *,
    name: str,
    reference: str = "cpu",
    overwrite: bool = False,
    variants: Sequence[str] = (BASE.name,),
    compilers: Sequence[Compiler] = COMPILERS,
    progress: Progress = lambda phase, done, total: None,
) -> Suite:
    """Run `model` on the reference platform with each of its steps' inputs and write the suite at `path`.

    `variants` are the specs of those that a compiler makes of each kernel, and `compilers` are asked in their order.

    Raises InputError (graph that cannot be carved, path that is taken or cannot be written, unknown variant) and
    ToolchainError (no such platform); nothing is left at `path` then.
    """
    clock = _Clock()
    with SuiteWriter(path, overwrite) as writer:
        progress("lowering", 0, 1)
        lowered = lower(model.module, len(model.input_names), model.symbols)
        operators = lowered.documents()
        clock.lap("lower")
        # Before any thread starts: compiling forks a helper where it can.
        kernels = compile_operators(lowered.operators, variants, partial(progress, "kernels"), compilers)
        for kernel in kernels.values():
            write_kernel(writer.folder, kernel.document, {file.name: file.text for file in kernel.files})
        clock.lap("kernels")
        lowered = _named(lowered, model, kernels, writer)
        graphs = [lowered.model.at(_sizes(lowered, model, step)) for step in model.steps]
        models = {graph: lowered.at(graph.sizes, operators) for graph in graphs}
        platform = Reference(*models.values(), platform=reference, functions=model.functions)
        carver = _Carver(lowered, platform, model, writer)
        tolerances = {graph: _operator_tolerances(found, kernels, writer) for graph, found in models.items()}
        clock.lap("build")
        writer.expected_bytes = carver.expected_bytes(graphs)
        with _Recorder(writer.tensors) as recorder:
            parameters = {v: recorder.put(array, carver.values[v]) for v, array in carver.parameters.items()}
            runs: list[_Run] = []
            for number, (step, graph) in enumerate(zip(model.steps, graphs, strict=True)):
                run = _Run(number, step, graph, tolerances[graph], dict(carver.parameters), dict(parameters))
                carver.record(run, runs, recorder, progress)
                runs.append(run)
            clock.lap("record")
            recorder.finish()
        clock.lap("write")
        tests = carver.derive_tolerances(runs, progress)
        model_tolerance = carver.model_tolerance(runs, tests)
        clock.lap("tolerances")
        manifest = {
            "name": name,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "model": dict(model.provenance),
            "synthetic": any(step.synthetic for step in model.steps),
            "reference": {"platform": reference, "device": platform.description},
            "generator": {"name": TVM.name, "version": TVM.version},
            "parameters": {value: ref.result().to_json() for value, ref in parameters.items()},
            "arguments": lowered.arguments,
            "steps": [carver.describe_step(run) for run in runs],
            "oracle": carver.compare_with_oracle(runs, model_tolerance["max_abs_error"]),
            "oracle_missing": model.oracle_missing,
            "model_tolerance": model_tolerance,
            "seconds": clock.seconds,
        }
        return writer.finish(manifest, lowered.model, tests, operators)


@dataclasses.dataclass
class _Run:
    """One step's run: the recorded arrays by value id, parameters included, and where they are stored."""

    number: int
    step: Step
    graph: Graph
    tolerances: Mapping[str, OperatorTolerances]
    """By kernel."""
    arrays: dict[str, np.ndarray]
    refs: dict[str, Future[TensorRef]]

    @property
    def outputs(self) -> list[np.ndarray]:
        return [self.arrays[value] for value in self.graph.outputs]


class _Carver:
    def __init__(
        self,
        lowered: Lowered,
        platform: Reference,
        model: ImportedModel,
        writer: SuiteWriter,
    ) -> None:
        self._platform = platform
        self._model = model
        count = len(model.input_names)
        weights = lowered.arguments[count : count + len(model.parameters)]
        self.parameters: dict[str, np.ndarray] = {
            **dict(zip(weights, (array for _, array in model.parameters), strict=True)),
            **lowered.constants,
        }
        self._weights: Values = platform.values(self.parameters)
        self._store = writer.tensors
        self.values = lowered.model.main.values
        self._symbols = {found.name: [symbol.name for symbol in found.symbols] for found in lowered.operators}

    def expected_bytes(self, graphs: Sequence[Graph]) -> int:
        """About what the suite's tensors take: weights once, what is recorded for each step, and as much for bounds."""
        weights = sum(array.nbytes for array in self.parameters.values())
        recorded = sum(
            value.type.nbytes
            for graph in graphs
            for value in graph.values.values()
            if value.kind is not ValueKind.PARAMETER
        )
        return weights + 2 * recorded

    # -------------------------------------------------------- recording

    def record(self, run: _Run, before: Sequence[_Run], recorder: _Recorder, progress: Progress) -> None:
        """Runs a step: what is a state begins with what the step `before` it left."""
        graph = run.graph
        inputs = dict(zip(graph.inputs, (run.step.inputs[n] for n in self._model.input_names), strict=True))
        if before:
            inputs |= before[-1].graph.carried(before[-1].outputs)
        values = {**self._weights, **self._platform.values(inputs)}
        done = itertools.count(1)

        def keep(value: str, array: np.ndarray) -> None:
            run.arrays[value] = array
            run.refs[value] = recorder.put(array, graph.values[value])

        def after(node: Node, current: Values) -> None:
            # Outputs are freshly allocated for each call, so what is read here is what the call wrote.
            for value in node.outputs:
                keep(value, to_numpy(current[value], graph.values[value].type.dtype))
            progress("carving", next(done), len(graph.nodes))

        for value, array in inputs.items():
            keep(value, array)
        self._platform.run(graph, values, after=after)

    def describe_step(self, run: _Run) -> dict[str, Any]:
        names = zip(self._model.input_names, run.graph.inputs, strict=True)
        return {
            "description": run.step.description,
            "synthetic": run.step.synthetic,
            "sizes": dict(run.graph.sizes),
            "inputs": {name: run.refs[value].result().to_json() for name, value in names},
            "outputs": [run.refs[value].result().to_json() for value in run.graph.outputs],
        }

    # -------------------------------------------------------- tolerances

    def derive_tolerances(self, runs: list[_Run], progress: Progress) -> list[CarvedTest]:
        random = np.random.default_rng(0)
        tests = []
        for run in runs:
            nodes = run.graph.kernel_nodes
            for position, node in enumerate(nodes):
                tests.append(
                    CarvedTest(
                        id=f"{node.id}.s{run.number}",
                        node=node.id,
                        kernel=node.kernel,
                        step=run.number,
                        inputs=tuple(run.refs[value].result() for value in node.inputs),
                        outputs=tuple(run.refs[value].result() for value in node.outputs),
                        tolerances=self._tolerances_of(run, node, random),
                        sizes={name: run.graph.sizes[name] for name in self._symbols[node.kernel]},
                    )
                )
                progress("tolerances", position + 1, len(nodes))
        return tests

    def _tolerances_of(self, run: _Run, node: Node, random: np.random.Generator) -> tuple[Tolerance, ...]:
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

        return run.tolerances[node.kernel].of_call(inputs, expected, move)

    def model_tolerance(self, runs: list[_Run], tests: list[CarvedTest]) -> dict[str, Any]:
        """How far the model's outputs move when every operator is off by a random share of its own tolerance: those of
        the first step, and where there are states, of all, for what is off in a state is off in the next step."""
        bounds = {(test.step, test.node): test.tolerances for test in tests}
        random = np.random.default_rng(1)
        moved: list[Agreement] = []
        left: dict[str, np.ndarray] = {}
        for run in runs if self._model.states else runs[:1]:
            inputs = {value: run.arrays[value] for value in run.graph.inputs} | left
            values = {**self._weights, **self._platform.values(inputs)}

            def disturb(node: Node, current: Values, run: _Run = run) -> None:
                if node.kind is NodeKind.VIEW:
                    return
                for value, bound in zip(node.outputs, bounds[run.number, node.id], strict=True):
                    if bound.absolute or bound.relative:
                        array = to_numpy(current[value], run.graph.values[value].type.dtype)
                        current[value] = self._platform.tensor(noisy(array, self._allowed(bound, array), random))

            self._platform.run(run.graph, values, after=disturb)
            disturbed = [to_numpy(values[value], run.graph.values[value].type.dtype) for value in run.graph.outputs]
            moved.append(agreement(disturbed, run.outputs))
            left = run.graph.carried(disturbed)
        found = _worst(moved)
        if not np.isfinite(found.max_abs_error):
            raise InputError(
                "the model's output becomes NaN or infinite when its operators are off by no more than they may be: "
                "it has no tolerance at these inputs, give others"
            )
        cosine = 1.0 - max(1e-6, 4.0 * (1.0 - found.cosine)) if np.isfinite(found.cosine) else 1.0 - 1e-6
        return {
            "cosine": max(cosine, 0.99),
            "max_abs_error": 4.0 * found.max_abs_error,
            "reasons": [
                "with every operator off by a random share of its own tolerance the output moves by "
                f"{found.max_abs_error:.3g} (cosine {found.cosine:.9f}); four times that is allowed"
            ],
        }

    def _allowed(self, tolerance: Tolerance, array: np.ndarray) -> np.ndarray:
        """What each element may differ by."""
        if tolerance.bound is not None:
            bound = self._store.get(tolerance.bound)
            # What nothing is promised for is not disturbed: the whole model's output would have no bound either.
            return np.where(np.isfinite(bound), bound, 0.0)
        allowed: np.ndarray = tolerance.absolute + tolerance.relative * np.abs(array.astype(np.float32))
        return allowed

    # -------------------------------------------------------- oracle

    def compare_with_oracle(self, runs: list[_Run], allowed: float) -> dict[str, Any] | None:
        """`allowed`: what an element of the outputs may differ by, by rounding.

        Raises InputError naming the output where it is of another shape.
        """
        if self._model.oracle is None:
            return None
        found, agrees = [], True
        for run in runs:
            if (expected := run.step.expected) is None:
                continue
            for name, got, wanted in zip(self._model.outputs, run.outputs, expected, strict=True):
                if got.shape != wanted.shape:
                    raise InputError(
                        f"output {name} is {list(got.shape)}, but {self._model.oracle} gives {list(wanted.shape)}: "
                        "tapml does not import this model rightly"
                    )
                agrees = agrees and _agrees(got, wanted, allowed)
            found.append(agreement(run.outputs, expected))
        worst = _worst(found)
        agrees = agrees and bool(worst.cosine >= _ORACLE_COSINE)
        return {"name": self._model.oracle, **worst.to_json(), "agrees": agrees}


def _agrees(got: np.ndarray, expected: np.ndarray, allowed: float) -> bool:
    """Whether each element of an output is what another implementation on this CPU gives, but for rounding."""
    relative = _ORACLE_RELATIVE if expected.dtype.kind == "f" else 0.0
    return bool(np.allclose(got.astype(np.float64), expected, rtol=relative, atol=allowed, equal_nan=True))


def _worst(found: Sequence[Agreement]) -> Agreement:
    """NaN where one of them is."""
    return Agreement(float(np.min([a.cosine for a in found])), float(np.max([a.max_abs_error for a in found])))


def _sizes(lowered: Lowered, model: ImportedModel, step: Step) -> dict[str, int]:
    """What a step's inputs make of the symbols."""
    main = lowered.model.main
    return sizes_of(main, {v: step.inputs[n].shape for v, n in zip(main.inputs, model.input_names, strict=True)})


def _operator_tolerances(
    model: Model, kernels: Mapping[str, CompiledKernel], writer: SuiteWriter
) -> dict[str, OperatorTolerances]:
    """By kernel, for the sizes of one call."""
    found = {}
    for name, kernel in kernels.items():
        texts = [file.text for file in kernel.files]
        found[name] = OperatorTolerances(model.programs[name], texts, writer.tensors.put, stated(kernel.document))
    return found


def _named(
    lowered: Lowered, model: ImportedModel, kernels: Mapping[str, CompiledKernel], writer: SuiteWriter
) -> Lowered:
    """Give inputs and parameters the names the model's file uses, say which inputs and outputs are states, and how the
    kernels that there are take what is stored."""
    names = [*model.input_names, *(name for name, _ in model.parameters)]
    main = lowered.model.main
    values = dict(main.values)
    for value, name in zip(lowered.arguments, names, strict=False):  # lifted constants have no name of the file's
        values[value] = dataclasses.replace(values[value], name=name)
    documents = [kernel.document for kernel in kernels.values() if not kernel.document["unsupported"]]
    encodings = {found["kernel"]: [argument.get("encoding") for argument in found["arguments"]] for found in documents}
    main = dataclasses.replace(main, values=values).stored_as(encodings)
    inputs = dict(zip(model.input_names, main.inputs, strict=True))
    carried = {name: (inputs[name], main.outputs[place]) for name, place in model.states.items()}
    states = []
    for name in carried:
        array = model.steps[0].inputs[name]
        state = main.values[inputs[name]].type
        initial = writer.tensors.put(array, state.encoding).digest if array.tobytes().strip(b"\0") else None
        states.append(State(name, state, initial))
    function = dataclasses.replace(main, states=carried)
    program = dataclasses.replace(lowered.model, functions={MAIN: function}, states=tuple(states))
    program.check()
    return dataclasses.replace(lowered, model=program)


class _Clock:
    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}
        """Of each phase. `record` is the reference run with recording, `write` what the recording waited for the disk
        after it."""

    def lap(self, phase: str) -> None:
        """What was done since the last lap was `phase`."""
        now = time.perf_counter()
        self.seconds[phase], self._last = round(now - self._last, 4), now
