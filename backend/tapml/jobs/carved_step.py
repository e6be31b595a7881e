"""One step of a text that a suite's model wrote, carved as a device runs it: each operator call is judged and becomes a
test of the suite."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from tapml.devices import Blobs, Device
from tapml.devices.compiled import run_compiled
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.jobs.built_model import built_model
from tapml.jobs.job import PlainName
from tapml.jobs.written_text import Prompt
from tapml.program.generation import Generation
from tapml.protocol.base import Message
from tapml.protocol.methods import MOST_CALLS, CaptureOptions
from tapml.protocol.session import HangSeconds
from tapml.sharing.capture import read_capture
from tapml.suite import Suite
from tapml.validation.events import Cancel, Emit
from tapml.validation.operatorwise import require_devices

_MOST_BYTES = 1 << 30


class StepSpecification(Message):
    """The body of `POST /api/suites/<suite>/steps`."""

    device: PlainName
    ids: Annotated[Prompt, Field(min_length=1)]
    """The text up to the last token of the step's call."""
    prompt_tokens: Annotated[int, Field(ge=1)]
    """How many of them are the prompt's, which are called in chunks; those behind it one by one."""
    hang_seconds: HangSeconds = Field(default=HANG_SECONDS, le=86_400)


def check_step(asked: StepSpecification, facts: Generation) -> None:
    """Raises InputError for a text that the model cannot have written."""
    if asked.prompt_tokens > len(asked.ids):
        raise InputError(f"the prompt has {asked.prompt_tokens} tokens, and the text {len(asked.ids)}: give all of it")
    if len(asked.ids) > facts.capacity:
        raise InputError(f"the text has {len(asked.ids)} tokens, and the model has room for {facts.capacity}")
    if unknown := next((token for token in asked.ids if token >= facts.vocabulary), None):
        raise InputError(f"{unknown} is no token of the model: its vocabulary goes from 0 to {facts.vocabulary - 1}")
    if len(_parts(asked, facts)) > MOST_CALLS:
        raise InputError(f"the step comes behind more than {MOST_CALLS} calls: carve one before")


def carve_step(
    asked: StepSpecification, suite: Suite, device: Device, blobs: Blobs, emit: Emit, cancel: Cancel
) -> dict[str, Any]:
    """Call the model for the text, capture its last call on `device`, and add what was captured to the suite: an
    `Imported` (docs/http-api.md). Events are "compare".

    Raises InputError as `build` and where the suite cannot be written to, DeviceError where the device fails.
    """
    # Late: TVM takes seconds to load.
    from tapml.sharing.captured_import import import_into

    require_devices([device])
    facts = suite.generation
    assert facts is not None, "checked"
    calls = [_call(facts, asked.ids, *part) for part in _parts(asked, facts)]
    function, inputs = calls[-1]

    def told(done: int, total: int) -> None:
        cancel.check()
        emit({"type": "compare", "done": done, "total": total})

    with built_model(suite) as files, tempfile.NamedTemporaryFile(prefix="tapml-step-") as file:
        found = run_compiled(
            device,
            blobs,
            files,
            [inputs],
            function=function,
            before=calls[:-1],
            hang_seconds=asked.hang_seconds,
            check=cancel.check,
            capture=CaptureOptions(max_bytes=_MOST_BYTES),
        )
        file.write(found.capture or b"")
        file.flush()
        capture = read_capture(Path(file.name))
        if capture is None:
            raise InputError(f"{device.name} sent no captured call: try again")
        return import_into(capture, suite, told)


def _parts(asked: StepSpecification, facts: Generation) -> list[tuple[int, int]]:
    """Where the tokens of each call begin and end."""
    ends = [*range(0, asked.prompt_tokens, facts.chunk), *range(asked.prompt_tokens, len(asked.ids) + 1)]
    return list(pairwise(ends))


def _call(facts: Generation, ids: Sequence[int], begin: int, end: int) -> tuple[str, dict[str, np.ndarray]]:
    return facts.prefill if end - begin > 1 else facts.decode, facts.call(ids[begin:end], begin)
