"""tapml.offload/1 as a suite keeps it (docs/results-format.md)."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast

from tapml.protocol.base import LongText
from tapml.protocol.methods import Verdict
from tapml.suite.fields import Count, Line, Open
from tapml.suite.result_documents import Header, ModelMetric, ModelTolerance


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
