"""Which variants of several kernels run as one: on every device those that each kernel would run there by itself.

Devices differ in what they can run, and in the class by which a kernel chooses (docs/choosing.md). Of both there are
few that matter to the kernels at hand: for each it is asked what they would run, which is a combination. That devices
choose between combinations as between the kernels' own variants, by the same rules, is tried for each of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.kernels.choice import DEFAULT_LIMITS, all_limits, best_of, fits, stricter, unmet
from tapml.kernels.device_class import GPU, SOFTWARE, classes_from
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.protocol.kernels import Requires

MOST = 4
"""Combinations, so that models stay small: as many variants as `--compiler auto` gives a kernel."""

_MOST_DEVICES = 64
"""That differ in what they can run."""


@dataclass(frozen=True)
class Combination:
    """`places`: of each kernel, the number of its variant. `expected`: microseconds of all together by class of
    devices; empty where there is one combination alone, or where kernels tell of none."""

    places: tuple[int, ...]
    requires: Requires
    expected: Mapping[str, float]


@dataclass(frozen=True)
class _Device:
    features: Collection[str]
    limits: Mapping[str, float]
    classes: Sequence[str]

    def can_run(self, requires: Requires) -> bool:
        return fits(requires, self.features, self.limits)

    def chosen(self, variants: Sequence[Combination]) -> Combination:
        best = best_of([one for one in variants if self.can_run(one.requires)], self.classes)
        if best is None:
            raise NotUnderstood("no variant runs everywhere")
        return best


_Kernel = Sequence[Combination]
"""Its variants, each a combination of one."""


def combinations(kernels: Sequence[Sequence[Mapping[str, Any]]]) -> list[Combination]:
    """`kernels`: the variants of each. What every device can run that can run the last of each kernel is the last of
    them. Raises NotUnderstood where there would be many, or where a device would not choose what its kernels do."""
    members = [[_variant(place, variant) for place, variant in enumerate(variants)] for variants in kernels]
    if all(len(variants) == 1 for variants in members):
        return [_together(members, (0,) * len(members), ())]
    told = {name for variants in members for one in variants for name in one.expected}
    chains = [classes_from(name) for name in sorted({*told, GPU, SOFTWARE}, key=lambda name: (name != GPU, name))]
    own = [
        (device, tuple(device.chosen(variants).places[0] for variants in members))
        for features, limits in _abilities([one for variants in members for one in variants], _last(members))
        for device in (_Device(features, limits, classes) for classes in chains)
    ]
    found = list(dict.fromkeys(places for _, places in own))
    if len(found) > MOST:
        raise NotUnderstood("together they have many variants")
    if len(found) == 1:
        return [_together(members, found[0], ())]
    # Of what tells of no time a device takes the first that it can run.
    found.sort(key=lambda places: sum(device.can_run(_requires(members, places)) for device, _ in own))
    # A class that only some of them tell of keeps others from being timed at load: it is told where it matters.
    for classes in ([name for name in told if all(_tells(one, name) for one in members if _told(one))], told):
        together = [_together(members, places, sorted(classes)) for places in found]
        if all(_as_good(members, device, device.chosen(together).places, places) for device, places in own):
            return together
    raise NotUnderstood("together they are not chosen as each of them is")


def _variant(place: int, variant: Mapping[str, Any]) -> Combination:
    return Combination((place,), Requires.model_validate(variant["requires"]), variant.get("expected") or {})


def _last(members: Sequence[_Kernel]) -> Requires:
    """What the last variants ask for, without which no device runs the model."""
    for variants in members:
        for one in variants:
            limits = _limits({*one.requires.limits, *variants[-1].requires.limits}, one.requires.limits)
            if not fits(variants[-1].requires, one.requires.features, limits):
                raise NotUnderstood("a variant asks for less than the last one")
    return _all(variants[-1].requires for variants in members)


def _all(requires: Iterable[Requires]) -> Requires:
    every = list(requires)
    features = sorted({name for one in every for name in one.features})
    return Requires(features=features, limits=all_limits(one.limits for one in every))


def _limits(names: Iterable[str], asked: Mapping[str, float]) -> dict[str, float]:
    """Of a device that allows what every device does, and what is asked for."""
    return all_limits([{name: DEFAULT_LIMITS.get(name, unmet(name)) for name in sorted(names)}, asked])


def _abilities(variants: _Kernel, least: Requires) -> list[tuple[list[str], dict[str, float]]]:
    """Features and limits by which devices differ in which variants they can run."""
    more = sorted({name for one in variants for name in one.requires.features} - set(least.features))
    allowed = _limits({name for one in variants for name in one.requires.limits}, least.limits)
    levels = []
    for name, value in allowed.items():
        wanted = {stricter(name, value, one.requires.limits.get(name, value)) for one in variants}
        levels.append(sorted(wanted, reverse=stricter(name, 0, 1) == 0))
    if 2 ** len(more) * math.prod(map(len, levels)) > _MOST_DEVICES:
        raise NotUnderstood("they tell devices apart by many features and limits")
    steps = itertools.product(*([0, 1] for _ in more), *(range(len(level)) for level in levels))
    found = []
    for step in steps:
        has, reached = step[: len(more)], step[len(more) :]
        features = [name for name, there in zip(more, has, strict=True) if there]
        values = (level[number] for level, number in zip(levels, reached, strict=True))
        found.append(([*least.features, *features], dict(zip(allowed, values, strict=True))))
    return found


def _requires(members: Sequence[_Kernel], places: tuple[int, ...]) -> Requires:
    return _all(variants[place].requires for variants, place in zip(members, places, strict=True))


def _together(members: Sequence[_Kernel], places: tuple[int, ...], classes: Iterable[str]) -> Combination:
    expected = {}
    for name in classes:
        times = [_time(variants, place, classes_from(name)) for variants, place in zip(members, places, strict=True)]
        if any(times):
            expected[name] = float(f"{sum(times):.7g}")
    return Combination(places, _requires(members, places), expected)


def _tells(variants: _Kernel, name: str) -> bool:
    return all(name in one.expected for one in variants)


def _told(variants: _Kernel) -> bool:
    return any(one.expected for one in variants)


def _time(variants: _Kernel, place: int, classes: Sequence[str]) -> float:
    """0 where it does not choose by time."""
    name = next((name for name in classes if _tells(variants, name)), None)
    return variants[place].expected[name] if name is not None else 0.0


def _as_good(members: Sequence[_Kernel], device: _Device, places: tuple[int, ...], own: tuple[int, ...]) -> bool:
    """What one device runs of all together, and of each."""
    for variants, place, wanted in zip(members, places, own, strict=True):
        times = [_time(variants, number, device.classes) for number in (place, wanted)]
        if place != wanted and (not all(times) or not math.isclose(*times, rel_tol=1e-6)):
            return False
    return True
