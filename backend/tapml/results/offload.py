"""Moving a model to a device kernel by kernel: tapml.offload/1."""

from __future__ import annotations

from typing import Literal

from tapml.protocol.base import LongText
from tapml.protocol.fields import Count, Line, Plain
from tapml.protocol.methods import Verdict
from tapml.results.base import Header, ModelMetric, ModelTolerance


class OffloadStep(Plain):
    """A kernel that was moved to the device, or not."""

    kernel: Line
    nodes: list[Line]
    operator_verdict: Verdict
    """The worst of its tests'."""
    model_metric: ModelMetric | None
    """Null when the kernel was not moved."""
    kept: bool
    """The kernel's nodes stay on the device from here on."""
    offloaded_nodes: Count
    """Nodes on the device."""
    segments: Count
    """In how many uninterrupted runs."""
    seconds: float
    message: LongText


class OffloadFinal(Plain):
    """The whole model on the device."""

    verdict: Verdict
    mode: Line
    """"virtual-machine": TVM's, with a library of the whole model; "compiled": as `tapml build` makes it, by tapml's
    runtime, where kernels are not TVM's."""
    model_metric: ModelMetric | None
    seconds: dict[Line, float | list[float]]
    message: LongText
    kept_on_reference: list[Line]
    """Kernels that stayed on the reference platform."""


class OffloadSummary(Plain):
    """Counts and times."""

    kernels: Count
    offloaded: Count
    kept_on_reference: list[Line]
    nodes: Count
    offloaded_nodes: Count
    seconds: float


class OffloadDocument(Header):
    """tapml.offload/1."""

    format: Literal["tapml.offload/1"]
    model_tolerance: ModelTolerance
    steps: list[OffloadStep]
    final: OffloadFinal
    summary: OffloadSummary


def fate(step: OffloadStep) -> Literal["moved", "put back", "stayed"]:
    """What became of a kernel, in the words of every page and report: on the device from then on; tried there, and the
    model was off with it; or never tried, for its tests do not pass."""
    if step["kept"]:
        return "moved"
    return "put back" if step["operator_verdict"] == "pass" else "stayed"
