"""Profiles, policies and releases as tests of the field need them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tapml.field.profiles import Profile, parse_profile
from tapml.field.releases import Plan, Release

MANIFEST = "ab" * 32
FULL: list[dict[str, Any]] = [{"kind": "full"}]
IDS = [f"device-{number:012d}" for number in range(40)]


def profile(device: str = IDS[0], **more: Any) -> Profile:
    told = {"device": device, "app": "1.4.2", "browser": {"name": "chromium", "version": 156}, **more}
    return parse_profile(json.dumps(told))


def release(number: int = 1, task: str = "shop/highlight", version: str = "1.0", **more: Any) -> Release:
    """With `step`, `status` of the release, and all else of its plan."""
    own = {name: more.pop(name) for name in ("step", "status", "since") if name in more}
    given = {"task": task, "version": version, "manifest": MANIFEST, "steps": FULL, **more}
    return Release(number, Plan.model_validate(given), **own)


devices = st.one_of(st.sampled_from(IDS), st.from_regex(r"[A-Za-z0-9_-]{16,40}", fullmatch=True))
versions = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))
words = st.sampled_from(["chromium", "firefox", "safari", "", "日本"])
tasks = st.sampled_from(["shop/highlight", "shop/page-view", "search/rank"])
attributes = st.dictionaries(st.sampled_from(["age", "habit"]), st.one_of(st.booleans(), st.integers(0, 90), words))

profiles = st.builds(
    lambda device, app, browser, version, vendor, speed, declared, holds: profile(
        device, app=app, browser={"name": browser, "version": version}, gpu={"vendor": vendor},
        attributes=declared, holds=holds, **({} if speed is None else {"speed": speed}),
    ),
    devices, versions, words, st.integers(100, 160), words, st.one_of(st.none(), st.floats(0, 1e6)), attributes,
    st.dictionaries(tasks, versions, max_size=3),
)  # fmt: skip

_numbers = st.builds(
    lambda low, width: {"at_least": low, "below": low + width}, st.integers(0, 160), st.integers(1, 80)
)
_texts = st.lists(words, min_size=1, max_size=3).map(lambda values: {"one_of": values})
_fields = st.fixed_dictionaries(
    {},
    optional={
        "app": versions.map(lambda version: {"at_least": version}),
        "browser": _texts,
        "browser_version": _numbers,
        "gpu_vendor": _texts,
        "speed": _numbers,
        "attributes.age": _numbers,
        "attributes.habit": _texts,
    },
)
policies = st.lists(_fields.filter(bool), max_size=3).map(lambda groups: {"groups": groups})


@st.composite
def step_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {"kind": kind, "devices": draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))}
        for kind, names in (("simulation", IDS[:20]), ("beta", IDS[20:]))
        if draw(st.booleans())
    ]
    shares = draw(st.lists(st.integers(1, 99), max_size=4, unique=True))
    steps += [{"kind": "gray", "share": share / 100} for share in sorted(shares)]
    return steps + (FULL if not steps or draw(st.booleans()) else [])


@st.composite
def releases(draw: st.DrawFn, number: int, task: str | None = None) -> Release:
    steps = draw(step_lists())
    return release(
        number, task or draw(tasks), draw(versions), policy=draw(policies), steps=steps,
        step=draw(st.integers(0, len(steps) - 1)), status=draw(st.sampled_from(["running", "running", "rolled-back"])),
    )  # fmt: skip


@st.composite
def release_lists(draw: st.DrawFn) -> list[Release]:
    return [draw(releases(number)) for number in range(draw(st.integers(0, 6)))]
