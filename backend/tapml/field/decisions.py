"""Which versions a device is to hold: a pure function of releases and a profile.

A share is of a device's position on a ring of 2**64, which its name and the release decide: who is in a share of 0.01
is in each larger one of that release, and positions of two releases are independent of each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NotRequired, TypedDict

from tapml.field.policies import matcher
from tapml.field.profiles import Facts, Profile, facts
from tapml.field.releases import FullStep, GrayStep, NamedStep, Plan, Release

_RING = 1 << 64
_MASK = _RING - 1


def device_key(device: str) -> int:
    """64 bits of a device's name."""
    return _digest("device", device)


def release_salt(plan: Plan) -> int:
    """64 bits of what is released."""
    return _digest("release", f"{plan.task} {plan.version}")


def position(key: Any, salt: int) -> Any:
    """Of devices on a release's ring. `key`: an int, or a numpy array of uint64, which it then gives, too.

    The finalizer of SplitMix64 in its variant 13 (D. Stafford, Better Bit Mixing, 2011), once before the salt and once
    behind it, so that keys that differ in little, and salts that do, give positions that have nothing in common.
    """
    return _mix(_mix(key) ^ salt)


def _mix(bits: Any) -> Any:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def _digest(what: str, text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=what.encode()).digest(), "big")


_WATCHED = _digest("watched", "")


def share_end(share: float) -> int:
    """Positions below it are in the share."""
    return int(share * _RING)


def watched(device: str, share: float) -> bool:
    """Is the device in the share of all that is watched? Drawn by its name, and by nothing that a release knows."""
    return share >= 1 or position(device_key(device), _WATCHED) < share_end(share)


class Admission:
    """Which devices of its policy a plan admits in `step`: those of the step, and of all before it."""

    def __init__(self, plan: Plan, step: int) -> None:
        reached = plan.steps[: step + 1]
        self.salt = release_salt(plan)
        self.named = frozenset(device for one in reached if isinstance(one, NamedStep) for device in one.devices)
        self.end = max((_end(one) for one in reached), default=0)
        """Positions below it are admitted."""

    def admits(self, device: str, mixed: int) -> bool:
        """`mixed`: the device's key, mixed once, which serves all releases."""
        return self.end == _RING or device in self.named or (self.end > 0 and _mix(mixed ^ self.salt) < self.end)


def _end(step: NamedStep | GrayStep | FullStep) -> int:
    if isinstance(step, GrayStep):
        return share_end(step.share)
    return _RING if isinstance(step, FullStep) else 0


class Rates(TypedDict):
    """`tapml.field.releases.Sampling`, as devices are told."""

    runs: float
    operators: float


class Offer(TypedDict):
    """A version to pull."""

    task: str
    version: str
    manifest: str
    sampling: NotRequired[Rates]


class Answer(TypedDict):
    """What a device is to do; nothing where both lists are empty."""

    install: list[Offer]
    remove: list[str]


class Catalogue:
    """All releases at one moment. Making one takes longer than asking it."""

    def __init__(self, releases: Iterable[Release]) -> None:
        by_task: dict[str, list[Release]] = {}
        for release in sorted(releases, key=lambda release: -release.number):
            if release.status == "running":
                by_task.setdefault(release.plan.task, []).append(release)
        # Many tasks are for the same devices: each policy is asked once.
        numbers: dict[str, int] = {}
        self._policies: list[Callable[[Facts], bool]] = []
        self._asked: list[tuple[str, list[tuple[int, Release, Admission]]]] = []
        for task, found in by_task.items():
            offers = []
            for release in found:
                text = release.plan.policy.model_dump_json()
                if (number := numbers.setdefault(text, len(numbers))) == len(self._policies):
                    self._policies.append(matcher(release.plan.policy))
                offers.append((number, release, Admission(release.plan, release.step)))
            self._asked.append((task, offers))

    def wanted(self, profile: Profile) -> dict[str, Release]:
        """By task, the newest release that admits the device."""
        told = facts(profile)
        device, mixed = profile.device, _mix(device_key(profile.device))
        matches = [matches(told) for matches in self._policies]
        found = {}
        for task, offers in self._asked:
            for number, release, admission in offers:
                if matches[number] and admission.admits(device, mixed):
                    found[task] = release
                    break
        return found

    def answer(self, profile: Profile) -> Answer:
        """What of that the device does not hold, and what it holds and should not."""
        wanted, holds = self.wanted(profile), profile.holds
        install = [_offer(release) for task, release in wanted.items() if holds.get(task) != release.plan.version]
        return {"install": install, "remove": [task for task in holds if task not in wanted]}


def _offer(release: Release) -> Offer:
    plan = release.plan
    offer: Offer = {"task": plan.task, "version": plan.version, "manifest": plan.manifest}
    if plan.sampling is not None:
        # Browsers of the platform have no user, and are there to be looked at.
        every = plan.steps[release.step].kind == "simulation"
        runs, operators = (1.0, 1.0) if every else (plan.sampling.runs, plan.sampling.operators)
        offer["sampling"] = {"runs": runs, "operators": operators}
    return offer
