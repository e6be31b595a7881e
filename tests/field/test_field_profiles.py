"""Headers and plans of strangers: one sentence says what is wrong with them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from field_profiles import IDS, MANIFEST, profile
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tapml.errors import InputError
from tapml.field.policies import Policy
from tapml.field.profiles import MOST_BYTES, facts, parse_profile
from tapml.field.releases import Plan

GOOD: dict[str, Any] = {"device": IDS[0], "app": "1.4", "browser": {"name": "firefox", "version": 140}}


def told(**more: Any) -> str:
    return json.dumps({**GOOD, **more})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "null",
        "[]",
        "{",
        "\0",
        "é" * 20,
        b"\xff\xfe",
        told(attributes={"age": float("nan")}),
        told() + " " * MOST_BYTES,
        told().replace('"app"', '"app": "1", "app"'),
        told(app="1.4\n"),
        told(app="1.4; DROP TABLE releases"),
        told(app="01.4"),
        told(app="1.2.3.4.5"),
        told(app="9" * 30),
        told(app=1.4),
        told(device="short"),
        told(device="../../etc/passwd-and-more"),
        told(device=IDS[0] + "\n"),
        told(device="d" * 65),
        told(browser={"name": "x" * 65, "version": 1}),
        told(browser={"name": "firefox", "version": "140"}),
        told(browser={"name": "firefox", "version": True}),
        told(browser="firefox"),
        told(speed=-1),
        told(speed="fast"),
        told(attributes={"__proto__": 1}),
        told(attributes={"Age": 1}),
        told(attributes={"age": None}),
        told(attributes={"age": [1]}),
        told(attributes={"age": {"$gt": 0}}),
        told(attributes={"age": "x" * 65}),
        told(attributes={f"a{number}": 1 for number in range(17)}),
        told(holds={"shop/../secret": "1"}),
        told(holds={"shop": "1"}),
        told(holds={"shop/Highlight": "1"}),
        told(holds={"shop/highlight": "latest"}),
        told(holds={f"shop/t{number}": "1" for number in range(65)}),
        told(subject="somebody-else"),
        "[" * 2000,
        told(attributes={"half": "x"}).replace('"x"', '"\\ud800"'),
    ],
)
def test_a_hostile_profile_is_refused_in_one_sentence(header: str | bytes) -> None:
    with pytest.raises(InputError) as refused:
        parse_profile(header)
    sentence = str(refused.value)
    assert sentence.startswith("the header Tapml-Profile")
    assert "\n" not in sentence
    assert len(sentence) < 400


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=300), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "holds", "x"]), inner),
    max_leaves=8,
).map(lambda more: json.dumps(GOOD | more if isinstance(more, dict) else more))))  # fmt: skip
def test_whatever_comes_is_a_profile_or_a_sentence(header: str | bytes) -> None:
    with contextlib.suppress(InputError):
        facts(parse_profile(header))


def test_what_a_profile_tells() -> None:
    found = profile(app="1.4.0", speed=12, attributes={"age": 31, "habit": "nächtlich", "member": True})
    assert facts(found) == {
        "app": (1, 4), "browser": "chromium", "browser_version": 156.0, "gpu_vendor": "", "gpu_architecture": "",
        "speed": 12.0, "attributes.age": 31.0, "attributes.habit": "nächtlich", "attributes.member": True,
    }  # fmt: skip
    assert facts(found)["attributes.member"] is True


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ({"colour": {"one_of": ["red"]}}, "pattern"),
        ({"app": {}}, "at_least or below"),
        ({"app": {"at_least": 1.4}}, "versions"),
        ({"app": {"one_of": ["1.4"]}}, "at_least and below"),
        ({"speed": {"at_least": "1"}}, "numbers"),
        ({"browser": {"at_least": 3.0}}, "one_of"),
        ({"browser_version": {"one_of": ["156"]}}, "number"),
        ({"app": {"at_least": "1.10", "below": "1.9"}}, "no app is at least 1.10 and below 1.9"),
        ({"speed": {"at_least": 2.0, "below": 2.0}}, "no speed"),
        ({}, "all devices"),
    ],
)
def test_a_policy_that_no_device_could_meet_is_refused(group: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Policy.model_validate({"groups": [group]})


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([], "at least 1"),
        ([{"kind": "full"}, {"kind": "gray", "share": 0.1}], "order"),
        ([{"kind": "full"}, {"kind": "full"}], "last"),
        ([{"kind": "gray", "share": 0.1}, {"kind": "gray", "share": 0.1}], "larger"),
        ([{"kind": "gray", "share": 1.0}], "less than 1"),
        ([{"kind": "beta", "devices": []}], "at least 1"),
        ([{"kind": "everyone"}], "expected tags"),
        ([{"kind": "simulation", "devices": IDS[:2]}, {"kind": "beta", "devices": IDS[1:3]}], "named twice"),
    ],
)
def test_steps_that_make_no_release_are_refused(steps: list[dict[str, Any]], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Plan.model_validate({"task": "shop/highlight", "version": "1", "manifest": MANIFEST, "steps": steps})
