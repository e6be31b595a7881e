"""tapml.locate/1 as a suite keeps it (docs/locate.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import FailFast, Field

from tapml.protocol.base import JsonNumber, LongText
from tapml.protocol.methods import Verdict
from tapml.suite.fields import Count, Line, Open
from tapml.suite.result_documents import Axes, Header, ModelMetric, ModelTolerance, Seconds


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
