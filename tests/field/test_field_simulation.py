"""A fleet in whole arrays, against one event after the other."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from field_profiles import IDS, MANIFEST

from tapml.field.decisions import Catalogue
from tapml.field.policies import Policy
from tapml.field.releases import Counts, Plan, Release, advance
from tapml.field.simulation.fleet import Behaviour, Fleet, OnLine, draw_fleet, misbehaves
from tapml.field.simulation.run import RUN_MS, Simulated, simulate

ON_LINE = OnLine(devices=len(IDS) * 6, at_start=80, minutes=3)
SECONDS = 300
STEPS: list[dict[str, Any]] = [
    {"kind": "beta", "devices": IDS[:3]},
    {"kind": "gray", "share": 0.1, "seconds": 20},
    {"kind": "gray", "share": 0.4, "seconds": 30},
    {"kind": "full"},
]
# Small fleets give little evidence.
LOOSE = {"failure_rate": 0.2, "false_alarm": 0.1, "false_pass": 0.5}


def plan(**more: Any) -> Plan:
    given = {"task": "shop/highlight", "version": "2.0", "manifest": MANIFEST, "steps": STEPS, "thresholds": LOOSE}
    return Plan.model_validate({**given, **more})


def fleet(seed: int) -> Fleet:
    names = [*IDS, *(f"another-device-{number:06d}" for number in range(ON_LINE.devices - len(IDS)))]
    return draw_fleet(ON_LINE, names, seed)


def one_by_one(plan: Plan, fleet: Fleet, behaviour: Behaviour) -> dict[str, Any]:
    """Every event by itself, every request answered by the catalogue, of 300 seconds."""
    failed, slow = misbehaves(fleet, slice(0, len(fleet)), behaviour)
    profiles = [
        fleet.kinds[kind].model_copy(update={"device": name})
        for kind, name in zip(fleet.kind, fleet.names, strict=True)
    ]
    release, counts, begun, holds, came = Release(1, plan), Counts(), [(0, 0)], set[int](), set[int]()
    catalogue = Catalogue([release])
    curves: dict[str, list[int]] = {"on_line": [], "covered": [], "covered_of_start": []}
    # What happens in the same millisecond: reports arrive, the service looks, devices pull, we look.
    events = [(1000 * second, 1, -1) for second in range(1, SECONDS + 1)]
    events += [(1000 * second, 3, -1) for second in range(SECONDS + 1)]
    events += [(int(first), 2, device) for device, first in enumerate(fleet.first)]
    heapq.heapify(events)
    while events and events[0][0] <= 1000 * SECONDS:
        now, what, device = heapq.heappop(events)
        if what == 0:
            counts = Counts(
                counts[0] + 1, counts[1] + failed[device], counts[2] + (slow[device] and not failed[device])
            )
        elif what == 1:
            after = advance(release, counts, now)
            if after is not release:
                catalogue = Catalogue([after])
                if after.step != release.step:
                    begun.append((after.step, now // 1000))
                    counts = Counts()
            release = after
        elif what == 2:
            came.add(device)
            asked = profiles[device]
            if device in holds:
                asked = asked.model_copy(update={"holds": {plan.task: plan.version}})
            answer = catalogue.answer(asked)
            if answer["install"]:
                holds.add(device)
                heapq.heappush(events, (now + RUN_MS, 0, device))
            if answer["remove"]:
                holds.discard(device)
            heapq.heappush(events, (now + int(fleet.interval[device]), 2, device))
        else:
            curves["on_line"].append(len(came | set(range(fleet.at_start))))
            curves["covered"].append(len(holds))
            curves["covered_of_start"].append(sum(one < fleet.at_start for one in holds))
    return {"release": release, "begun": begun, **curves}


def same(found: Simulated, expected: dict[str, Any]) -> None:
    assert found.release == expected["release"]
    assert [(one.step, one.second) for one in found.begun] == expected["begun"]
    for name in ("on_line", "covered", "covered_of_start"):
        assert getattr(found, name).tolist() == expected[name], name


BROKEN = Policy.model_validate({"groups": [{"gpu_vendor": {"one_of": ["arm"]}}]})
SOME = {"groups": [{"app": {"at_least": "1.4"}, "browser": {"one_of": ["chromium", "safari"]}}]}


@pytest.mark.parametrize(
    ("seed", "more", "behaviour", "status"),
    [
        (1, {}, Behaviour(0, 0), "running"),
        (2, {"steps": STEPS[1:]}, Behaviour(0.01, 0.5), "running"),
        (3, {"steps": STEPS[1:]}, Behaviour(0.01, 0.01, BROKEN), "rolled-back"),
        (
            4,
            {"steps": STEPS[1:], "thresholds": {**LOOSE, "slow_ms": 100, "slow_rate": 0.1}},
            Behaviour(0, 0.5),
            "rolled-back",
        ),
        (5, {"steps": STEPS[1:], "policy": SOME}, Behaviour(0.02, 0), "running"),
        (6, {"steps": STEPS[1:3]}, Behaviour(0, 0), "running"),
    ],
)
def test_whole_arrays_give_what_one_event_after_the_other_gives(
    seed: int, more: dict[str, Any], behaviour: Behaviour, status: str
) -> None:
    drawn = fleet(seed)
    found = simulate(plan(**more), drawn, behaviour, SECONDS)
    same(found, one_by_one(plan(**more), drawn, behaviour))
    assert found.release.status == status
    if status == "rolled-back":
        assert max(found.covered) > 0
        assert found.covered[-1] == 0
    elif "policy" not in more and len(more.get("steps", STEPS)) > 2:
        assert found.covered[-1] == len(drawn)


def test_a_fleet_comes_on_line_as_it_says() -> None:
    drawn = draw_fleet(OnLine(10_000, 3_000, 2), [], 1)
    assert (drawn.first[:3000] < drawn.interval[:3000]).all()
    assert drawn.first[3000:].max() <= 120_000
    halfway = (drawn.first[3000:] <= 60_000).mean()
    assert abs(halfway - 0.5) < 0.03
    assert np.array_equal(drawn.key, draw_fleet(OnLine(10_000, 3_000, 2), [], 1).key)
