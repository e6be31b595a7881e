"""Which device is given which version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from field_profiles import IDS, policies, profile, profiles, release, release_lists, step_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from tapml.field.decisions import Catalogue, device_key, position, release_salt, share_end
from tapml.field.policies import Policy
from tapml.field.profiles import Profile, facts
from tapml.field.releases import FullStep, GrayStep, NamedStep, Release, rolled_back


def in_step(found: Release, asked: Profile) -> bool:
    """By the words of the documentation, without the code that decides."""
    for step in found.plan.steps[: found.step + 1]:
        if isinstance(step, FullStep):
            return True
        if isinstance(step, NamedStep) and asked.device in step.devices:
            return True
        if isinstance(step, GrayStep):
            place = position(device_key(asked.device), release_salt(found.plan))
            if place < step.share * 2**64:
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(release_lists(), profiles)
def test_a_device_is_given_the_newest_version_that_admits_it_and_no_other(found: list[Release], asked: Profile) -> None:
    wanted = Catalogue(found).wanted(asked)
    for task in {one.plan.task for one in found}:
        admitted = [
            one.number
            for one in found
            if one.plan.task == task
            and one.status == "running"
            and one.plan.policy.matches(facts(asked))
            and in_step(one, asked)
        ]
        assert (wanted[task].number if task in wanted else None) == max(admitted, default=None)


@settings(max_examples=60, deadline=None)
@given(release_lists(), profiles, st.data())
def test_a_rollback_reaches_every_device_that_pulls(found: list[Release], asked: Profile, data: st.DataObject) -> None:
    before = Catalogue(found).wanted(asked)
    holding = asked.model_copy(update={"holds": {task: one.plan.version for task, one in before.items()}})
    if not before:
        return
    bad = data.draw(st.sampled_from(sorted(before.values(), key=lambda one: one.number)))
    after = Catalogue([rolled_back(one, "it is slow", 1) if one is bad else one for one in found])
    answer = after.answer(holding)
    task = bad.plan.task
    wanted = after.wanted(holding).get(task)
    assert wanted is not bad
    if wanted is None:
        assert task in answer["remove"]
    elif wanted.plan.version != bad.plan.version:
        assert wanted.plan.version in [offer["version"] for offer in answer["install"] if offer["task"] == task]


@settings(max_examples=60, deadline=None)
@given(release_lists(), profiles)
def test_tasks_do_not_disturb_each_other(found: list[Release], asked: Profile) -> None:
    together = Catalogue(found).wanted(asked)
    for task in {one.plan.task for one in found}:
        alone = Catalogue([one for one in found if one.plan.task == task]).wanted(asked)
        assert alone.get(task) == together.get(task)


@settings(max_examples=60, deadline=None)
@given(release_lists(), profiles)
def test_a_device_that_did_what_it_was_told_is_told_nothing(found: list[Release], asked: Profile) -> None:
    catalogue = Catalogue(found)
    answer = catalogue.answer(asked)
    holds = {task: version for task, version in asked.holds.items() if task not in answer["remove"]}
    holds |= {offer["task"]: offer["version"] for offer in answer["install"]}
    assert catalogue.answer(asked.model_copy(update={"holds": holds})) == {"install": [], "remove": []}


@settings(max_examples=60, deadline=None)
@given(step_lists(), policies, profiles)
def test_who_is_in_a_step_is_in_all_that_follow(
    steps: list[dict[str, object]], policy: dict[str, object], asked: Profile
) -> None:
    one = release(steps=steps, policy=policy)
    given_it = [bool(Catalogue([replace(one, step=step)]).wanted(asked)) for step in range(len(steps))]
    assert given_it == sorted(given_it)


def test_shares_are_as_large_as_they_say_and_independent_of_each_other() -> None:
    keys = np.array([device_key(f"device-{number:016d}") for number in range(40_000)], np.uint64)
    first, second = (position(keys, release_salt(release(task=f"shop/{name}").plan)) for name in ("a", "b"))
    for share in (0.01, 0.1, 0.5):
        one, other = first < np.uint64(share_end(share)), second < np.uint64(share_end(share))
        # Five standard deviations of a binomial distribution.
        for hits, expected in ((one, share), (other, share), (one & other, share**2)):
            assert abs(hits.mean() - expected) < 5 * (expected * (1 - expected) / len(keys)) ** 0.5
    assert [position(int(key), 7) for key in keys[:50]] == position(keys[:50], 7).tolist()


def test_named_devices_are_given_it_only_where_the_policy_is_for_them() -> None:
    steps = [{"kind": "beta", "devices": IDS[:2]}, {"kind": "full"}]
    one = release(steps=steps, policy={"groups": [{"app": {"at_least": "1.4"}}]})
    assert [bool(Catalogue([one]).wanted(profile(name))) for name in IDS[:3]] == [True, True, False]
    assert not Catalogue([one]).wanted(profile(IDS[0], app="1.3.9"))
    assert [bool(Catalogue([replace(one, step=1)]).wanted(profile(name))) for name in IDS[:3]] == [True, True, True]


def test_conditions_of_a_policy() -> None:
    def matches(field: str, condition: dict[str, object], **told: object) -> bool:
        policy = Policy.model_validate({"groups": [{field: condition}]})
        return policy.matches(facts(profile(**told)))

    assert matches("app", {"at_least": "1.4", "below": "1.10"}, app="1.9.3")
    assert not matches("app", {"below": "1.10"}, app="1.10.0")
    assert matches("app", {"at_least": "1.4.0"}, app="1.4")
    assert matches("attributes.age", {"at_least": 18}, attributes={"age": 18})
    for declared in ({"age": "18"}, {"age": True}, {"age": 17}, {}):
        assert not matches("attributes.age", {"at_least": 1, "one_of": [18]}, attributes=declared)
    assert not matches("attributes.old", {"one_of": [1]}, attributes={"old": True})
    assert matches("attributes.old", {"one_of": [True]}, attributes={"old": True})
    assert not matches("speed", {"below": 100})
