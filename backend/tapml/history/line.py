"""The runs of one test on one sort of device, in their order, and what follows from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tapml.protocol.methods import Verdict
from tapml.results.history import ChangeMoment, Moment, Times, VersionCounts
from tapml.results.verdicts import verdict_counts

State = Literal["passing", "failing", "unsupported"]
STATES: dict[Verdict, State] = {
    "pass": "passing",
    "fail": "failing",
    "error": "failing",
    "unsupported": "unsupported",
    "unbounded": "failing",
}
"""What each verdict says of a test."""


def state_of(verdict: Verdict) -> State:
    """A word that no tapml wrote is no pass: a database may hold any."""
    return STATES.get(verdict, "failing")


@dataclass(frozen=True, slots=True)
class RunDevice:
    """A device in one run."""

    name: str
    adapter: str
    at: int
    created: str
    run: str

    def moment(self) -> Moment:
        return {"run": self.run, "at": self.at, "created": self.created, "device": self.name}


class Line:
    """Columns rather than points: a hundred thousand results are looked at in one request."""

    def __init__(
        self,
        devices: Sequence[RunDevice],
        digests: Sequence[str],
        verdicts: Sequence[Verdict],
        marked: Sequence[bool],
        seconds: Sequence[float | None],
        gpu_seconds: Sequence[float | None],
    ) -> None:
        """One entry a run, oldest first. `marked`: the run itself says that the verdict is flaky."""
        self.devices = devices
        self.digests = digests
        self.verdicts = verdicts
        self.state = state_of(verdicts[-1])
        self.seconds = seconds
        self.gpu_seconds = gpu_seconds
        self.names = [device.name for device in devices]
        self.kernel_changed = _changes(digests)
        self.device_changed = _changes(self.names)
        self.flaky = self._flaky(digests, marked)

    def _flaky(self, digests: Sequence[str], marked: Sequence[bool]) -> list[bool]:
        """Marked so, or another verdict than the same kernel got on the same version before."""
        if len(set(self.verdicts)) == 1:
            return [bool(mark) for mark in marked]
        before: dict[tuple[str, str], str] = {}
        flaky = []
        for key, verdict, mark in zip(zip(digests, self.names, strict=True), self.verdicts, marked, strict=True):
            flaky.append(bool(mark) or before.get(key, verdict) != verdict)
            before[key] = verdict
        return flaky

    @property
    def streak(self) -> int:
        """Where the state begins that the last run is in."""
        at = len(self.verdicts) - 1
        while at > 0 and state_of(self.verdicts[at - 1]) == self.state:
            at -= 1
        return at

    def change(self, at: int) -> ChangeMoment:
        """A run, and what was new in it."""
        return {
            **self.devices[at].moment(),
            "kernel_changed": self.kernel_changed[at],
            "device_changed": self.device_changed[at],
        }

    def versions(self) -> list[VersionCounts]:
        """Each version of the device, in the order in which they were first seen."""
        mine: dict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(self.names):
            mine[name].append(at)
        found: list[VersionCounts] = []
        for name, places in mine.items():
            found.append(
                {
                    "device": name,
                    "adapter": self.devices[places[-1]].adapter,
                    "runs": len(places),
                    **verdict_counts(self.verdicts[at] for at in places),
                    "seconds": _median([self.seconds[at] for at in places]),
                }
            )
        return found


def _changes(values: Sequence[str]) -> list[bool]:
    """Where a value is another than the one before; one that is not known (empty) says nothing of a change."""
    if len(set(values)) == 1:
        return [False] * len(values)
    found, before = [], ""
    for value in values:
        found.append(bool(before and value and value != before))
        before = value or before
    return found


def times(values: Sequence[float | None]) -> Times:
    """Of runs, oldest first."""
    return {"median": _median(values), "last": values[-1]}


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
