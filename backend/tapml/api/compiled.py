"""Compiled models: what a page loads, built and run from Python."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tapml.api.devices import Device, WebGpuDevice, cpu
from tapml.building import build as building
from tapml.compiled.call import CompiledRun, function_of
from tapml.compiled.files import CompiledFiles
from tapml.compiled.text import text_inputs
from tapml.devices.compiled import run_compiled
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.platforms.compiled import run_on_cpu
from tapml.results.base import distrust
from tapml.suite import Suite

Arrays = Mapping[str, np.ndarray]


class CompiledModel:
    """A compiled model, as `tapml build` wrote it: a folder or a file. It was proven when it was opened."""

    def __init__(self, path: str | Path) -> None:
        """Raises InputError where `path` is no compiled model, is damaged, or is not proven."""
        self.path = Path(path)
        self._files = CompiledFiles(self.path)
        for line in distrust(str(path), self._files.proven().provenance.doubts):
            warnings.warn(line, stacklevel=3)

    @property
    def files(self) -> CompiledFiles:
        """What it consists of."""
        return self._files

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs of `main`, or of the only function. Raises InputError where there are several others."""
        return [port.name for port in function_of(self._files.model).inputs]

    @property
    def outputs(self) -> list[str]:
        """Names of its outputs. Raises InputError likewise."""
        return [port.name for port in function_of(self._files.model).outputs]

    def of_texts(self, *texts: str) -> dict[str, np.ndarray]:
        """The inputs that the model's tokenizer makes of texts, a row for each. Raises InputError where it has none."""
        return text_inputs(self._files, None, texts)

    def run(self, inputs: Arrays, device: Device | None = None) -> dict[str, np.ndarray]:
        """Call `main`, or the only function, with arrays by name, on a device as a page does, or on this machine; gives
        its outputs by name.

        Raises InputError for what it does not take, DeviceError with what the device reports.
        """
        return dict(self.run_calls([inputs], device).outputs[0])

    def run_calls(
        self,
        calls: Sequence[Arrays],
        device: Device | None = None,
        *,
        function: str | None = None,
        repeat: int = 0,
        hang_seconds: float = HANG_SECONDS,
    ) -> CompiledRun:
        """Call a function (default: that of `run`) once for each of `calls`, in order: each begins with the states that
        the former left. The last is made `repeat` times again, for its time. The model is loaded anew: its states begin
        as its file says.

        Raises as `run`.
        """
        device = device or cpu()
        if isinstance(device, WebGpuDevice):
            device.synchronize()
            session = device.session
            return run_compiled(
                session.device,
                session.blobs,
                self._files,
                calls,
                function=function,
                repeat=repeat,
                hang_seconds=hang_seconds,
            )
        if device.kind != "cpu":
            raise InputError(f"a compiled model does not run on {device.kind}: give tml.cpu() or tml.webgpu(...)")
        return run_on_cpu(self._files, calls, function=function, repeat=repeat)

    def __repr__(self) -> str:
        return f"<tapml.CompiledModel {self.path}>"


def build(
    suite: Suite | str | Path,
    output: str | Path,
    *,
    single: bool = False,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    overwrite: bool = False,
    keep_disagreeing: bool = False,
) -> CompiledModel:
    """Make a compiled model of a suite, as `tapml build` does: a folder at `output`, or with `single` one file.
    `ranges`: of symbols that are to take fewer sizes than in the suite, least and most.

    Raises InputError where a kernel has no WGSL, the suite is damaged or (unless `keep_disagreeing`) in doubt, and
    where nothing can be written there.
    """
    found = suite if isinstance(suite, Suite) else Suite(Path(suite))
    built = building.build(
        found,
        Path(output),
        single=single,
        ranges=ranges or {},
        overwrite=overwrite,
        keep_disagreeing=keep_disagreeing,
    )
    return CompiledModel(built.path)


def load_model(path: str | Path) -> CompiledModel:
    """Open what `tapml build` wrote. Raises InputError as CompiledModel does; a UserWarning where its reference is in
    doubt."""
    return CompiledModel(path)
