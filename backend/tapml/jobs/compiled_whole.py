"""A suite's whole model as `tapml build` makes it, on a device, for models of which TVM has no library."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tapml.building.build import build
from tapml.compiled.call import function_of
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.errors import InputError
from tapml.validation.context import JobContext
from tapml.validation.hybrid import ModelStep


class CompiledWhole:
    """Runs carved steps by tapml's runtime, as a page does."""

    def __init__(self, context: JobContext, files: CompiledFiles) -> None:
        self._context = context
        self._files = files
        self.seconds: dict[str, Any] = {}
        """Of the last run: load, and of each call."""

    def run(self, step: ModelStep) -> list[np.ndarray]:
        """The model's outputs of a step. Raises what `run_compiled` raises, and Cancelled."""
        context, function = self._context, function_of(self._files.model)
        given = [context.suite.tensors.get(ref) for ref, _ in step.inputs.values()]
        inputs = {port.name: array for port, array in zip(function.inputs, given, strict=True)}
        found = run_compiled(
            context.device,
            context.blobs,
            self._files,
            [inputs],
            repeat=1,  # the second shows the time without first-use costs
            hang_seconds=context.hang_seconds,
            check=context.cancel.check,
        )
        self.seconds = {"load": found.load_seconds, "runs": list(found.call_seconds)}
        return [found.outputs[0][port.name] for port in function.outputs]


@contextmanager
def compiled_whole(context: JobContext) -> Iterator[CompiledWhole]:
    """The model, built into a folder that is gone afterwards. Raises InputError for a suite of which none can be built,
    and for one with states: a step begins with what the former left, which a compiled model keeps to itself."""
    suite = context.suite
    if suite.program.states:
        raise InputError(
            "a model with states is run whole by `tapml generate`, or by `tapml run` of what `tapml build` makes of it"
        )
    with tempfile.TemporaryDirectory(prefix="tapml-") as folder:
        built = build(suite, Path(folder) / f"{suite.name}.tapml", keep_disagreeing=True)
        yield CompiledWhole(context, CompiledFiles(built.path))
