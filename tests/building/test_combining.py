"""Kernels of which each has variants run as one what each would run by itself, whatever the device."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tapml.building.combining import MOST, Combination, combinations
from tapml.kernels.choice import DEFAULT_LIMITS, best_fitting
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.protocol.kernels import Requires

ADAPTERS: Sequence[Mapping[str, str]] = (
    {},
    {"vendor": "apple", "architecture": "metal-3"},
    {"vendor": "nvidia", "architecture": "hopper"},
    {"vendor": "nvidia", "architecture": "ampere"},
    {"description": "SwiftShader"},
    {"description": "llvmpipe"},
    {"description": "Microsoft Basic Render Driver"},
)
CLASSES = ("gpu", "software", "nvidia", "nvidia/hopper", "swiftshader", "llvmpipe")


@dataclass(frozen=True)
class Own:
    place: int
    requires: Requires
    expected: Mapping[str, float] | None


def variant(
    expected: Mapping[str, float] | None = None, features: Sequence[str] = (), **limits: float
) -> dict[str, Any]:
    found = {"requires": {"features": list(features), "limits": limits}}
    return {**found, "expected": expected} if expected else found


def own(variants: Sequence[Mapping[str, Any]], adapter: Mapping[str, str], features: set[str], **limits: float) -> int:
    """What one kernel by itself would run."""
    known = [
        Own(place, Requires.model_validate(one["requires"]), one.get("expected")) for place, one in enumerate(variants)
    ]
    best = best_fitting(known, adapter, features, {**DEFAULT_LIMITS, **limits})
    assert best is not None
    return best.place


def together(
    found: Sequence[Combination], adapter: Mapping[str, str], features: set[str], **limits: float
) -> tuple[int, ...]:
    best = best_fitting(found, adapter, features, {**DEFAULT_LIMITS, **limits})
    assert best is not None
    return best.places


FAST = variant({"gpu": 1, "software": 9})
SLOW = variant({"gpu": 2, "software": 3})


def test_each_class_has_the_combination_that_its_kernels_choose() -> None:
    found = combinations([[FAST, SLOW], [variant()], [SLOW, FAST]])
    assert [one.places for one in found] == [(0, 0, 1), (1, 0, 0)]
    assert [one.expected for one in found] == [{"gpu": 2, "software": 18}, {"gpu": 4, "software": 6}]


def test_of_one_combination_no_time_is_told() -> None:
    (found,) = combinations([[variant()], [variant()]])
    assert (found.places, found.expected) == ((0, 0), {})
    best = variant({"gpu": 1, "software": 1})
    (found,) = combinations([[SLOW, best], [best, SLOW]])
    assert (found.places, found.expected) == ((1, 0), {})


def test_a_class_that_one_tells_of_is_the_wider_one_for_others() -> None:
    closer = [
        variant({"gpu": 1, "software": 1, "swiftshader": 9}),
        variant({"gpu": 2, "software": 2, "swiftshader": 4}),
    ]
    found = combinations([closer, [FAST, SLOW]])
    assert {one.places: one.expected["swiftshader"] for one in found} == {(0, 0): 18, (0, 1): 12, (1, 1): 7}
    assert together(found, {"description": "SwiftShader"}, set()) == (1, 1)
    assert together(found, {"description": "llvmpipe"}, set()) == (0, 1)


def test_a_class_of_some_is_told_only_where_it_matters() -> None:
    """What only the widest class tells of is timed at load, where a page asks for that."""
    same = [variant({"gpu": 1, "software": 9, "nvidia": 1}), variant({"gpu": 2, "software": 3, "nvidia": 2})]
    assert all(set(one.expected) == {"gpu", "software"} for one in combinations([same, [FAST, SLOW]]))
    assert all("nvidia" in one.expected for one in combinations([same, same]))


def test_what_not_every_device_has_goes_before_what_is_plain() -> None:
    demanding = variant(None, ["subgroups"], maxComputeWorkgroupStorageSize=32_768)
    found = combinations([[demanding, variant()], [variant(None, ["subgroups"]), variant()]])
    assert [one.places for one in found] == [(0, 0), (1, 0), (1, 1)]
    assert together(found, {}, {"subgroups"}) == (1, 0)
    assert together(found, {}, {"subgroups"}, maxComputeWorkgroupStorageSize=65_536) == (0, 0)
    assert together(found, {}, set()) == (1, 1)


@pytest.mark.parametrize(
    "kernels",
    [
        # Too many.
        [[variant({name: 1 + (name != one) for name in CLASSES}) for one in CLASSES]] * 2,
        # A device that has what the last asks for would have no combination, and one without would.
        [[variant(), variant(None, ["subgroups"])], [variant(), variant()]],
        # Devices of many kinds.
        [[variant(None, [name]) for name in ("a", "b", "c", "d", "e", "f", "g")] + [variant()], [FAST, SLOW]],
    ],
)
def test_what_is_not_chosen_alike_stays_apart(kernels: Any) -> None:
    with pytest.raises(NotUnderstood):
        combinations(kernels)


def any_kernel(source: random.Random) -> list[dict[str, Any]]:
    """Of no two variants that take as long."""
    told = source.choice([(), CLASSES[:2], CLASSES[:2], CLASSES[:3], CLASSES])
    asks = source.choice([[], [], [["subgroups"]], [["subgroups", "shader-f16"], ["shader-f16"]]])
    plain: list[list[str]] = [[]] * source.choice([1, 1, 2, 3])
    return [
        variant(
            {name: source.uniform(1, 9) for name in told},
            features,
            maxBufferSize=source.choice([1, 2]) if features else 0,
        )
        for features in (*asks, *plain)
    ]


def test_every_device_runs_what_its_kernels_choose() -> None:
    source = random.Random(7)
    features: list[set[str]] = [set(), {"subgroups"}, {"shader-f16"}, {"subgroups", "shader-f16"}]
    several = 0
    for _ in range(600):
        kernels = [any_kernel(source) for _ in range(source.choice([2, 2, 3]))]
        try:
            found = combinations(kernels)
        except NotUnderstood:
            continue
        several += len(found) > 1
        assert len(found) <= MOST
        for adapter, has, allowed in itertools.product(ADAPTERS, features, (0, 1, 2)):
            wanted = tuple(own(variants, adapter, has, maxBufferSize=allowed) for variants in kernels)
            assert together(found, adapter, has, maxBufferSize=allowed) == wanted
    assert several > 100
