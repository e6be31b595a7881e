"""A compiled model's calls on a device: what is asked for, and how it is run, whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from tapml.compiled.call import CompiledRun, function_of, name_of_function
from tapml.compiled.files import CompiledFiles
from tapml.compiled.instructions import Dispatch, every_instruction
from tapml.compiled.validated import unvalidated
from tapml.devices import Blobs, Device
from tapml.devices.compiled import run_compiled
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.jobs.job import PlainName
from tapml.protocol.base import Digest, Message, Name
from tapml.protocol.methods import MOST_CALLS, CaptureOptions
from tapml.protocol.session import HangSeconds
from tapml.text import listed


class RunOptions(Message):
    """How a function of a compiled model is called."""

    function: Name | None = None
    """Null: `main`, or the only one."""
    repeat: Annotated[int, Field(ge=0, le=10_000)] = 0
    """How often the last call is made again, for its time."""
    hang_seconds: Annotated[HangSeconds, Field(le=86_400)] = HANG_SECONDS
    capture: CaptureOptions | None = None
    """What is captured of the last call."""


class RunSpecification(RunOptions):
    """What `POST /api/runs` begins with (docs/http-api.md)."""

    model: Name
    """Of those that the server has, by its id."""
    content: Digest
    """Of its document."""
    device: PlainName
    calls: Annotated[int, Field(ge=1, le=MOST_CALLS)]
    """How many there are in the file."""


def check_capture(files: CompiledFiles, asked: RunOptions) -> None:
    """Raises InputError for a function that the model has not, and for nodes that are none of it."""
    function = function_of(files.model, asked.function)
    names: dict[str, None] = {}
    for found in every_instruction(function.code):
        if isinstance(found, Dispatch):
            for one in (found, *found.each):
                names.update(dict.fromkeys(filter(None, (one.node, files.model.kernels[one.kernel].kernel))))
    wanted = asked.capture and asked.capture.nodes
    if unknown := next((name for name in wanted or () if name not in names), None):
        raise InputError(
            f"{files.model.name} has no node or kernel {unknown[:100]!r} in "
            f"{name_of_function(files.model, asked.function)}: "
            f"it has {listed([*names], 8)}"
        )


def run_on_device(
    device: Device,
    blobs: Blobs,
    files: CompiledFiles,
    calls: Sequence[Mapping[str, np.ndarray]],
    asked: RunOptions,
    check: Callable[[], None],
) -> tuple[CompiledRun, list[str]]:
    """What the calls gave, and the kernels that are not validated on such a device.

    `check` is called now and then, and may raise to give the run up. Raises InputError for a device that cannot run
    kernels, and what `run_compiled` raises.
    """
    if device.hello.unavailable:
        raise InputError(f"{device.name} cannot run kernels: {device.hello.unavailable}")
    check_capture(files, asked)
    found = run_compiled(
        device,
        blobs,
        files,
        calls,
        function=asked.function,
        repeat=asked.repeat,
        hang_seconds=asked.hang_seconds,
        check=check,
        capture=asked.capture,
    )
    return found, unvalidated(files.model, device.hello.name, device.hello.runtime)
