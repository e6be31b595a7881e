"""A suite's whole model as `tapml build` makes it, on a device, for models of which TVM has no library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapml.compiled.call import function_of, name_of_function
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.jobs.built_model import built_model
from tapml.suite import TensorRef
from tapml.validation.context import JobContext
from tapml.validation.hybrid import ModelStep


class CompiledWhole:
    """Runs carved steps by tapml's runtime, as a page does."""

    def __init__(self, context: JobContext, files: CompiledFiles) -> None:
        self._context = context
        self._files = files
        self.seconds: dict[str, Any] = {}
        """Of the last run: load, and of each call."""

    def run(self, step: ModelStep) -> list[np.ndarray | None]:
        """The model's outputs of a step, behind the steps before it where it has states; None for a state, which the
        model keeps to itself. Raises what `run_compiled` raises, and Cancelled."""
        context, states = self._context, step.graph.states.values()
        *before, (function, inputs) = map(self._call, range(0 if states else step.number, step.number + 1))
        found = run_compiled(
            context.device,
            context.blobs,
            self._files,
            [inputs],
            function=function,
            before=before,
            # The second shows the time without first-use costs. With states it would be another call.
            repeat=0 if states else 1,
            hang_seconds=context.hang_seconds,
            check=context.cancel.check,
        )
        self.seconds = {"load": found.load_seconds, "runs": list(found.call_seconds)}
        kept = {after for _, after in states}
        told = [value for value in step.graph.outputs if value not in kept]
        ports = function_of(self._files.model, function).outputs
        given = {value: found.outputs[0][port.name] for value, port in zip(told, ports, strict=True)}
        return [given.get(value) for value in step.graph.outputs]

    def _call(self, number: int) -> tuple[str, dict[str, np.ndarray]]:
        """The function that was carved as this step, and its inputs."""
        suite = self._context.suite
        graph, step = suite.graphs[number], suite.manifest["steps"][number]
        begun = {before for before, _ in graph.states.values()}
        refs = zip(graph.inputs, step["inputs"].values(), strict=True)
        arrays = [suite.tensors.get(TensorRef.from_json(ref)) for value, ref in refs if value not in begun]
        function = name_of_function(self._files.model, step.get("function"))
        ports = function_of(self._files.model, function).inputs
        return function, {port.name: array for port, array in zip(ports, arrays, strict=True)}


@contextmanager
def compiled_whole(context: JobContext) -> Iterator[CompiledWhole]:
    """The model, built into a folder that is gone afterwards. Raises InputError for a suite of which none can be
    built."""
    with built_model(context.suite) as files:
        yield CompiledWhole(context, files)
