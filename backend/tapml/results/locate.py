"""Who is to blame and why: tapml.locate/1 (docs/locate.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from tapml.protocol.base import JsonNumber, LongText
from tapml.protocol.fields import Count, Line, Plain
from tapml.protocol.methods import Verdict
from tapml.results.base import Axes, Element, Header, ModelMetric, ModelTolerance, Seconds

LocateVerdict: TypeAlias = Literal["clean", "faulty", "unbounded", "compound", "unknown"]


class HeatMap(Plain):
    """Where an output is wrong, over its last two axes: at most 64 x 64 cells."""

    rows: Count
    columns: Count
    row_extent: Count
    """Elements that a cell spans, down."""
    column_extent: Count
    """The same, across."""
    values: Annotated[list[Annotated[list[float | None], Field(max_length=64)]], Field(max_length=64)]
    """0: inside the bound; from 0.25 on: outside, by the excess' logarithm; null: none outside and some unbounded."""
    legend: Annotated[dict[Line, Line], Field(default_factory=dict)]


class BoundFacts(Plain):
    """What an output's elements may differ by."""

    min: JsonNumber
    median: JsonNumber
    max: JsonNumber
    reasons: list[Line]


class WrongOutput(Plain):
    """One output of the test that shows a fault best."""

    output: Count
    shape: Axes
    dtype: Line
    total: Count
    mismatched: Count
    unbounded: Count
    nan: Count
    inf: Count
    max_abs_error: JsonNumber
    max_excess: JsonNumber
    """|error| / bound."""
    bound: BoundFacts
    first: Element | None
    worst: Element | None
    heatmap: HeatMap


class FoundPattern(Plain):
    """Something that is true of a mismatch."""

    pattern: Line
    text: LongText
    strength: float
    details: Annotated[dict[Line, Any], Field(default_factory=dict)]
    """Numbers of the pattern."""


class TestCounts(Plain):
    """Of a suspect."""

    failed: Count
    total: Count


class Suspect(Plain):
    """A kernel that may be faulty."""

    kernel: Line
    nodes: list[Line]
    """Those that fail."""
    passing_nodes: list[Line]
    names: Annotated[dict[Line, Line], Field(default_factory=dict)]
    """Node -> what the model's file calls the value that it gives, of those that fail and have such a name."""
    verdict: Verdict
    """The worst of its tests'."""
    tests: TestCounts
    score: float
    reason: LongText
    edited: bool
    findings: list[FoundPattern]
    """Strongest first."""
    deterministic: bool | None
    """Null: it was not run again."""
    runs: Count
    differing: Count
    """Elements that differ between runs that begin alike."""
    test: Line
    """The clearest failing one, which `outputs` are of."""
    outputs: list[WrongOutput]


class Suspicious(Plain):
    """A kernel that passes, with errors that rounding does not explain."""

    kernel: Line
    nodes: list[Line]
    """Whose tests show it, of the two that use most of their bounds."""
    test: Line
    """The one that shows it most."""
    output: Count
    """Of that test."""
    times: float
    """How many times as large as those of simulated rounding its errors are."""
    share: float
    """Of its bound, the most that an element uses."""
    simulated_share: float
    """The same for simulated rounding."""
    text: LongText
    edited: bool


class MissingBarrier(Plain):
    """An edited kernel that passes, and whose text orders two accesses to workgroup memory by nothing: a race, which
    the device does not show."""

    kernel: Line
    nodes: list[Line]
    """Those that call it."""
    file: Line
    variable: Line
    written: Count
    """The line, from 1 on."""
    read: Count
    text: LongText


class GrownNode(Plain):
    """One node, in the order of the graph: how far its output is off when all nodes run on the device."""

    node: Line
    kernel: Line
    error: JsonNumber
    relative: JsonNumber
    local: JsonNumber | None
    """Its own part, with the carved inputs."""
    amplification: JsonNumber | None


class TriedPositions(Plain):
    """Of a decoder: operators that read positions, in calls at positions that nobody carved."""

    kernels: list[Line]
    left_out: list[Line]
    """Those that could not be tried."""
    calls: Count
    last: Count
    """The last position."""
    text: LongText


class ModelCheck(Plain):
    """The whole model, where every operator passes."""

    verdict: Verdict
    metric: ModelMetric | None
    tolerance: ModelTolerance
    growth: list[GrownNode]
    minimal_nodes: list[Line] | None
    """Those whose return to the reference brings the model back; null where too many share the error."""
    model_runs: Count
    text: LongText


class LocateSummary(Plain):
    """What was found."""

    faulty_kernels: list[Line]
    """Those that fail, have errors or race; most certain first."""
    unbounded_kernels: Annotated[list[Line], Field(default_factory=list)]
    """Those that are within their bounds where they have one, and rely on what WGSL does not promise elsewhere."""
    verdict: LocateVerdict
    """unbounded: no kernel is faulty, and some are unbounded; unknown: interrupted before anything was suspected."""
    tests: Count
    seconds: float
    parts: Seconds
    """validate, examine, positions, rounding, model."""
    suspicious_kernels: Annotated[list[Line], Field(default_factory=list)]
    """Furthest first. They are not faulty: the verdict is as it would be without them."""
    racing_kernels: Annotated[list[Line], Field(default_factory=list)]
    """Those of `missing_barriers`. They pass: the verdict is as it would be without them."""


class LocateDocument(Header):
    """tapml.locate/1."""

    format: Literal["tapml.locate/1"]
    runs: Count
    """Of each failing test that is examined."""
    summary: LocateSummary
    kernels: list[Suspect]
    """Most certain first; what is unsupported last."""
    suspicious: Annotated[list[Suspicious], Field(default_factory=list)]
    """Furthest first."""
    missing_barriers: Annotated[list[MissingBarrier], Field(default_factory=list)]
    positions: Annotated[TriedPositions | None, Field(default=None)]
    """None for a model that generates no tokens, and where it was not tried."""
    model: ModelCheck | None
