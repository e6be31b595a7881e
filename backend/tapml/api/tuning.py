"""Measuring which kernels of a module are the fastest on a device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm

from tapml.api.devices import Device, WebGpuDevice
from tapml.api.library import lowered_function
from tapml.api.modules import Module
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.files import write_json
from tapml.tuning.timing import Timing
from tapml.tuning.tune import Told
from tapml.tuning.tune import tune as tuned


def tune(
    module: Module | tvm.IRModule,
    device: Device,
    *,
    turns: int = 3,
    hang_seconds: float = HANG_SECONDS,
    path: Path | str | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> dict[str, Any]:
    """Time each kernel that there is of the operators of `module` on `device`, as `tapml tune` does. The least time of
    so many `turns` counts, of three times as many for those near the fastest.

    Gives the document tapml.tuned/1 (docs/choosing.md), and writes it to `path`: `tapml carve --tuned` chooses by it.
    `document["kernels"]` has, for each operator, its `candidates` with `microseconds`, or why one is `refused`: what
    does not give what the others give has no time, and what takes longer than `hang_seconds` has none.
    `progress(operator, done, total)`.

    Raises InputError for a device that is no WebGPU device; DeviceError where the device is gone.
    """
    if not isinstance(device, WebGpuDevice):
        raise InputError(f"{device!r} does not run WGSL kernels: give tml.webgpu(...)")
    if turns < 1:
        raise InputError(f"{turns} turns are none: give 1 or more")
    whole = module if isinstance(module, Module) else Module(module)
    operators = [
        (one.name, one) for name in whole.functions for one in lowered_function(whole.ir_module, name).operators
    ]
    device.synchronize()

    def told(one: Told) -> None:
        progress(one.name, one.done, one.total)

    timing = Timing(device.session.device, device.session.blobs, turns, hang_seconds)
    document: dict[str, Any] = tuned(operators, timing, told).model_dump(mode="json", exclude_none=True)
    if path is not None:
        write_json(Path(path), document)
    return document
