"""Carve a model into a suite: reference run, agreement with the oracle, kernels, carved tests, tolerances."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from tapml.carving.branches import never_taken
from tapml.carving.halves import exact_in_halves, stored_as_read, with_halves
from tapml.carving.judge import judged
from tapml.carving.prepare import Prepared, lowered_with_documents, prepared
from tapml.carving.recorder import Recorder
from tapml.carving.runs import Progress, Run
from tapml.carving.spill import Spill
from tapml.carving.tolerances import Tolerances
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS, begun, check_kernel, check_operators, made_for
from tapml.compilers.tvm.compile import TVM
from tapml.compilers.tvm.variants import BASE
from tapml.errors import InputError
from tapml.importing import ImportedModel
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.document import as_generated
from tapml.lowering.lower import Lowered
from tapml.lowering.unfused import Unfused
from tapml.memory import give_back, only_new_garbage, trim
from tapml.program import Graph, ValueKind
from tapml.program.program import State
from tapml.suite import Suite, SuiteWriter, TensorRef
from tapml.suite.suite import TOKENIZER, write_kernel
from tapml.threads import one_blas_thread

_Refs = Mapping[str, Future[TensorRef]]


def carve(
    model: ImportedModel,
    path: Path,
    *,
    name: str,
    reference: str = "cpu",
    overwrite: bool = False,
    keep_disagreeing: bool = False,
    variants: Sequence[str] = (BASE.name,),
    compilers: Sequence[Compiler] = COMPILERS,
    progress: Progress = lambda phase, done, total: None,
) -> Suite:
    """Run `model` on the reference platform with each of its steps' inputs and write the suite at `path`.

    `variants` are the specs of those that a compiler makes of each kernel, and `compilers` are asked in their order.
    `keep_disagreeing`: also a suite whose reference run disagrees with its oracle or with itself, which then says so
    (`Suite.doubts`).

    Raises InputError (graph that cannot be carved, path that is taken or cannot be written, unknown variant, reference
    run that disagrees) and ToolchainError (no such platform); nothing is left at `path` then. What can be known before
    kernels are compiled and tolerances derived is said before.
    """
    clock = _Clock()
    with (
        SuiteWriter(path, overwrite) as writer,
        Spill(path.parent) as spill,
        only_new_garbage(),
        contextlib.ExitStack() as started,
    ):
        progress("lowering", 0, 1)
        lowered, operators = lowered_with_documents(model, made_for(compilers))
        check_operators(lowered.operators, variants, compilers)
        trim()
        # Before any thread starts: a second process compiles where it can, beside all that may refuse the model.
        finish = started.enter_context(begun(lowered.operators, variants, compilers))
        clock.lap("lower")
        opened = prepared(model, lowered, operators, reference)
        give_back()
        clock.lap("build")
        runs = opened.reference.record(opened.graphs, progress, spill)
        trim()
        clock.lap("record")
        judgement = judged(opened, runs, path.parent)
        if judgement.doubts and not keep_disagreeing:
            what = "; ".join(judgement.doubts)
            raise InputError(f"{what}. Nothing is written; to carve it all the same: --keep-disagreeing")
        give_back()
        clock.lap("oracle")
        kernels = finish(partial(progress, "kernels"))
        started.close()
        for operator in lowered.operators:
            check_kernel(kernels[operator.name], operator)
        scales = model.quantised.halves if model.quantised else ()
        functions = lowered.model.functions.values()
        exact = exact_in_halves(functions, opened.reference.parameters, scales)
        kernels = with_halves(functions, kernels, exact, lowered.operators)
        lowered = _stored(lowered, model, kernels, writer)
        give_back()
        clock.lap("kernels")
        opened, runs = _at_stored(opened, lowered, runs)
        writer.expected_bytes = _expected_bytes(opened)
        tolerances = Tolerances(lowered, opened.models, kernels, opened.reference, writer.tensors)
        # As above: the recorder has a thread.
        with one_blas_thread(), tolerances.begun(runs) as deriving, Recorder(writer.tensors) as recorder:
            values = {v.id: v for function in lowered.model.functions.values() for v in function.values.values()}
            parameters = {
                value: recorder.put(array, values[value]) for value, array in opened.reference.parameters.items()
            }
            states = _record_states(runs, recorder)
            stored = [_record(run, {**parameters, **states[run.number]}, recorder) for run in runs]
            for kernel in kernels.values():
                write_kernel(
                    writer.folder, as_generated(kernel.document), {file.name: file.text for file in kernel.files}
                )
            tests = tolerances.tests(runs, stored, deriving, progress)
            clock.lap("tolerances")
            recorder.finish()
        if model.tokenizer is not None:
            writer.folder.write(TOKENIZER, model.tokenizer.encode())
        clock.lap("write")
        model_tolerance = tolerances.of_model(runs[: len(model.steps)], tests)
        clock.lap("model")
        provenance: dict[str, Any] = dict(model.provenance)
        manifest = {
            "name": name,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "model": {**provenance, "notes": [*provenance.get("notes", ()), *never_taken(opened, runs)]},
            "synthetic": any(step.synthetic for step in model.steps),
            "reference": {"platform": reference, "device": opened.reference.platform.description},
            "generator": {"name": TVM.name, "version": TVM.version},
            "parameters": {value: ref.result().to_json() for value, ref in parameters.items()},
            "arguments": lowered.arguments,
            "outputs": [out for name in lowered.model.functions for out in model.of_function(name).outputs],
            **({"limits": dict(model.limits)} if model.limits else {}),
            **({"generation": model.generation.model_dump()} if model.generation else {}),
            "steps": [_described(run, refs, opened) for run, refs in zip(runs, stored, strict=True)],
            "oracle": judgement.oracle,
            "oracle_missing": model.oracle_missing,
            "doubts": judgement.doubts,
            "model_tolerance": model_tolerance,
            "seconds": clock.seconds,
        }
        return writer.finish(manifest, lowered.model, tests, operators)


def _record_states(runs: Sequence[Run], recorder: Recorder) -> list[dict[str, Future[TensorRef]]]:
    """Of each run the states before and after it, by value id: those after one are those before the next that has
    them."""
    found: list[dict[str, Future[TensorRef]]] = [{} for _ in runs]
    for name in dict.fromkeys(name for run in runs for name in run.graph.states):
        of_state = [run for run in runs if name in run.graph.states]
        first = of_state[0]
        begins = first.graph.states[name][0]
        versions = [first.arrays[begins], *(run.arrays[run.graph.states[name][1]] for run in of_state)]
        refs = recorder.put_versions(versions, first.graph.values[begins])
        for place, run in enumerate(of_state):
            before, after = run.graph.states[name]
            found[run.number] |= {before: refs[place], after: refs[place + 1]}
    return found


def _record(run: Run, known: _Refs, recorder: Recorder) -> _Refs:
    own = {value: array for value, array in run.arrays.items() if value not in known}
    return {**known, **{value: recorder.put(array, run.graph.values[value]) for value, array in own.items()}}


def _described(run: Run, refs: _Refs, opened: Prepared) -> dict[str, Any]:
    names = opened.reference.model.of_function(opened.functions[run.number]).input_names
    several = len(opened.lowered.model.functions) > 1
    return {
        "description": run.step.description,
        "synthetic": run.step.synthetic,
        **({"function": opened.functions[run.number]} if several else {}),
        "sizes": dict(run.graph.sizes),
        **_unfused(opened.lowered.unfused.get(opened.functions[run.number]), run.graph.sizes),
        "inputs": {name: refs[value].result().to_json() for name, value in zip(names, run.graph.inputs, strict=True)},
        "outputs": [refs[value].result().to_json() for value in run.graph.outputs],
    }


def _unfused(found: Unfused | None, sizes: Mapping[str, int]) -> dict[str, Any]:
    if found is None:
        return {}
    return {"unfused": {"operators": len(found.calls), "bytes": found.bytes_at(sizes)}}


def _expected_bytes(opened: Prepared) -> int:
    """About what the suite's tensors take: weights once, what is recorded for each step, and as much for bounds."""
    weights = sum(array.nbytes for array in opened.reference.parameters.values())
    recorded = sum(
        value.type.nbytes
        for graph in opened.graphs
        for value in graph.values.values()
        if value.kind is not ValueKind.PARAMETER
    )
    return weights + 2 * recorded


def _stored(
    lowered: Lowered, model: ImportedModel, kernels: Mapping[str, CompiledKernel], writer: SuiteWriter
) -> Lowered:
    """How the kernels that there are take what is stored, and what states begin with."""
    functions = stored_as_read(lowered.model.functions, kernels)
    states = []
    first = next(iter(functions.values()))
    for name, (value, _) in first.states.items():
        array, state = model.steps[0].inputs[name], first.values[value].type
        initial = writer.tensors.put(array, state.encoding).digest if array.tobytes().strip(b"\0") else None
        states.append(State(name, state, initial))
    program = dataclasses.replace(lowered.model, functions=functions, states=tuple(states))
    program.check()
    return dataclasses.replace(lowered, model=program)


def _at_stored(opened: Prepared, lowered: Lowered, runs: Sequence[Run]) -> tuple[Prepared, list[Run]]:
    """The same, of values that are stored as `lowered` says."""
    calls = zip(opened.graphs, opened.functions, strict=True)
    graphs = [lowered.model.at(graph.sizes, name) for graph, name in calls]
    models: dict[Graph, Any] = {}
    for before, graph in zip(opened.graphs, graphs, strict=True):
        models[graph] = dataclasses.replace(opened.models[before], graph=graph)
    moved = [dataclasses.replace(run, graph=graph) for run, graph in zip(runs, graphs, strict=True)]
    return dataclasses.replace(opened, lowered=lowered, graphs=graphs, models=models), moved


class _Clock:
    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}
        """Of each phase. `record` is the reference run, `write` what the tolerances waited for the disk."""

    def lap(self, phase: str) -> None:
        """What was done since the last lap was `phase`."""
        now = time.perf_counter()
        self.seconds[phase], self._last = round(now - self._last, 4), now
