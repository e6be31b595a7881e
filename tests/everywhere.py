"""The same program everywhere: a suite's model, compiled, on this machine and on a device as a page runs it.

Each is held against what was carved, with the model's own tolerance, as an offload holds tvmjs's virtual machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tapml.building.build import build
from tapml.compare.agreement import agreement
from tapml.compiled.call import CompiledRun
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.platforms.compiled import run_on_cpu
from tapml.results.base import within
from tapml.server import Server
from tapml.suite import Suite, TensorRef


def check_everywhere(suite: Suite, server: Server, device: str = "node-dawn", **ranges: tuple[int, int]) -> None:
    """Build the model (for sizes of these ranges), and run all steps of its carve in order, here and on the device."""
    with tempfile.TemporaryDirectory() as folder:
        files = CompiledFiles(build(suite, Path(folder) / "model.tapml", ranges=ranges).path)
        calls = carved_inputs(suite)
        check_outputs(suite, run_on_cpu(files, calls))
        state = server.state
        check_outputs(suite, run_compiled(state.device(device), state.blobs, files, calls))


def carved_inputs(suite: Suite) -> list[dict[str, np.ndarray]]:
    """Of each step, without its states."""
    states = {before for before, _ in suite.program.main.states.values()}
    names = {value: suite.graph.values[value].name for value in suite.program.main.inputs if value not in states}
    return [
        {names[value]: tensor(suite, ref) for value, ref in given(suite, step).items() if value in names}
        for step in suite.manifest["steps"]
    ]


def given(suite: Suite, step: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(suite.program.main.inputs, step["inputs"].values(), strict=True))


def tensor(suite: Suite, ref: Any) -> np.ndarray:
    return suite.tensors.get(TensorRef.from_json(ref))


def check_outputs(suite: Suite, found: CompiledRun) -> None:
    """All outputs of all steps are there, and the states that are no outputs show in what they make of them."""
    main = suite.program.main
    states = {main.outputs.index(after) for _, after in main.states.values()}
    places = [place for place in range(len(main.outputs)) if place not in states]
    assert len(found.outputs) == len(suite.manifest["steps"])
    for step, outputs in zip(suite.manifest["steps"], found.outputs, strict=True):
        assert [*outputs] == [suite.output_names[place] for place in places]
        expected = [tensor(suite, step["outputs"][place]) for place in places]
        assert [(a.dtype, a.shape) for a in outputs.values()] == [(a.dtype, a.shape) for a in expected]
        metric = agreement([*outputs.values()], expected).to_json()
        assert within(metric, suite.manifest["model_tolerance"]), metric
