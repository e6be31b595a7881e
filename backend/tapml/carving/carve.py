"""Carve a model into a suite: reference run, carved tests, tolerances, kernels, agreement with the oracle."""

from __future__ import annotations

import dataclasses
import datetime
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
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
from tapml.importing.external import Functions
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Lowered, LoweredProgram, lower_program
from tapml.operators.numerics import stated
from tapml.platforms.reference import Reference, Values, to_numpy
from tapml.program import Graph, Node, NodeKind, Value, ValueKind
from tapml.program.program import MAIN, State, sizes_of
from tapml.suite import CarvedTest, Suite, SuiteWriter, TensorRef, Tolerance

Progress = Callable[[str, int, int], None]
"""progress(phase, done, total)"""

# The oracle is another implementation on the same CPU: more than this apart is an importer bug, not rounding.
_ORACLE_COSINE = 1 - 1e-5


@dataclasses.dataclass
class Timings:
    """Seconds of each phase of a carve. `record` is the reference run with recording, `write` what the
    recording waited for the disk after it."""

    lower: float = 0.0
    build: float = 0.0
    record: float = 0.0
    write: float = 0.0
    tolerances: float = 0.0
    kernels: float = 0.0


class _Recorder:
    """Writes tensors on a second thread, so that the reference run does not wait for disk and SHA-256."""

    def __init__(self, writer: SuiteWriter) -> None:
        self._writer = writer
        self._queue: queue.Queue[tuple[str, np.ndarray, Value[Any]] | None] = queue.Queue(maxsize=256)
        self._error: BaseException | None = None
        self.refs: dict[str, TensorRef] = {}
        self._thread = threading.Thread(target=self._work, name="tensor writer")
        self._thread.start()

    def put(self, key: str, array: np.ndarray, value: Value[Any]) -> None:
        """Raises what writing an earlier one raised: on a full disk the rest of the run would be for nothing."""
        if self._error:
            raise self._error
        self._queue.put((key, array, value))

    def finish(self) -> dict[str, TensorRef]:
        """Wait for everything to be written. Raises what writing raised (a full disk)."""
        self.close()
        if self._error:
            raise self._error
        return self.refs

    def close(self) -> None:
        """End the thread, also when the run it records for failed. May be called twice."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._error is None:
                try:
                    key, array, value = item
                    self.refs[key] = self._writer.tensors.put(array, value.type.encoding)
                except InputError as error:
                    self._error = InputError(f"{value.name or value.id}: {error}")
                except BaseException as error:
                    self._error = error


def carve(
    model: ImportedModel,
    path: Path,
    *,
    name: str,
    reference: str = "cpu",
    overwrite: bool = False,
    variants: Sequence[str] = (BASE.name,),
    compilers: Sequence[Compiler] = COMPILERS,
    functions: Functions = MappingProxyType({}),
    progress: Progress = lambda phase, done, total: None,
) -> Suite:
    """Run `model` on the reference platform with each of its steps' inputs and write the suite at `path`.

    `variants` are the specs of those that a compiler makes of each kernel, and `compilers` are asked in their order;
    `functions` compute the operators that the model was imported with them for.

    Raises InputError (graph that cannot be carved, path that is taken or cannot be written, unknown variant) and
    ToolchainError (no such platform); nothing is left at `path` then.
    """
    timings = Timings()
    clock = _Clock()
    with SuiteWriter(path, overwrite) as writer:
        progress("lowering", 0, 1)
        lowered = lower_program(model.module, len(model.input_names), model.symbols)
        operators = lowered.documents()
        timings.lower = clock.lap()
        # Before any thread starts: compiling forks a helper where it can.
        kernels = compile_operators(
            lowered.operators, variants, lambda done, total: progress("kernels", done, total), compilers
        )
        for kernel in kernels.values():
            writer.write_kernel(kernel.document, {file.name: file.text for file in kernel.files})
        timings.kernels = clock.lap()
        lowered = _named(lowered, model, kernels, writer)
        graphs = [lowered.model.at(_sizes(lowered, model, step)) for step in model.steps]
        models = {graph: lowered.at(graph.sizes, operators) for graph in graphs}
        platform = Reference(*models.values(), platform=reference, functions=functions)
        carver = _Carver(lowered, platform, model, writer)
        tolerances = {graph: _operator_tolerances(found, kernels, writer) for graph, found in models.items()}
        timings.build = clock.lap()
        writer.expected_bytes = carver.expected_bytes(graphs)
        with carver:
            runs: list[_Run] = []
            for number, (step, graph) in enumerate(zip(model.steps, graphs, strict=True)):
                runs.append(carver.record(_Run(number, step, graph, tolerances[graph]), runs, progress))
            timings.record = clock.lap()
            refs = carver.finish_writing()
        timings.write = clock.lap()
        tests = carver.derive_tolerances(runs, refs, progress)
        model_tolerance = carver.model_tolerance(runs, tests)
        timings.tolerances = clock.lap()
        oracle = carver.compare_with_oracle(runs)
        manifest = {
            "name": name,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "model": dict(model.provenance),
            "synthetic": any(step.synthetic for step in model.steps),
            "reference": {"platform": reference, "device": platform.description},
            "generator": {"name": TVM.name, "version": TVM.version},
            "parameters": {value: refs[value].to_json() for value in carver.parameters},
            "arguments": lowered.arguments,
            "steps": [carver.describe_step(run, refs) for run in runs],
            "oracle": oracle,
            "oracle_missing": model.oracle_missing,
            "model_tolerance": model_tolerance,
            "seconds": {k: round(v, 4) for k, v in dataclasses.asdict(timings).items()},
        }
        return writer.finish(manifest, lowered.model, tests, operators)


@dataclasses.dataclass
class _Run:
    """One step's run: the recorded arrays by value id."""

    number: int
    step: Step
    graph: Graph
    tolerances: Mapping[str, OperatorTolerances]
    """By kernel."""
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def key(self, value: str) -> str:
        """Values of different steps are written under different keys; parameters belong to no step."""
        return f"{self.number}/{value}"


class _Carver:
    def __init__(
        self,
        lowered: LoweredProgram,
        platform: Reference,
        model: ImportedModel,
        writer: SuiteWriter,
    ) -> None:
        self._platform = platform
        self._model = model
        self._recorder = _Recorder(writer)
        count = len(model.input_names)
        weights = lowered.arguments[count : count + len(model.parameters)]
        self.parameters: dict[str, np.ndarray] = {
            **dict(zip(weights, (array for _, array in model.parameters), strict=True)),
            **lowered.constants,
        }
        self._weights: Values = platform.values(self.parameters)
        self._store = writer.tensors
        self._values = lowered.model.main.values
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

    def record(self, run: _Run, before: Sequence[_Run], progress: Progress) -> _Run:
        """Runs a step: what is a state begins with what the step `before` it left."""
        graph = run.graph
        inputs = dict(zip(graph.inputs, (run.step.inputs[n] for n in self._model.input_names), strict=True))
        if before:
            last = before[-1]
            inputs |= last.graph.carried([self._array(last, value) for value in last.graph.outputs])
        run.arrays.update(inputs)
        values = {**self._weights, **self._platform.values(inputs)}
        total, done = len(graph.nodes), 0
        for value, array in inputs.items():
            self._recorder.put(run.key(value), array, graph.values[value])

        def keep(node: Node, current: Values) -> None:
            nonlocal done
            # Outputs are freshly allocated for each call, so what is read here is what the call wrote.
            for value in node.outputs:
                array = to_numpy(current[value], graph.values[value].type.dtype)
                run.arrays[value] = array
                self._recorder.put(run.key(value), array, graph.values[value])
            done += 1
            progress("carving", done, total)

        self._platform.run(graph, values, after=keep)
        return run

    def __enter__(self) -> _Carver:
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.close()

    def finish_writing(self) -> dict[str, TensorRef]:
        """References of parameters by value id, of everything else by `_Run.key`."""
        for value, array in self.parameters.items():
            self._recorder.put(value, array, self._values[value])
        return self._recorder.finish()

    def describe_step(self, run: _Run, refs: dict[str, TensorRef]) -> dict[str, Any]:
        names = zip(self._model.input_names, run.graph.inputs, strict=True)
        return {
            "description": run.step.description,
            "synthetic": run.step.synthetic,
            "sizes": dict(run.graph.sizes),
            "inputs": {name: refs[run.key(value)].to_json() for name, value in names},
            "outputs": [self._ref(refs, run, value).to_json() for value in run.graph.outputs],
        }

    def _ref(self, refs: dict[str, TensorRef], run: _Run, value: str) -> TensorRef:
        return refs[value] if value in self.parameters else refs[run.key(value)]

    def _array(self, run: _Run, value: str) -> np.ndarray:
        return self.parameters[value] if value in self.parameters else run.arrays[value]

    # -------------------------------------------------------- tolerances

    def derive_tolerances(self, runs: list[_Run], refs: dict[str, TensorRef], progress: Progress) -> list[CarvedTest]:
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
                        inputs=tuple(self._ref(refs, run, value) for value in node.inputs),
                        outputs=tuple(self._ref(refs, run, value) for value in node.outputs),
                        tolerances=self._tolerances_of(run, node, random),
                        sizes={name: run.graph.sizes[name] for name in self._symbols[node.kernel]},
                    )
                )
                progress("tolerances", position + 1, len(nodes))
        return tests

    def _tolerances_of(self, run: _Run, node: Node, random: np.random.Generator) -> tuple[Tolerance, ...]:
        inputs = [self._array(run, value) for value in node.inputs]
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

            disturbed = self._outputs(run, self._platform.run(run.graph, values, after=disturb))
            moved.append(agreement(disturbed, [self._array(run, value) for value in run.graph.outputs]))
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

    def compare_with_oracle(self, runs: list[_Run]) -> dict[str, Any] | None:
        if self._model.oracle is None:
            return None
        found = [
            agreement([self._array(run, value) for value in run.graph.outputs], run.step.expected)
            for run in runs
            if run.step.expected is not None
        ]
        worst = _worst(found)
        return {
            "name": self._model.oracle.name,
            **worst.to_json(),
            "agrees": bool(worst.cosine >= _ORACLE_COSINE),
        }

    def _outputs(self, run: _Run, values: Values) -> list[np.ndarray]:
        return [to_numpy(values[value], run.graph.values[value].type.dtype) for value in run.graph.outputs]


def _worst(found: Sequence[Agreement]) -> Agreement:
    """NaN where one of them is."""
    return Agreement(float(np.min([a.cosine for a in found])), float(np.max([a.max_abs_error for a in found])))


def _sizes(lowered: LoweredProgram, model: ImportedModel, step: Step) -> dict[str, int]:
    """What a step's inputs make of the symbols."""
    main = lowered.model.main
    return sizes_of(main, {v: step.inputs[n].shape for v, n in zip(main.inputs, model.input_names, strict=True)})


def _operator_tolerances(
    lowered: Lowered, kernels: Mapping[str, CompiledKernel], writer: SuiteWriter
) -> dict[str, OperatorTolerances]:
    """By kernel, for the sizes of one call."""
    found = {}
    for name, kernel in kernels.items():
        texts = [file.text for file in kernel.files]
        program = lowered.externals.get(name) or lowered.programs[name]
        found[name] = OperatorTolerances(program, texts, writer.tensors.put, stated(kernel.document))
    return found


def _named(
    lowered: LoweredProgram, model: ImportedModel, kernels: Mapping[str, CompiledKernel], writer: SuiteWriter
) -> LoweredProgram:
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

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        lap, self._last = now - self._last, now
        return lap
