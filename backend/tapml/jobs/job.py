"""What is asked for, and how it is run on devices that are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.history import Recorder
from tapml.locating import Locate
from tapml.locating.locate import MOST_RUNS, RUNS, save_locate
from tapml.protocol.base import Message, Name
from tapml.protocol.session import HangSeconds
from tapml.sharing import Repro
from tapml.suite import Suite
from tapml.suite.trial import with_files
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun, require_devices
from tapml.validation.results import keep

Offer: TypeAlias = Callable[[Repro], object]
"""Takes the exported test that a job made beside its document."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has no control characters")
    return text


PlainName = Annotated[Name, AfterValidator(_printable)]
TriedFiles: TypeAlias = Annotated[dict[PlainName, str], Field(min_length=1, max_length=64)]
"""Texts by their names in the suite's folder of kernels."""


class JobSpecification(Message):
    """The body of `POST /api/jobs`, but for the suite's id; the command line's options make the same."""

    kind: Literal["validation", "offload", "locate", "reduce"]
    devices: Annotated[list[PlainName], Field(min_length=1, max_length=32)]
    """By the names that `--device` takes. Only a validation runs on several."""
    kernels: Annotated[list[PlainName], Field(min_length=1, max_length=20_000)] | None = None
    """Of "validation" and "locate": only these kernels' tests. Of "offload": only these move to the device."""
    tests: Annotated[list[Name], Field(min_length=1, max_length=100_000)] | None = None
    """Of "validation": only the tests of these ids (and of those kernels). Of "reduce": the one test."""
    runs: Annotated[int, Field(ge=1, le=MOST_RUNS)] = RUNS
    """Of "locate": how often a failing test runs again."""
    model: bool = True
    """Of "locate": whether the model runs where every operator passes."""
    hang_seconds: Annotated[HangSeconds, Field(le=86_400)] = HANG_SECONDS
    """A kernel that does not end, or is not compiled, within this time is an error."""
    save: bool = True
    """Keep what is found in the suite, where it is kept there (not of "reduce")."""
    record: bool = True
    """Of "validation": keep it in the history."""
    files: TriedFiles | None = None
    """Of "validation": texts that are tried in the place of files of `kernels`, by their names in the suite's folder of
    kernels. Nothing of such a job is kept."""

    def suite(self, suite: Suite) -> Suite:
        """The suite that the job runs: with the files that are tried. Raises InputError where one is none of the
        kernels', or makes a kernel that is none."""
        if self.files is None:
            return suite
        if self.kind != "validation" or self.kernels is None:
            raise InputError("files: only a validation of kernels that are named tries other texts")
        return with_files(suite, self.kernels, self.files)

    def check(self, suite: Suite) -> None:
        """What can be said before a device starts. Raises InputError."""
        if self.kind != "validation" and len(self.devices) > 1:
            raise InputError(f"{self.kind} runs on one device at a time: give one, not {len(self.devices)}")
        if self.kind == "reduce" and (self.tests is None or len(self.tests) != 1):
            raise InputError("reduce takes one test: name it in `tests`")
        for name in self.kernels or []:
            suite.bundle(name)
        for test in self.tests or []:
            suite.test(test)
        if self.kind in ("offload", "reduce"):
            suite.require_model()


def run_job(
    asked: JobSpecification, context: JobContext, *, history: Recorder | None = None, offer: Offer | None = None
) -> Any:
    """Run a job on devices that are there; gives its document, also after a cancel (where nothing was found until then,
    of "reduce", Cancelled is raised). Where the document cannot be kept, an event says so.

    `context`: with the devices that the specification names; its `hang_seconds` are the specification's.
    `history`: where a validation is recorded; `offer`: takes the reduced test.
    Raises InputError for a device that cannot run kernels, or a suite that is damaged.
    """
    require_devices(context.devices)
    context = replace(context, suite=context.suite.held(), hang_seconds=asked.hang_seconds)
    if asked.kind == "validation":
        kept = not context.suite.on_trial
        recorder = history if asked.record and kept else None
        save = asked.save and kept
        return OperatorRun(context, kernels=asked.kernels, tests=asked.tests, save=save, history=recorder).run()
    if asked.kind == "reduce":
        from tapml.locating.reduce import Reduce  # late: TVM takes seconds to load, and most jobs go without

        assert asked.tests is not None, "checked"
        reduction = Reduce(context, asked.tests[0])
        reduced = reduction.run()
        if offer is not None:
            offer(reduction.repro(reduced))
        return reduced
    document: Any
    keeper: Callable[[Suite, Any], object]
    if asked.kind == "locate":
        document = Locate(context, kernels=asked.kernels, runs=asked.runs, model=asked.model).run()
        keeper = save_locate
    else:
        from tapml.jobs.compiled_whole import compiled_whole  # late, as above
        from tapml.validation.offload import Offload

        document = Offload(context, asked.kernels, compiled=compiled_whole).run()
        keeper = Suite.save_result
    whole = asked.kind != "offload" or asked.kernels is None
    if asked.save and whole and (problem := keep(context.suite, keeper, document)):
        context.message(problem)
    return document
