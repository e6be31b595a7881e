"""tapml.validation/1 as a suite keeps it, and what all result documents begin with (docs/results-format.md).

Documents of earlier versions lack some fields: those have defaults here. What is read is handed on as it was written.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import FailFast, Field, model_validator

from tapml.protocol.base import JsonNumber, LongText
from tapml.protocol.methods import Verdict
from tapml.suite.fields import Count, Created, Line, Open
from tapml.suite.tests_document import ToleranceDocument

Axes = Annotated[list[Count], Field(max_length=32)]
Seconds = dict[Line, float]


class AdapterDocument(Open):
    """GPUAdapterInfo."""

    vendor: Line = ""
    architecture: Line = ""
    device: Line = ""
    description: Line = ""


class DeviceFacts(Open):
    """A device, for people: its id means nothing outside its document."""

    name: Line
    runtime: Line = ""
    user_agent: Line
    adapter: AdapterDocument
    features: Annotated[list[Line], Field(max_length=1000)] = Field(default_factory=list)
    limits: dict[Line, float] = Field(default_factory=dict)


class DeviceDocument(DeviceFacts):
    """A device that took part."""

    id: Line


class WrongElement(Open):
    """An element, its index within its output."""

    output: Count
    index: Axes
    expected: JsonNumber | None
    got: JsonNumber | None
    bound: JsonNumber | None = None


class Evidence(Open):
    """What a device said of an error beside its message."""

    kind: Line | None = None
    gpu_message: LongText | None = None
    lost_reason: Line | None = None
    arguments: list[dict[str, Any]] | None = None
    stack: LongText | None = None


class CompilerMessage(Open):
    """Of the WGSL compiler."""

    severity: Line
    line: int
    column: int
    message: LongText
    source: LongText
    file: Line


class Measured(Open):
    """What one run of a test gave."""

    verdict: Verdict
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    max_ulp: float | None = None
    ulp_histogram: Annotated[list[Count], Field(max_length=100)] = Field(default_factory=list)
    mismatched: Count = 0
    unbounded: Count = 0
    tied: Count = 0
    total: Count = 0
    nan: Count = 0
    inf: Count = 0
    first: WrongElement | None = None
    worst: WrongElement | None = None
    seconds: Seconds = Field(default_factory=dict)
    message: LongText = ""
    edited: bool = False
    variant: Line | None = None
    error: Evidence | None = None
    diagnostics: Annotated[list[CompilerMessage], Field(max_length=100)] = Field(default_factory=list)


class TestResult(Measured):
    """Of one test on one device."""

    id: Line
    node: Line
    kernel: Line
    step: Count
    device: Line
    tolerances: list[ToleranceDocument] = Field(default_factory=list)


class Header(Open):
    """What every result document begins with."""

    format: Line
    suite: Line
    suite_name: Line
    synthetic: bool
    created: Created
    interrupted: bool
    edited_kernels: list[Line]
    devices: Annotated[list[DeviceDocument], Field(min_length=1, max_length=1)]
    run: Line | None = None
    kernel_digests: dict[Line, Line] = Field(default_factory=dict)


class ValidationSummary(Open):
    """Counts of verdicts."""

    total: Count
    failing_kernels: list[Line]
    seconds: float
    devices: dict[Line, Seconds]
    unbounded: Count = 0
    passed: Annotated[Count, Field(alias="pass")]
    fail: Count
    error: Count
    unsupported: Count


class ValidationDocument(Header):
    """tapml.validation/1 as a suite keeps it: of one device."""

    tests: Annotated[list[TestResult], FailFast()]
    summary: ValidationSummary

    @model_validator(mode="after")
    def _of_its_device(self) -> ValidationDocument:
        known = {device.id for device in self.devices}
        if any(test.device not in known for test in self.tests):
            raise ValueError("a test ran on a device that is not among `devices`")
        if len({test.id for test in self.tests}) != len(self.tests):
            raise ValueError("a test stands twice")
        return self


class ModelMetric(Open):
    """How far the whole model's output is off."""

    cosine: JsonNumber | None
    max_abs_error: JsonNumber | None
    step: Count = 0


class ModelTolerance(Open):
    """What it may be off by."""

    cosine: float
    max_abs_error: float
    reasons: list[Line]
