"""What became of tests over time: tapml.history/1."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tapml.protocol.base import JsonNumber
from tapml.protocol.fields import Count, Created, Line, Plain
from tapml.protocol.methods import Verdict
from tapml.results.base import Doubts
from tapml.results.verdicts import VerdictCounts


class Moment(Plain):
    """A run, and the version of the device in it."""

    run: Line
    at: int
    """Milliseconds since 1970."""
    created: Created
    device: Line
    """"Chromium 156"."""


class LastMoment(Moment):
    """The last run."""

    verdict: Verdict
    kernel_digest: Line
    """Of the kernel as it ran; empty where it is not known."""


class ChangeMoment(Moment):
    """A run, and what was new in it."""

    kernel_changed: bool
    device_changed: bool


class Times(Plain):
    """Seconds; null where they are not known."""

    median: float | None
    last: float | None


class VersionCounts(VerdictCounts):
    """Runs on one version of a device."""

    device: Line
    adapter: Line
    runs: Count
    seconds: float | None
    """Median."""


class Trend(Plain):
    """A test on a family of devices with one sort of GPU; counts, rates and times are of the suite's last 500 runs."""

    test: Line
    kernel: Line
    device: Line
    """"Chromium"."""
    gpu: Line
    state: Literal["passing", "failing", "unsupported"]
    """failing: the verdict is fail, error or unbounded."""
    runs: Count
    last: LastMoment
    since: ChangeMoment
    """The first run in this state."""
    new_failure: bool
    """It fails now and passed before."""
    first_failing: Moment | None
    """In all runs."""
    first_passing: Moment | None
    flaky_runs: Count
    """Marked flaky, or with another verdict than the same kernel got before on the same version."""
    flaky_rate: float
    seconds: Times
    gpu_seconds: Times
    versions: list[VersionCounts]


class HistoryPoint(ChangeMoment):
    """A test in one run."""

    verdict: Verdict
    kernel_digest: Line
    """Of the kernel as it ran; empty where it is not known."""
    flaky: bool
    attempts: list[Line]
    """Verdicts; empty where there was one attempt."""
    bound_share: Annotated[JsonNumber | None, Field(default=None)]
    """How much of its bound the worst element takes: 1 for all of it, "Infinity" where a number was expected and none
    came; null where nothing was compared, it has no bound, or an earlier version recorded it."""
    max_abs_error: float | None
    max_ulp: float | None
    mismatched: Count
    total: Count
    variant: Line | None
    message: Line
    seconds: float | None
    gpu_seconds: float | None


class DeviceHistory(Plain):
    """A test on one sort of device."""

    device: Line
    gpu: Line
    trend: Trend
    points: list[HistoryPoint]
    """Newest last."""


class SuiteHistory(Plain):
    """What needs a look comes first."""

    runs: Count
    trends: list[Trend]


class TestHistory(Plain):
    """Of one test."""

    test: Line
    kernel: Line
    devices: list[DeviceHistory]


class HistoryHeader(Plain):
    """What both documents say."""

    format: Literal["tapml.history/1"]
    suite: Line
    suite_name: Line
    doubts: Doubts


class SuiteHistoryDocument(SuiteHistory, HistoryHeader):
    """tapml.history/1."""


class TestHistoryDocument(TestHistory, HistoryHeader):
    """tapml.history/1 of one test."""
