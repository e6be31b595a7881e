"""What every job has: a suite and devices, who serves and who listens, and how it is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.device import HANG_SECONDS
from tapml.errors import DeviceError
from tapml.program import TensorType
from tapml.protocol.methods import Command
from tapml.suite import Suite
from tapml.validation.events import Cancel, Emit


@dataclass(frozen=True)
class JobContext:
    """`blobs`: serves the devices; `emit`: takes the job's events.

    `hang_seconds`: a kernel that does not end, or is not compiled, within this time is an error, and its device is made
    anew.
    """

    suite: Suite
    devices: Sequence[Device]
    blobs: Blobs
    emit: Emit = lambda event: None
    cancel: Cancel = field(default_factory=Cancel)
    hang_seconds: float = HANG_SECONDS
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """By name, of operators that nothing else computes (tapml carve --external)."""

    @property
    def device(self) -> Device:
        """That of a job on one device."""
        return self.devices[0]

    def execute(self, commands: Sequence[Command], types: Sequence[TensorType] = ()) -> list[np.ndarray]:
        """Run commands on the device; gives its downloads, which are of these types. Raises DeviceError, Cancelled."""
        called = self.device.execute(commands, types, check=self.cancel.check, hang_seconds=self.hang_seconds)
        return called.arrays

    def free(self, commands: Sequence[Command]) -> None:
        """Run commands that free what is on the device, where it is still there."""
        if self.device.connected:
            with contextlib.suppress(DeviceError):  # it is gone, and its memory with it
                self.device.execute(commands, hang_seconds=self.hang_seconds)

    def only(self, *types: str) -> JobContext:
        """For a part of the job, of whose events those of these types are the job's."""

        def emit(event: dict[str, Any]) -> None:
            if event["type"] in types:
                self.emit(event)

        return replace(self, emit=emit)

    def message(self, text: str, level: str = "warning") -> None:
        """Tell whoever listens."""
        self.emit({"type": "message", "level": level, "text": text})
