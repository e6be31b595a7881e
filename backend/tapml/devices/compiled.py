"""A compiled model on a device, run there as a page runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from tapml.compiled.call import Call, CompiledRun, call_of, name_of_function, taken
from tapml.compiled.files import CompiledFiles, document_bytes
from tapml.devices.blobs import Blobs
from tapml.devices.commands import message
from tapml.devices.device import HANG_SECONDS, Device
from tapml.errors import DeviceError, InputError
from tapml.protocol.methods import CaptureOptions, RunCompiledParams
from tapml.protocol.session import RUN_COMPILED

MOST_CAPTURE_BYTES = 1 << 31
"""Of a file that a device sends; `tapml import` takes 2^30 bytes of tensors."""


def run_compiled(
    device: Device,
    blobs: Blobs,
    files: CompiledFiles,
    calls: Sequence[Mapping[str, np.ndarray]],
    *,
    function: str | None = None,
    repeat: int = 0,
    hang_seconds: float = HANG_SECONDS,
    check: Callable[[], None] = lambda: None,
    capture: CaptureOptions | None = None,
    before: Sequence[tuple[str, Mapping[str, np.ndarray]]] = (),
) -> CompiledRun:
    """Load the model on a device and call its function, once for each of `calls` (inputs by name), then `repeat` times
    again with the last, for its time. States go from each call to the next. `capture`: what is captured of the last.
    `before`: functions that are called before with their inputs, for what they leave in the states.

    Raises InputError for inputs that the function does not take, for a call that asks for more than the model can do
    and for a damaged file of the model, and what `Device.call` raises.
    """
    calls = [taken(files.model, function, arrays) for arrays in calls]
    found = [call_of(files.model, function, arrays) for arrays in calls]
    with ExitStack() as held:

        def served(call: Call, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
            types = call.inputs.values()
            pieces = [t.encoded(arrays[name]).tobytes() for name, t in call.inputs.items()]
            digests = held.enter_context(blobs.holding(pieces))
            described = [{"digest": d, **t.to_json()} for d, t in zip(digests, types, strict=True)]
            return dict(zip(call.inputs, described, strict=True))

        former = [(name, taken(files.model, name, arrays)) for name, arrays in before]
        fields = {
            "before": [
                {"function": name, "inputs": served(call_of(files.model, name, arrays), arrays)}
                for name, arrays in former
            ],
            "model": held.enter_context(served_model(blobs, files)),
            "function": name_of_function(files.model, function),
            "calls": [served(call, arrays) for call, arrays in zip(found, calls, strict=True)],
            "repeat": repeat,
            "capture": None if capture is None else held.enter_context(_with_operators(capture, blobs, files)),
        }
        # What is stored of an output is nobody's business: it comes as its dtype says.
        outputs = [output.logical for call in found for output in call.outputs.values()]
        params = message(RunCompiledParams, fields, files.model.name)
        more = 0 if capture is None else MOST_CAPTURE_BYTES
        try:
            called = device.call(RUN_COMPILED, params, outputs, hang_seconds=hang_seconds, check=check, most_more=more)
        except DeviceError as error:
            if error.report is None or error.kind != "input":
                raise
            raise InputError(f"{files.model.name}: {error.report.message}") from error
    if len(called.more) != called.result.captured:
        said = f"{len(called.more)} bytes of a capture that has {called.result.captured}"
        raise DeviceError(f"{device.name} sent {said}", "protocol")
    arrays_of = iter(called.arrays)
    result = called.result
    return CompiledRun(
        [{name: next(arrays_of) for name in call.outputs} for call in found],
        result.seconds.load,
        result.seconds.calls,
        result.variants,
        result.bytes,
        None if capture is None else called.more,
    )


@contextmanager
def _with_operators(capture: CaptureOptions, blobs: Blobs, files: CompiledFiles) -> Iterator[dict[str, Any]]:
    """With the texts of the operators that are there: a model may be deployed without."""
    texts = {}
    for kernel in files.model.kernels:
        with suppress(InputError):
            texts[kernel.kernel] = files.attachment(f"operators/{kernel.kernel}.json")
    with blobs.holding(texts.values()) as digests:
        yield {**capture.model_dump(), "operators": dict(zip(texts, digests, strict=True))}


@contextmanager
def served_model(blobs: Blobs, files: CompiledFiles) -> Iterator[str]:
    """The digest of a model's document; it and its weights are blobs until the `with` block is left."""
    shards = {shard.sha256: shard for shard in files.model.weights.shards}
    pieces = (files.shard(shard) for shard in shards.values())
    with blobs.holding([document_bytes(files.model), *pieces]) as digests:
        yield digests[0]
