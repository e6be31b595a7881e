"""Locate as a job of the server, and its arguments on the command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from computing_device import ComputingDevice
from flask.testing import FlaskClient

from tapml.cli import main
from tapml.server.state import State
from tapml.suite import Suite

CHANGE = {"X-Tapml": "1"}


def test_a_search_is_a_job(client: FlaskClient, state: State, suite: Suite) -> None:
    device = ComputingDevice(suite, state=state).device
    body = {"kind": "locate", "suite": "small", "devices": [device.id], "kernels": None, "runs": 2, "model": False}
    job = client.post("/api/jobs", json=body, headers=CHANGE).json["job"]
    deadline = time.monotonic() + 180
    found: dict[str, Any] = {"state": "running"}
    while found["state"] == "running" and time.monotonic() < deadline:
        found = client.get(f"/api/jobs/{job}").json
        time.sleep(0.02)
    assert found["state"] == "done", found
    found = client.get(f"/api/jobs/{job}").json
    assert found["document"]["format"] == "tapml.locate/1"
    assert found["document"]["runs"] == 2
    assert found["document"]["summary"]["verdict"] == "clean"
    assert found["document"]["model"] is None
    assert found["events"][0]["kind"] == "locate"
    results = client.get("/api/suites/small/results").json
    assert results["locates"] == [found["document"]]
    # What it found is of these texts: the page holds them against those on disk.
    assert found["document"]["kernel_digests"] == {name: now["digest"] for name, now in results["kernels"].items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 0}, "runs: Input should be greater than or equal to 1"),
        ({"runs": "3"}, "runs: Input should be a valid integer"),
        ({"model": 1}, "model: Input should be a valid boolean"),
    ],
)
def test_a_wrong_request_is_explained(client: FlaskClient, changes: dict[str, Any], message: str) -> None:
    body = {"kind": "locate", "suite": "small", "devices": ["x"], "kernels": None, **changes}
    response = client.post("/api/jobs", json=body, headers=CHANGE)
    assert response.status_code == 400
    assert message in response.json["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["locate", "--runs", "0"], "runs: Input should be greater than or equal to 1"),
        (["locate", "--kernel", "nothing"], "no kernel 'nothing'"),
        (["reduce", "n999.s0"], "no test 'n999.s0'"),
        (["reduce", "n000.s0", "-o", "small.zip"], "give a name that ends with .html"),
        (["reduce", "n000.s0", "-o", "taken.html"], "taken.html exists"),
    ],
)
def test_wrong_arguments_start_nothing(
    suite: Suite, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(suite.path.parent)
    Path("taken.html").write_text("mine")
    command, *rest = arguments
    assert main([command, str(suite.path), *rest]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "starting" not in err
    assert Path("taken.html").read_text() == "mine"
