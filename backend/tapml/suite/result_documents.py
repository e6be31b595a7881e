"""`results/KIND.DEVICE.json`, read from documents that may be hostile (docs/results-format.md, docs/locate.md).

Documents of earlier versions lack some fields: those have defaults here. What is read is handed on as it was written.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import FailFast, Field, model_validator

from tapml.errors import InputError
from tapml.folder import Folder
from tapml.protocol.base import JsonNumber, LongText
from tapml.protocol.methods import Verdict
from tapml.suite.fields import Count, Created, Line, Open
from tapml.suite.formats import MOST_BYTES, format_version, read_json, validated
from tapml.suite.tests_document import ToleranceDocument

_MEND = "; it is left out: run the command again, or remove the file"
_MOST_SHOWN = 20

Axes = Annotated[list[Count], Field(max_length=32)]
Seconds = dict[Line, float]


class AdapterDocument(Open):
    """GPUAdapterInfo."""

    vendor: Line = ""
    architecture: Line = ""
    device: Line = ""
    description: Line = ""


class DeviceDocument(Open):
    """A device that took part."""

    id: Line
    name: Line
    runtime: Line = ""
    user_agent: Line
    adapter: AdapterDocument
    features: Annotated[list[Line], Field(max_length=1000)] = Field(default_factory=list)
    limits: dict[Line, float] = Field(default_factory=dict)


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


class OffloadStep(Open):
    """A kernel that was moved to the device, or not."""

    kernel: Line
    nodes: list[Line]
    operator_verdict: Verdict
    model_metric: ModelMetric | None
    kept: bool
    offloaded_nodes: Count
    segments: Count
    seconds: float
    message: LongText


class FinalDocument(Open):
    """The whole model on the device."""

    verdict: Verdict
    mode: Line
    model_metric: ModelMetric | None
    seconds: dict[Line, float | list[float]]
    message: LongText
    kept_on_reference: list[Line]


class OffloadSummary(Open):
    """What was offloaded."""

    kernels: Count
    offloaded: Count
    kept_on_reference: list[Line]
    nodes: Count
    offloaded_nodes: Count
    seconds: float


class OffloadDocument(Header):
    """tapml.offload/1."""

    model_tolerance: ModelTolerance
    steps: Annotated[list[OffloadStep], FailFast()]
    final: FinalDocument
    summary: OffloadSummary


class LocatedElement(Open):
    """An element of an output."""

    index: Axes
    expected: JsonNumber | None
    got: JsonNumber | None
    bound: JsonNumber | None


class HeatMap(Open):
    """At most 64 x 64 cells."""

    rows: Count
    columns: Count
    row_extent: Count
    column_extent: Count
    values: Annotated[list[Annotated[list[float | None], Field(max_length=64)]], Field(max_length=64)]


class BoundFacts(Open):
    """What elements may differ by."""

    min: JsonNumber | None
    median: JsonNumber | None
    max: JsonNumber | None
    reasons: list[Line]


class WrongOutput(Open):
    """One output of the test that shows a fault best."""

    output: Count
    shape: Axes
    dtype: Line
    total: Count
    mismatched: Count
    unbounded: Count
    nan: Count
    inf: Count
    max_abs_error: JsonNumber | None
    max_excess: JsonNumber | None
    bound: BoundFacts
    first: LocatedElement | None
    worst: LocatedElement | None
    heatmap: HeatMap


class Finding(Open):
    """A pattern of a fault."""

    pattern: Line
    text: LongText
    strength: float


class TestCounts(Open):
    """Of a suspect."""

    failed: Count
    total: Count


class Suspect(Open):
    """A kernel that may be faulty."""

    kernel: Line
    nodes: list[Line]
    passing_nodes: list[Line]
    verdict: Verdict
    tests: TestCounts
    score: float
    reason: LongText
    edited: bool
    findings: list[Finding]
    deterministic: bool | None
    runs: Count
    differing: Count
    test: Line
    outputs: list[WrongOutput]


class GrownNode(Open):
    """How far a node's output is off."""

    node: Line
    kernel: Line
    error: JsonNumber | None
    relative: JsonNumber | None
    local: JsonNumber | None
    amplification: JsonNumber | None


class ModelCheck(Open):
    """What the whole model says."""

    verdict: Verdict
    metric: ModelMetric | None
    tolerance: ModelTolerance
    growth: list[GrownNode]
    minimal_nodes: list[Line] | None
    model_runs: Count
    text: LongText


class LocateSummary(Open):
    """What was found."""

    faulty_kernels: list[Line]
    verdict: Literal["clean", "faulty", "compound", "unknown"]
    tests: Count
    seconds: float
    parts: Seconds


class LocateDocument(Header):
    """tapml.locate/1."""

    runs: Count
    summary: LocateSummary
    kernels: Annotated[list[Suspect], FailFast()]
    model: ModelCheck | None


RESULT_KINDS: dict[str, type[Header]] = {
    "validation": ValidationDocument,
    "offload": OffloadDocument,
    "locate": LocateDocument,
}


def read_results(folder: Folder, kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents of a kind in a suite's `results`, and a sentence for each that is none; never raises for them."""
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    left = MOST_BYTES
    for name in folder.names("results"):
        if not re.fullmatch(rf"{kind}\..+\.json", name, re.DOTALL):
            continue
        try:
            document = read_json(folder, f"results/{name}", most=left)
            check_result(str(folder.path / "results" / name), kind, document)
        except InputError as error:
            problems.append(str(error))
        else:
            found.append(document)
            left -= folder.size(f"results/{name}") or 0
    return found, _few(problems)


def check_result(where: str, kind: str, document: Any) -> None:
    """Raises InputError naming `where` and the field that is wrong."""
    form = document.get("format") if isinstance(document, dict) else None
    format_version(where, form, f"tapml.{kind}/1", f"the result of `tapml {kind}`")
    validated(where, RESULT_KINDS[kind], document, _MEND)


def _few(problems: list[str]) -> list[str]:
    """A suite may hold a million files."""
    rest = len(problems) - _MOST_SHOWN
    return problems if rest <= 0 else [*problems[:_MOST_SHOWN], f"and {rest} more results are left out"]
