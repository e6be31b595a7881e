"""A run for CI over suites and devices: tapml.test/1, and the baseline it is held against."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypeAliasType

from tapml.protocol.base import LongText
from tapml.protocol.fields import Count, Created, Line, Plain, day
from tapml.protocol.methods import Verdict
from tapml.results.base import DeviceDocument, Doubts, OutputElement, Seconds
from tapml.results.validation import TestResult
from tapml.results.verdicts import VerdictCounts

OUTCOMES: tuple[Literal["expected", "fixed", "flaky"], ...] = ("expected", "fixed", "flaky")
"""What is counted of a run beside its verdicts."""

Outcome = TypeAliasType("Outcome", Verdict | Literal["expected", "fixed"])
"""Beside the verdict: no better than the baseline expects, or better."""


class Attempt(Plain):
    """What is kept of an attempt that another one followed."""

    verdict: Verdict
    message: LongText
    mismatched: Count
    total: Count
    first: OutputElement | None
    worst: OutputElement | None
    seconds: Seconds


class Expectation(Plain):
    """The baseline's entry for a test."""

    verdict: Verdict
    reason: Line
    expires: Annotated[Line | None, Field(default=None)]
    """YYYY-MM-DD, the last day on which it excuses."""
    expired: bool


class Judgement(Plain):
    """What a verdict means for the run."""

    attempts: list[Verdict]
    """In order; the last is `verdict`."""
    earlier: list[Attempt]
    """The attempts before the last."""
    flaky: bool
    """Failed at first and passed when it ran again."""
    outcome: Outcome
    fails_run: bool
    expected: Expectation | None


class RunTest(TestResult, Judgement):
    """The last attempt of a test."""

    suite: Line
    """Its id."""


class RunSuite(Plain):
    """A suite of the run."""

    id: Line
    """Of the name, unique in this document."""
    digest: Line
    """`suite` of tapml.validation/1."""
    name: Line
    path: Line
    synthetic: bool
    doubts: Doubts
    edited_kernels: list[Line]
    tests: Count
    """Of this run; 0 where the shard has none of them."""


class RunDeviceDocument(DeviceDocument):
    """A device of the run."""

    requested: Line
    """As `--device` named it."""
    driver: Line | None
    """"Playwright", "chromedriver"."""
    unavailable: LongText | None
    """Why it could not be started, or cannot run WebGPU at all: its tests are unsupported and fail the run."""


class RunSummary(VerdictCounts):
    """Counts and times over all suites and attempts."""

    total: Count
    expected: Count
    fixed: Count
    flaky: Count
    fails_run: Count
    not_run: Count
    failing_kernels: list[Line]
    seconds: float
    devices: dict[Line, Seconds]


class RunDocument(Plain):
    """tapml.test/1."""

    format: Literal["tapml.test/1"]
    tapml: Line
    """Version."""
    created: Created
    interrupted: bool
    shard: Line | None
    """"1/2"."""
    baseline: Line | None
    """Path."""
    suites: list[RunSuite]
    devices: list[RunDeviceDocument]
    tests: list[RunTest]
    summary: RunSummary


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _no_pass(verdict: Verdict) -> Verdict:
    if verdict == "pass":
        raise ValueError("what passes needs no entry: give unsupported, unbounded, fail or error")
    return verdict


Said = Annotated[Line, AfterValidator(_said)]


@with_config(ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True))
class BaselineEntry(Plain):
    """One test on one device that is expected not to pass."""

    suite: Said
    """Its name."""
    test: Said
    kernel: Said
    device: Said
    """As `--device` names it."""
    verdict: Annotated[Verdict, AfterValidator(_no_pass)]
    reason: Said
    expires: Annotated[Annotated[Line, AfterValidator(day)] | None, Field(default=None)]
    """YYYY-MM-DD, the last day on which it excuses."""


class BaselineDocument(Plain):
    """tapml.baseline/1."""

    format: Literal["tapml.baseline/1"]
    created: Annotated[Line, Field(default="")]
    expected: list[BaselineEntry]
