"""What is asked for, and how it is run on devices that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tapml.devices import Blobs, Device
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.history import Recorder
from tapml.locating import Locate
from tapml.locating.locate import MOST_RUNS, RUNS, save_locate
from tapml.protocol.base import Message, Name
from tapml.protocol.session import HangSeconds
from tapml.suite import Suite
from tapml.validation.events import Cancel, Emit
from tapml.validation.operatorwise import OperatorRun, require_devices
from tapml.validation.results import keep, save_offload


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has no control characters")
    return text


_Name = Annotated[Name, AfterValidator(_printable)]


class JobSpecification(Message):
    """The body of `POST /api/jobs`, but for the suite's id; the command line's options make the same."""

    kind: Literal["validation", "offload", "locate"]
    devices: Annotated[list[_Name], Field(min_length=1, max_length=32)]
    """By the names that `--device` takes. Only a validation runs on several."""
    kernels: Annotated[list[_Name], Field(min_length=1, max_length=20_000)] | None = None
    """Only these kernels' tests (not of "offload")."""
    runs: Annotated[int, Field(ge=1, le=MOST_RUNS)] = RUNS
    """Of "locate": how often a failing test runs again."""
    model: bool = True
    """Of "locate": whether the model runs where every operator passes."""
    hang_seconds: Annotated[HangSeconds, Field(le=86_400)] = HANG_SECONDS
    """A kernel that does not end, or is not compiled, within this time is an error."""

    def check(self, suite: Suite) -> None:
        """What can be said before a device starts. Raises InputError."""
        if self.kind != "validation" and len(self.devices) > 1:
            raise InputError(f"{self.kind} runs on one device at a time: give one, not {len(self.devices)}")
        if self.kind == "offload":
            suite.require_model()
        for name in self.kernels or []:
            suite.bundle(name)


def run_job(
    job: JobSpecification,
    suite: Suite,
    devices: Sequence[Device],
    blobs: Blobs,
    *,
    emit: Emit = lambda event: None,
    cancel: Cancel | None = None,
    history: Recorder | None = None,
) -> dict[str, Any]:
    """The job's document, also after a cancel. It is kept in the suite; where that cannot be, an event says so.

    `devices`: those that the job names; `history`: where a validation is recorded. Raises InputError for a device that
    cannot run kernels, or a suite that is damaged.
    """
    require_devices(devices)
    common: dict[str, Any] = {"emit": emit, "cancel": cancel, "hang_seconds": job.hang_seconds}
    if job.kind == "validation":
        return OperatorRun(suite, devices, blobs, kernels=job.kernels, save=True, history=history, **common).run()
    if job.kind == "locate":
        common |= {"kernels": job.kernels, "runs": job.runs, "model": job.model}
        document, save = Locate(suite, devices[0], blobs, **common).run(), save_locate
    else:
        from tapml.validation.offload import Offload  # late: TVM takes seconds to load, and the others go without

        document, save = Offload(suite, devices[0], blobs, **common).run(), save_offload
    if problem := keep(suite, save, document):
        emit({"type": "message", "level": "warning", "text": problem})
    return document
