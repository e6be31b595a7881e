"""Devices that are started with a profile, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preloaded import tapml
from tapml.errors import InputError
from tapml.history.store import family
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.operatorwise import require_devices


def test_a_profile_is_another_device_beside_the_real_one() -> None:
    with Server() as server:
        real, worse = (server.state.device(name) for name in ("node-dawn", "node-dawn+few-workgroups"))
        assert server.state.device("node-dawn+few-workgroups") is worse
        assert real is not worse
        assert worse.name == f"{real.name} (profile few-workgroups)"
        assert worse.hello.limits["maxComputeWorkgroupsPerDimension"] == 4
        assert real.hello.limits["maxComputeWorkgroupsPerDimension"] >= 65535


def test_a_profile_has_a_history_of_its_own() -> None:
    assert family("Chromium 156 (profile no-f16)") == "Chromium (profile no-f16)"
    assert family("node-dawn 0.6.2 (profile early-done)") == "node-dawn (profile early-done)"


def test_an_unknown_profile_says_which_there_are() -> None:
    with Server() as server:
        device = server.state.device("node-dawn+slow")
        with pytest.raises(InputError, match=r"no device profile slow: give least-limits, .*early-write"):
            require_devices([device])


@pytest.mark.slow
def test_the_command_takes_a_profile(suite: Suite, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    ran = tapml("validate", suite.path, "--device", "node-dawn+early-done", "--json", results)
    assert ran.code == 1, ran.err
    document = json.loads(results.read_text())
    assert document["devices"][0]["name"].endswith("(profile early-done)")
    assert {test["verdict"] for test in document["tests"]} == {"fail"}
