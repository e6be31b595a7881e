"""A fleet that is drawn at random: what its devices are, when they come on line, and when they pull."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tapml.field.decisions import device_key, position, share_end
from tapml.field.policies import Policy
from tapml.field.profiles import Browser, Gpu, Profile, facts

PULL_SECONDS = (10, 50)
"""A page that is open sends a request so often; each device keeps to an interval of its own between these."""

_BROWSERS = (("chromium", 156, 0.64), ("firefox", 148, 0.12), ("safari", 26, 0.24))
_GPUS = (("arm", 0.45), ("qualcomm", 0.3), ("intel", 0.25))
_APPS = (("1.3", 0.1), ("1.4", 0.9))
_FAILS, _SLOW = 0x6661696C, 0x736C6F77
_BLOCK = 1 << 20


@dataclass(frozen=True)
class OnLine:
    """`devices` in all, of which `at_start` are on line when the release begins; the others come evenly until
    `minutes`, and stay."""

    devices: int = 22_000_000
    at_start: int = 6_000_000
    minutes: float = 19.0


@dataclass(frozen=True)
class Behaviour:
    """What the released version does: the rates of devices that fail and of those that are slow (below 1), and of which
    devices all fail."""

    failure_rate: float = 0.001
    slow_rate: float = 0.01
    broken: Policy | None = None


@dataclass(frozen=True)
class Fleet:
    """Arrays of one element a device. A device pulls at `first`, then every `interval` milliseconds."""

    kinds: list[Profile]
    """Devices of one kind differ in their names only: what a policy says is asked once for each kind."""
    names: list[str]
    """Of the first devices; the others have a key (`device_key`) and no name."""
    key: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    first: NDArray[np.int32]
    interval: NDArray[np.int32]
    at_start: int
    """The first so many were on line when the release began."""

    def __len__(self) -> int:
        return len(self.key)


def device_kinds() -> tuple[list[Profile], list[float]]:
    """Every combination of browser, GPU and version of the app, with its share."""
    kinds, shares = [], []
    for (browser, version, one), (vendor, other), (app, third) in itertools.product(_BROWSERS, _GPUS, _APPS):
        profile = Profile(
            device="0" * 16, app=app, browser=Browser(name=browser, version=version), gpu=Gpu(vendor=vendor)
        )
        kinds.append(profile)
        shares.append(one * other * third)
    return kinds, shares


def draw_fleet(on_line: OnLine, names: list[str], seed: int) -> Fleet:
    """The same for the same arguments. `names`: of the first devices, which are on line at the start."""
    luck = np.random.default_rng(seed)
    kinds, shares = device_kinds()
    count = on_line.devices
    fleet = Fleet(
        kinds, names, luck.integers(0, 1 << 64, count, np.uint64), np.empty(count, np.uint8),
        np.empty(count, np.int32), np.empty(count, np.int32), min(on_line.at_start, count),
    )  # fmt: skip
    fleet.key[: len(names)] = [device_key(name) for name in names]
    ends = np.cumsum(shares)[:-1]
    for begin in range(0, count, _BLOCK):
        part = slice(begin, min(begin + _BLOCK, count))
        size = part.stop - begin
        fleet.kind[part] = np.searchsorted(ends, luck.random(size, np.float32)).astype(np.uint8)
        fleet.interval[part] = luck.integers(1000 * PULL_SECONDS[0], 1000 * PULL_SECONDS[1], size, np.int32)
        within = luck.random(size, np.float32)
        came = np.ceil(within * np.float32(60_000 * on_line.minutes))
        waiting = np.arange(begin, part.stop) < fleet.at_start
        fleet.first[part] = np.where(waiting, np.floor(within * fleet.interval[part]), came).astype(np.int32)
    return fleet


def misbehaves(fleet: Fleet, part: slice, behaviour: Behaviour) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which devices of `part` fail, and which are slow; each does so whenever it is asked."""
    broken = np.array([behaviour.broken is not None and behaviour.broken.matches(facts(kind)) for kind in fleet.kinds])
    key = fleet.key[part]
    failed = (position(key, _FAILS) < np.uint64(share_end(behaviour.failure_rate))) | broken[fleet.kind[part]]
    return failed, position(key, _SLOW) < np.uint64(share_end(behaviour.slow_rate))
