"""Operator-wise validation: tapml.validation/1, and what became of one carved test on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from tapml.protocol.base import LongText
from tapml.protocol.fields import Count, Line, Plain, ToleranceDocument
from tapml.protocol.methods import Verdict
from tapml.results.base import Axes, Header, OutputElement, Seconds
from tapml.results.verdicts import FAILING, VerdictCounts, verdict_counts


class ArgumentType(Plain):
    """Of a kernel's argument."""

    dtype: Line
    shape: Axes


class ErrorEvidence(Plain):
    """What a device said of an error beside its message."""

    kind: Annotated[Line | None, Field(default=None)]
    gpu_message: Annotated[LongText | None, Field(default=None)]
    lost_reason: Annotated[Line | None, Field(default=None)]
    arguments: Annotated[list[ArgumentType] | None, Field(default=None)]
    stack: Annotated[LongText | None, Field(default=None)]


class Diagnostic(Plain):
    """A message of the WGSL compiler."""

    severity: Line
    line: int
    column: int
    message: LongText
    source: LongText
    file: Line


class Measured(Plain):
    """What one run of a test gave, over all of its outputs."""

    verdict: Verdict
    max_abs_error: Annotated[float | None, Field(default=None)]
    """Over finite pairs; null where nothing was compared."""
    max_rel_error: Annotated[float | None, Field(default=None)]
    """Over those whose expected value is larger than what they may differ by: others may be 0."""
    max_ulp: Annotated[float | None, Field(default=None)]
    """Over the same; for integers the largest difference."""
    ulp_histogram: Annotated[list[Count], Field(max_length=100, default_factory=list)]
    """Elements at ULP distance 0, 1, 2, 3-4, 5-8, 9-16, ...; last: NaN on one side. Without those that differ and may
    be 0."""
    mismatched: Annotated[Count, Field(default=0)]
    unbounded: Annotated[Count, Field(default=0)]
    """Elements that WGSL promises nothing for: their bound is Infinity. Never mismatched."""
    tied: Annotated[Count, Field(default=0)]
    """Index elements that differ and are right: the operator may choose among equals."""
    total: Annotated[Count, Field(default=0)]
    nan: Annotated[Count, Field(default=0)]
    inf: Annotated[Count, Field(default=0)]
    first: Annotated[OutputElement | None, Field(default=None)]
    """First element outside its bound; where there is none, the first unbounded one."""
    worst: Annotated[OutputElement | None, Field(default=None)]
    """Of the bounded ones the largest |got - expected| / bound, NaN and Inf before all others."""
    seconds: Annotated[Seconds, Field(default_factory=dict)]
    """fetch, compile, run, compare; gpu by timestamps, where the device has them."""
    message: Annotated[LongText, Field(default="")]
    """Empty when it passed."""
    edited: Annotated[bool, Field(default=False)]
    variant: Annotated[Line | None, Field(default=None)]
    """Of the kernel, the one that ran."""
    error: Annotated[ErrorEvidence | None, Field(default=None)]
    diagnostics: Annotated[list[Diagnostic], Field(max_length=100, default_factory=list)]


class TestIdentity(Plain):
    """A carved test on a device."""

    id: Line
    node: Line
    kernel: Line
    step: Count
    device: Line
    """Its id."""
    tolerances: Annotated[list[ToleranceDocument], Field(default_factory=list)]
    """One for each output."""


class TestResult(TestIdentity, Measured):
    """Of one carved test on one device."""


class ValidationHeader(Header):
    """What a validation begins with."""

    format: Literal["tapml.validation/1"]
    run: Annotated[Line | None, Field(default=None)]
    """Unique; what the history knows the run by."""


class ValidationCounts(VerdictCounts):
    """What follows from the tests alone."""

    total: Count
    failing_kernels: list[Line]
    """With a verdict that is fail, error or unbounded."""


class ValidationSummary(ValidationCounts):
    """Counts and times."""

    seconds: float
    devices: dict[Line, Seconds]
    """Where the time went, by device: wall, and the parts the runner measured."""


class ValidationRun(ValidationHeader):
    """What the history records."""

    tests: list[TestResult]


class ValidationDocument(ValidationRun):
    """tapml.validation/1."""

    summary: ValidationSummary
    earlier: Annotated[dict[Line, list[TestResult]], Field(default_factory=dict)]
    """In a suite: of kernels that were edited since, what their tests gave before, by the kernel's digest."""
    not_run: Annotated[dict[Line, list[Line]], Field(default_factory=dict)]
    """Of an interrupted run: by device, the tests that it was to run and did not. In a suite these have in `tests` what
    an earlier run gave, if anything."""


def counts(results: Sequence[TestResult]) -> ValidationCounts:
    """The part of a summary that follows from its tests."""
    failing = dict.fromkeys(result["kernel"] for result in results if result["verdict"] in FAILING)
    found = verdict_counts(result["verdict"] for result in results)
    return {**found, "total": len(results), "failing_kernels": list(failing)}
