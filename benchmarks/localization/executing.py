"""What a kernel's outputs are on a device: of its own WGSL or of a mutant's, for carved or any other inputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.commands import allocated, uploaded
from tapml.devices.messages import kernel_message
from tapml.errors import DeviceError
from tapml.protocol import methods
from tapml.suite import Suite, TensorRef

Array = np.ndarray[Any, Any]
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Call:
    """One call's inputs, by the digests of their bytes, and the types of its outputs."""

    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]


class KernelOnDevice:
    """One kernel and the inputs of some calls of it, which stay on the device. A context manager."""

    def __init__(self, suite: Suite, kernel: str, calls: Sequence[Call], device: Device, blobs: Blobs) -> None:
        self._suite = suite
        self._kernel = kernel
        self._calls = list(calls)
        self._device = device
        self._blobs = blobs
        self._prefix = f"x{next(_NUMBERS)}/"
        self._generation: int | None = None
        blobs.add_store(suite.tensors)

    def __enter__(self) -> KernelOnDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self._free(self._prefix)

    def outputs(self, changed: Mapping[str, str], runs: int = 1) -> list[list[Array]]:
        """What the kernel gives with the texts of some files changed: for each run the outputs of all calls, one call
        after the other. What it leaves unwritten is 0xFF.

        Raises DeviceError where it does not compile or run, DeviceLost where the device is lost by it.
        """
        texts = [changed.get(file.name, file.text) for file in self._suite.kernel_files(self._kernel)]
        with self._blobs.holding(text.encode() for text in texts) as code:
            kernel = kernel_message(self._suite.bundle(self._kernel), code)
            commands = [*self._uploads(), methods.LoadCommand(library=self._prefix, kernels=[kernel])]
            for run, (number, call) in itertools.product(range(runs), enumerate(self._calls)):
                commands += self._commands(call, f"{self._prefix}{run}/{number}/")
            types = [ref.type for _ in range(runs) for call in self._calls for ref in call.outputs]
            try:
                arrays = self._device.execute(commands, types).arrays
            except DeviceError:
                # Nobody knows how far it came.
                self._free(self._prefix)
                self._generation = None
                raise
        each = len(arrays) // runs
        return [arrays[run * each : (run + 1) * each] for run in range(runs)]

    def _uploads(self) -> list[methods.Command]:
        """What brings the inputs, where they are not there (any more)."""
        if self._generation == self._device.generation:
            return []
        self._generation = self._device.generation
        refs = dict.fromkeys(ref for call in self._calls for ref in call.inputs)
        return [uploaded(self._input(ref), ref.digest, ref.type) for ref in refs]

    def _input(self, ref: TensorRef) -> str:
        return f"{self._prefix}in/{ref.digest}/{ref.dtype}/{'x'.join(map(str, ref.shape))}"

    def _commands(self, call: Call, prefix: str) -> Iterator[methods.Command]:
        names = [f"{prefix}{place}" for place in range(len(call.outputs))]
        for name, ref in zip(names, call.outputs, strict=True):
            yield allocated(name, ref.type)
        given = [self._input(ref) for ref in call.inputs]
        yield methods.CallCommand(library=self._prefix, kernel=self._kernel, arguments=given + names)
        yield from (methods.DownloadCommand(tensor=name) for name in names)
        yield methods.FreeCommand(tensors=names)

    def _free(self, prefix: str) -> None:
        if self._device.connected:
            self._device.execute(
                [methods.FreePrefixCommand(prefix=prefix), methods.UnloadCommand(library=self._prefix)]
            )
