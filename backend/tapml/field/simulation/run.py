"""The discrete events of a release over a fleet, all devices of a step at once.

Events: a device pulls and is given the version, its report arrives, the service looks at what was reported (every
second), a step begins, the release is rolled back. What a device does depends on the others only through the moments
at which steps begin, and in which step a device is admitted depends on its key and its kind alone. So each step's
devices are computed in whole arrays, and what they report is counted by seconds: nothing is approximated, which a test
holds against one event after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tapml.field.decisions import Admission, position
from tapml.field.policies import matcher
from tapml.field.profiles import facts
from tapml.field.releases import Counts, Plan, Release, advance
from tapml.field.simulation.fleet import Behaviour, Fleet, misbehaves

RUN_MS = 2000
"""From a pull to the report of the first run."""

_RING = 1 << 64
_NEVER = 255
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Begun:
    """A step, by its place in the plan, and the second at which it began."""

    step: int
    second: int


@dataclass(frozen=True)
class Simulated:
    """Counts after each second, from 0 on."""

    release: Release
    """As it was at the end."""
    begun: list[Begun]
    on_line: NDArray[np.int64]
    covered: NDArray[np.int64]
    """Devices that hold the version."""
    covered_of_start: NDArray[np.int64]
    """Of those that were on line at the start."""


class _Seconds:
    """Events by the second at the end of which they have happened."""

    def __init__(self, seconds: int) -> None:
        self._last = seconds
        self.counts = np.zeros(seconds + 2, np.int64)

    def add(self, at: NDArray[np.int32], sign: int = 1) -> None:
        """`at`: in milliseconds."""
        second = np.minimum((at + 999) // 1000, self._last + 1)
        self.counts += sign * np.bincount(second, minlength=len(self.counts))

    def sums(self) -> NDArray[np.int64]:
        return np.cumsum(self.counts[:-1])


def simulate(plan: Plan, fleet: Fleet, behaviour: Behaviour, seconds: int) -> Simulated:
    """A release of `plan` that begins at 0, looked at every second until `seconds`. It is the only one of its task."""
    stages = _stages(plan, fleet)
    reported, failed, slow = (_Seconds(seconds) for _ in range(3))
    release, begun = Release(1, plan), [Begun(0, 0)]
    _report(fleet, stages, release, behaviour, (reported, failed, slow))
    for second in range(1, seconds + 1):
        inside = slice(release.since // 1000 + 1, second + 1)
        counts = Counts(*(int(found.counts[inside].sum()) for found in (reported, failed, slow)))
        after = advance(release, counts, 1000 * second)
        if after.status != "running":
            release = after
            break
        if after.step != release.step:
            begun.append(Begun(after.step, second))
            _report(fleet, stages, after, behaviour, (reported, failed, slow))
        release = after
    return _curves(fleet, stages, release, begun, seconds)


def _stages(plan: Plan, fleet: Fleet) -> NDArray[np.uint8]:
    """The first step that admits each device; _NEVER where none does."""
    meant = np.array([*map(matcher(plan.policy), map(facts, fleet.kinds))])
    key_of = dict(zip(fleet.names, fleet.key, strict=False))
    stages = np.full(len(fleet), _NEVER, np.uint8)
    admissions = [Admission(plan, step) for step in range(len(plan.steps))]
    for part in _parts(len(fleet)):
        places = position(fleet.key[part], admissions[0].salt)
        for step, admission in reversed([*enumerate(admissions)]):
            named = [key_of[name] for name in admission.named if name in key_of]
            admitted = np.isin(fleet.key[part], named) if named else np.zeros(len(places), np.bool_)
            admitted |= True if admission.end == _RING else places < np.uint64(admission.end)
            stages[part][admitted & meant[fleet.kind[part]]] = step
    return stages


def _report(
    fleet: Fleet, stages: NDArray[np.uint8], release: Release, behaviour: Behaviour, into: tuple[_Seconds, ...]
) -> None:
    """What comes of the devices that the step admits first."""
    for part in _parts(len(fleet)):
        mine = stages[part] == release.step
        at = _pull(fleet, part, np.int32(release.since))[mine] + np.int32(RUN_MS)
        fail, slow = (found[mine] for found in misbehaves(fleet, part, behaviour))
        for seconds, found in zip(into, (at, at[fail], at[slow & ~fail]), strict=True):
            seconds.add(found)


def _pull(fleet: Fleet, part: slice, since: np.int32 | NDArray[np.int32]) -> NDArray[np.int32]:
    """When each device pulls first, from `since` on, in milliseconds."""
    first, interval = fleet.first[part], fleet.interval[part]
    waits = np.maximum(-((first - since) // interval), 0)
    at: NDArray[np.int32] = first + waits * interval
    return at


def _curves(fleet: Fleet, stages: NDArray[np.uint8], release: Release, begun: list[Begun], seconds: int) -> Simulated:
    on_line, covered, of_start = (_Seconds(seconds) for _ in range(3))
    starts = np.full(_NEVER + 1, -1, np.int32)
    for one in begun:
        starts[one.step] = 1000 * one.second
    end = release.since if release.status == "rolled-back" else None
    for part in _parts(len(fleet)):
        waiting = np.arange(part.start, part.stop) < fleet.at_start
        on_line.add(np.where(waiting, 0, fleet.first[part]).astype(np.int32))
        since = starts[stages[part]]
        at = _pull(fleet, part, since)
        given = since >= 0
        if end is not None:
            given &= at < end
            left = _pull(fleet, part, np.int32(end))
            covered.add(left[given], -1)
            of_start.add(left[given & waiting], -1)
        covered.add(at[given])
        of_start.add(at[given & waiting])
    return Simulated(release, begun, on_line.sums(), covered.sums(), of_start.sums())


def _parts(count: int) -> Iterator[slice]:
    """So that what is computed in between stays small."""
    return (slice(begin, min(begin + _BLOCK, count)) for begin in range(0, count, _BLOCK))
