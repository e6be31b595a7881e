"""A release: one version of a task on its way to the devices, step by step, and what stops it.

A `Plan` never changes; a `Release` is a plan and how far it is. `advance` is all that moves one: a pure function of
the release, of what devices reported of its step, and of the time.
"""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from tapml.field.evidence import shows_above, shows_below
from tapml.field.names import DeviceId, TaskName, Version
from tapml.field.policies import Policy
from tapml.protocol.base import Digest, Message

_Seconds = Annotated[int, Field(ge=0, le=10_000_000)]
_Devices = Annotated[list[DeviceId], Field(min_length=1, max_length=1000)]
BrowserCell = Annotated[str, Field(pattern=r"^[a-z-]{1,32}(\+no-[a-z0-9-]{1,40})*$")]
"""A browser, and which of its WebGPU features it is to go without, so that a kernel's other variant runs."""
_Rate = Annotated[float, Field(gt=0, lt=1)]


class NamedStep(Message):
    """On named devices: `simulation` (headless browsers that the platform drives) or `beta`. It is passed when each has
    run the task without a failure."""

    kind: Literal["simulation", "beta"]
    devices: _Devices
    seconds: _Seconds = 0
    """It lasts at least so long."""
    browsers: Annotated[list[BrowserCell], Field(max_length=1000)] = Field(default_factory=list)
    """Of a simulation that the service drives itself: which browser is which device, "chromium+no-subgroups"."""

    @model_validator(mode="before")
    @classmethod
    def _drawn(cls, found: Any) -> Any:
        """Names of browsers that have none yet: nobody else can guess them and report in their place."""
        if isinstance(found, dict) and "devices" not in found and isinstance(cells := found.get("browsers"), list):
            return {**found, "devices": [secrets.token_urlsafe(16) for _ in cells]}
        return found

    @model_validator(mode="after")
    def _cells(self) -> NamedStep:
        if self.browsers and (self.kind != "simulation" or len(self.browsers) != len(self.devices)):
            raise ValueError("browsers are a simulation's, one for each device")
        return self


class GrayStep(Message):
    """On a share of the devices that the policy is for; those of the steps before are among them."""

    kind: Literal["gray"] = "gray"
    share: _Rate
    seconds: _Seconds = 0


class FullStep(Message):
    """On all that the policy is for."""

    kind: Literal["full"] = "full"


Step = Annotated[NamedStep | GrayStep | FullStep, Field(discriminator="kind")]
_ORDER = {"simulation": 0, "beta": 1, "gray": 2, "full": 3}


def step_name(step: Step) -> str:
    """For people: "gray 10%"."""
    return f"gray {step.share * 100:g}%" if isinstance(step, GrayStep) else step.kind


class Thresholds(Message):
    """What is too much, in shares of the devices of a step."""

    failure_rate: _Rate = 0.01
    slow_ms: Annotated[float, Field(gt=0)] | None = None
    """A run that takes longer is slow; without it none is."""
    slow_rate: _Rate = 0.05
    """0.05: the 95th percentile of the latency is to be at most slow_ms."""
    false_alarm: Annotated[float, Field(gt=0, le=0.1)] = 0.001
    """The most that the chance of rolling back a release whose rates are good may be, in each of its steps."""
    false_pass: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """The same of going on with one whose rates are bad."""


class Sampling(Message):
    """How much of what a version's compiled models compute is computed again by the service, where a page's consent
    lets inputs leave the device."""

    runs: Annotated[float, Field(gt=0, le=1)]
    """Share of a model's runs of which a sample is taken."""
    operators: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the operator calls of such a run."""


class Plan(Message):
    """What is released, to whom and how."""

    task: TaskName
    version: Version
    manifest: Digest
    """Of the version, by its bytes."""
    policy: Policy = Field(default_factory=Policy)
    steps: Annotated[list[Step], Field(min_length=1, max_length=30)]
    thresholds: Thresholds = Thresholds()
    sampling: Sampling | None = None
    """Without it nothing is sampled."""

    @field_validator("steps")
    @classmethod
    def _in_order(cls, steps: list[Step]) -> list[Step]:
        if any(_ORDER[one.kind] > _ORDER[other.kind] for one, other in itertools.pairwise(steps)):
            raise ValueError("steps come in the order simulation, beta, gray, full")
        if sum(step.kind == "full" for step in steps) > 1:
            raise ValueError("a full step is the last one")
        shares = [step.share for step in steps if isinstance(step, GrayStep)]
        if any(one >= other for one, other in itertools.pairwise(shares)):
            raise ValueError("each gray step has a larger share than the one before")
        named = Counter(name for step in steps if isinstance(step, NamedStep) for name in step.devices)
        if twice := next((name for name, times in named.items() if times > 1), None):
            # It has run the task by the second time, and its step would wait for a first report.
            raise ValueError(f"{twice} is named twice")
        return steps


class Counts(NamedTuple):
    """Devices that reported in a step, each by its first report in it."""

    devices: int = 0
    failed: int = 0
    slow: int = 0
    unjudged: int = 0
    """Samples of the release that were not computed again yet."""


Status = Literal["running", "rolled-back"]


@dataclass(frozen=True)
class Release:
    """`number`: later releases have higher ones. `step` counts from 0; it began at `since`, in milliseconds."""

    number: int
    plan: Plan
    step: int = 0
    since: int = 0
    status: Status = "running"
    reason: str = ""
    """Why it was rolled back: a sentence."""


def advance(release: Release, counts: Counts, now: int) -> Release:
    """The release after `now` (milliseconds), where `counts` is what was reported in its step: itself, one step
    further, or rolled back."""
    if release.status != "running":
        return release
    if wrong := _too_much(release, counts):
        return rolled_back(release, wrong, now)
    step = release.plan.steps[release.step]
    last = release.step == len(release.plan.steps) - 1
    if last or isinstance(step, FullStep) or now - release.since < 1000 * step.seconds or not _good(release, counts):
        return release
    return replace(release, step=release.step + 1, since=now)


def waits(release: Release, counts: Counts) -> str:
    """What a release waits for that nobody does unless a service is told to: a sentence, empty where there is none."""
    step = release.plan.steps[release.step]
    if release.status != "running" or not isinstance(step, NamedStep) or counts.devices >= len(step.browsers):
        return ""
    left = f"{len(step.browsers) - counts.devices} of {len(step.browsers)} browsers"
    return f"its simulation step waits for {left}, which a `tapml field serve` with `--simulate PAGE` opens"


def rolled_back(release: Release, reason: str, now: int) -> Release:
    """By hand or by `advance`: no device is given it any more, and who holds it is told to leave it."""
    return replace(release, status="rolled-back", reason=reason, since=now)


def _too_much(release: Release, counts: Counts) -> str | None:
    step, limits = release.plan.steps[release.step], release.plan.thresholds
    if isinstance(step, NamedStep):
        if counts.failed:
            return f"{counts.failed} of {len(step.devices)} devices of the {step.kind} step failed"
        if limits.slow_ms is not None and counts.slow > limits.slow_rate * len(step.devices):
            return f"{counts.slow} of {len(step.devices)} devices of the {step.kind} step took over {limits.slow_ms} ms"
        return None
    error = limits.false_alarm / 2  # there are two rates
    if shows_above(counts.failed, counts.devices, limits.failure_rate, error):
        return f"{counts.failed} of {counts.devices} devices failed, and {limits.failure_rate:.2%} may"
    if limits.slow_ms is not None and shows_above(counts.slow, counts.devices, limits.slow_rate, error):
        return (
            f"{counts.slow} of {counts.devices} devices took over {limits.slow_ms} ms, and {limits.slow_rate:.2%} may"
        )
    return None


def _good(release: Release, counts: Counts) -> bool:
    step, limits = release.plan.steps[release.step], release.plan.thresholds
    if isinstance(step, NamedStep):
        return counts.devices >= len(step.devices) and not counts.unjudged
    error = limits.false_pass / 2
    return shows_below(counts.failed, counts.devices, limits.failure_rate, error) and (
        limits.slow_ms is None or shows_below(counts.slow, counts.devices, limits.slow_rate, error)
    )
