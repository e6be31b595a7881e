"""The same program everywhere: a suite's model, compiled, on this machine and on devices as a page runs it, and as
TVM's library in the virtual machine of tvmjs.

Each is held against what was carved, with the model's own tolerance, as an offload does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tapml.building.build import build
from tapml.compare.agreement import agreement
from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.devices.messages import KernelMessages
from tapml.errors import DeviceError
from tapml.lowering.model import read_models
from tapml.platforms.compiled import run_on_cpu
from tapml.results.base import within
from tapml.server.state import State
from tapml.suite import Suite, TensorRef
from tapml.validation.context import JobContext
from tapml.validation.hybrid import HybridRunner, carved_choices
from tapml.validation.whole_model import WholeModel, no_library

CPU = "cpu"


def built_problems(
    suite: Suite,
    state: State,
    devices: Sequence[str],
    *,
    ranges: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    overlook_doubts: bool = False,
) -> dict[str, str]:
    """Build the model (for sizes of these ranges), and run all steps of its carve in order, on this machine and on
    devices: what is wrong on each, empty where nothing is. Raises InputError where no model can be built."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tapml"
        files = CompiledFiles(build(suite, path, ranges=ranges, keep_disagreeing=overlook_doubts).path)
        calls, function = carved_inputs(suite), function_of(suite)
        found = {CPU: problem(suite, run_on_cpu(files, calls, function=function))}
        for name in devices:
            device = state.device(name)
            try:
                ran = run_compiled(device, state.blobs, files, calls, function=function, hang_seconds=30)
                found[name] = problem(suite, ran)
            except DeviceError as error:
                found[name] = f"{error.kind}: {error.summary}"
        return found


def virtual_machine_problem(suite: Suite, state: State, name: str) -> str:
    """The same for tvmjs on a device; empty, too, where there is no library of the model (`no_library`)."""
    if no_library(suite):
        return ""
    context, models = JobContext(suite, [state.device(name)], state.blobs), read_models(suite)
    tolerance = suite.manifest["model_tolerance"]
    with (
        KernelMessages(suite, state.blobs) as kernels,
        HybridRunner(context, models, kernels) as runner,
        WholeModel(context, models, kernels) as model,
    ):
        metrics = runner.in_order(model.run)
    return "".join(
        f"tvmjs: {metric}, where the tolerance is {tolerance}" for metric in metrics if not within(metric, tolerance)
    )


def function_of(suite: Suite) -> str:
    """The one that takes the inputs of all steps: of a language model's the one that takes some tokens."""
    return suite.program.function_name(suite.generation.prefill if suite.generation else None)


def carved_inputs(suite: Suite) -> list[dict[str, np.ndarray]]:
    """Of each step, without its states."""
    function = suite.program.functions[function_of(suite)]
    states = {before for before, _ in function.states.values()}
    names = {value: function.values[value].name for value in function.inputs if value not in states}
    return [
        {names[value]: _tensor(suite, ref) for value, ref in _given(suite, step).items() if value in names}
        for _, step in _steps(suite)
    ]


def problem(suite: Suite, found: CompiledRun) -> str:
    """What is wrong with outputs of the carve's steps; empty where nothing is. All outputs of all steps have to be
    there; the states that are no outputs show in what they make of them."""
    main = suite.program.functions[function_of(suite)]
    states = {main.outputs.index(after) for _, after in main.states.values()}
    # Nor are limits: a call beyond them is refused.
    places = [place for place in range(len(main.outputs)) if place not in {*states, *suite.limits(function_of(suite))}]
    names = [suite.output_names(function_of(suite))[place] for place in places]
    steps = _steps(suite)
    if len(found.outputs) != len(steps):
        return f"{len(found.outputs)} calls gave outputs, of {len(steps)}"
    for (number, step), outputs in zip(steps, found.outputs, strict=True):
        if [*outputs] != names:
            return f"step {number} gives {[*outputs]}, not {names}"
        expected = [_tensor(suite, step["outputs"][place]) for place in places]
        for name, array, wanted in zip(names, outputs.values(), expected, strict=True):
            if (array.dtype, array.shape) != (wanted.dtype, wanted.shape):
                return f"step {number}: {name} is {array.dtype}{array.shape}, not {wanted.dtype}{wanted.shape}"
        tests = [test for test in suite.tests if test.step == number]
        choices = carved_choices(suite, suite.graphs[number], tests)
        chosen = {name: choices[place] for name, place in zip(names, places, strict=True) if place in choices}
        rest = [at for at, name in enumerate(names) if name not in chosen]
        metric = agreement([outputs[names[at]] for at in rest], [expected[at] for at in rest]).to_json()
        tolerance = suite.manifest["model_tolerance"]
        if not within(metric, tolerance):
            return f"step {number}: {metric}, where the tolerance is {tolerance}"
        for name, choice in chosen.items():
            off, said = choice.difference(outputs[name], (name, choice.source))
            if off > tolerance["max_abs_error"]:
                return f"step {number}: {said}, where the tolerance is {tolerance}"
    return ""


def _steps(suite: Suite) -> list[tuple[int, Mapping[str, Any]]]:
    """With their numbers, those that the function can be called with: all but draws of tokens."""
    draw = suite.generation.draw if suite.generation else None
    steps = enumerate(suite.manifest["steps"])
    return [(number, step) for number, step in steps if draw is None or step["function"] != draw]


def _given(suite: Suite, step: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(suite.program.functions[function_of(suite)].inputs, step["inputs"].values(), strict=True))


def _tensor(suite: Suite, ref: Any) -> np.ndarray:
    return suite.tensors.get(TensorRef.from_json(ref))
