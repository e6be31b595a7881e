"""A test's outputs over HTTP: what strangers ask for, and what strange devices answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from helpers import FakeRunner
from tapml.files import sha256
from tapml.npy import opening
from tapml.server.state import State
from tapml.sharing.arrays_file import read_arrays
from tapml.suite import Suite

CHANGE = {"X-Tapml": "1"}


@pytest.fixture
def path(suite: Suite) -> str:
    return f"/api/suites/small/tests/{suite.tests[0].id}/outputs"


def ended(client: FlaskClient, state: State, path: str, device: str) -> tuple[str, str, str | None]:
    """The job's id when it has ended, how it ended, and why."""
    job = client.post(path, json={"device": device}, headers=CHANGE).json["job"]
    running = state.jobs.get(job)
    assert running is not None
    assert running.done.wait(180)
    found = client.get(f"/api/jobs/{job}").json
    return job, found["state"], found["error"]


def sending(client: FlaskClient, data: bytes, statuses: list[int]) -> Callable[[dict[str, Any], FakeRunner], None]:
    """A device that sends these bytes for what it is to bring home."""

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        if all(command["op"] != "download" for command in message["params"]["commands"]):
            runner.finish(message)
            return
        sent = client.post(f"/api/calls/{message['call']}/downloads", data=data, headers=CHANGE)
        statuses.append(sent.status_code)
        runner.finish(message, downloads=[len(data)])

    return answer


def test_the_outputs_are_the_devices_own(
    client: FlaskClient, state: State, suite: Suite, path: str, tmp_path: Path
) -> None:
    (ref,) = suite.tests[0].outputs
    wrong = suite.tensors.get(ref) + 1
    statuses: list[int] = []
    device = FakeRunner(state.hub, sending(client, wrong.tobytes(), statuses)).device
    job, how, error = ended(client, state, path, device.id)
    assert (how, error, statuses) == ("done", None, [200])
    file = tmp_path / "outputs.safetensors"
    answer = client.get(f"/api/jobs/{job}/outputs")
    assert answer.headers["Cache-Control"] == "no-store"
    file.write_bytes(answer.data)
    _, arrays = read_arrays("the outputs", opening(file))
    assert list(arrays) == ["0"]
    np.testing.assert_array_equal(arrays["0"], wrong)
    # No verdict comes of it, and a later job's take the place of these.
    assert client.get("/api/suites/small/results").json["validations"] == []
    later, _, _ = ended(client, state, path, device.id)
    assert client.get(f"/api/jobs/{job}/outputs").status_code == 404
    assert client.get(f"/api/jobs/{later}/outputs").data == answer.data


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not valid JSON"),
        (b"[]", "no JSON object"),
        (b'"x"', "no JSON object"),
        (b"\xff", "not valid JSON"),
        (b"{}", "device"),
        (b'{"device": 1}', "device"),
        (b'{"device": null}', "device"),
        (b'{"device": ""}', "device"),
        (b'{"device": ["x"]}', "device"),
        (b'{"device": "a\\u0000b"}', "device"),
        (b'{"device": "a\\u202eb"}', "device"),
        (b'{"device": "' + b"x" * 10_000 + b'"}', "device"),
        (b'{"device": "x", "device": "y"}', "twice"),
        (b'{"device": "x", "test": "n0.s0"}', "test"),
        (b'{"device": "x", "hang_seconds": 0}', "hang_seconds"),
        (b'{"device": "x", "hang_seconds": -1}', "hang_seconds"),
        (b'{"device": "x", "hang_seconds": 1e9}', "hang_seconds"),
        (b'{"device": "x", "hang_seconds": NaN}', "NaN"),
        (b'{"device": "x", "hang_seconds": "30"}', "hang_seconds"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_request_is_one_sentence(client: FlaskClient, path: str, body: bytes, sentence: str) -> None:
    answer = client.post(path, data=body, headers={**CHANGE, "Content-Type": "application/json"})
    assert answer.status_code == 400
    assert sentence in answer.json["error"]
    assert len(answer.json["error"]) < 1000
    assert answer.json["error"].isprintable()


@pytest.mark.parametrize(
    ("suite_id", "test", "status"),
    [
        ("small", "n999.s0", 400), ("small", "..%2f..%2fsuite.json", 404), ("small", "%00", 400),
        ("small", "x" * 5000, 400), ("small", "%ff", 400), ("other", "n000.s0", 404), ("..", "n000.s0", 404),
    ],
)  # fmt: skip
def test_a_test_that_is_none_is_told(client: FlaskClient, suite_id: str, test: str, status: int) -> None:
    answer = client.post(f"/api/suites/{suite_id}/tests/{test}/outputs", json={"device": "x"}, headers=CHANGE)
    assert answer.status_code == status
    assert len(answer.json["error"]) < 1000


def test_only_the_page_may_ask_and_not_with_megabytes(client: FlaskClient, path: str) -> None:
    assert client.post(path, json={"device": "x"}).status_code == 403
    assert (
        client.post(path, json={"device": "x"}, headers={**CHANGE, "Origin": "http://evil.example"}).status_code == 403
    )
    assert client.post(path, data="device=x", headers=CHANGE).status_code == 415
    assert client.get(path).status_code == 405
    large = client.post(path, json={"device": "x" * (1 << 20)}, headers=CHANGE)
    assert (large.status_code, "is larger than" in large.json["error"]) == (413, True)


def test_a_device_that_is_none_or_is_gone_is_told(client: FlaskClient, state: State, path: str) -> None:
    _, how, error = ended(client, state, path, "nobody")
    assert (how, "nobody" in str(error)) == ("failed", True)
    runner = FakeRunner(state.hub, lambda message, runner: runner.vanish())
    # It goes while it runs, and is not there the next time.
    for _ in range(2):
        job, how, error = ended(client, state, path, runner.device.id)
        assert how == "failed"
        assert error is not None
        assert "\n" not in error
        answer = client.get(f"/api/jobs/{job}/outputs")
        assert (answer.status_code, "has no outputs" in answer.json["error"]) == (404, True)


@pytest.mark.parametrize(("change", "status"), [(1, 413), (-1, 200), (1 << 21, 413)])
def test_a_device_that_sends_too_much_or_too_little_gives_nothing(
    client: FlaskClient, state: State, suite: Suite, path: str, change: int, status: int
) -> None:
    (ref,) = suite.tests[0].outputs
    statuses: list[int] = []
    data = bytes(ref.type.nbytes + change)
    device = FakeRunner(state.hub, sending(client, data, statuses)).device
    job, how, error = ended(client, state, path, device.id)
    assert (how, statuses) == ("failed", [status])
    assert "bytes where" in str(error)
    assert client.get(f"/api/jobs/{job}/outputs").status_code == 404


def test_what_is_not_saved_runs_in_the_place_of_the_files(
    client: FlaskClient, state: State, suite: Suite, path: str
) -> None:
    kernel = suite.tests[0].kernel
    (ref,) = suite.tests[0].outputs
    runner = FakeRunner(state.hub, sending(client, suite.tensors.get(ref).tobytes(), []))
    file = f"{kernel}.wgsl"
    text = (suite.path / "kernels" / file).read_text() + "// not saved\n"
    body = {"device": runner.device.id, "files": {file: text}}
    job = state.jobs.get(client.post(path, json=body, headers=CHANGE).json["job"])
    assert job is not None
    assert job.done.wait(180)
    assert job.state == "done", job.error
    # A kernel's text travels by its digest.
    assert sha256(text.encode()) in str([call["params"] for call in runner.calls])
    assert "// not saved" not in (suite.path / "kernels" / file).read_text()
    for files, said in (({"other.wgsl": ""}, "is no file of"), ({}, "files")):
        answer = client.post(path, json={**body, "files": files}, headers=CHANGE)
        assert answer.status_code == 400
        assert said in answer.json["error"]
