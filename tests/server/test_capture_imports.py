"""Captured calls over HTTP: into the suite of their model, or refused in a sentence."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from captures import Json, capture_of, replaced
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite


@pytest.fixture
def client(suite: Suite) -> Iterator[FlaskClient]:
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    state.suites.add(suite.path)
    yield create_app(state).test_client()
    state.close()


def post(client: FlaskClient, data: bytes, **headers: str) -> Any:
    return client.post("/api/captures", data=data, headers={"Host": "127.0.0.1:1", "X-Tapml": "1", **headers})


def ended(client: FlaskClient, job: str) -> Any:
    deadline = time.monotonic() + 180
    while (found := client.get(f"/api/jobs/{job}", headers={"Host": "127.0.0.1:1"}).json)["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def doubled_input(document: Json, tensors: dict[str, bytes]) -> None:
    """A softmax of zeros that the device got right, and one that it got wrong."""
    call = next(call for call in document["calls"] if call["kernel"] == "softmax")
    wrong = {**call, "node": "n999", "outputs": [dict(output) for output in call["outputs"]]}
    document["calls"] = [call, wrong]
    replaced(call["inputs"][0], tensors, bytes(4 * 6 * 16))
    replaced(call["outputs"][0], tensors, np.full((6, 16), 1 / 16, np.float32).tobytes())
    replaced(wrong["outputs"][0], tensors, np.full((6, 16), 1 / 15, np.float32).tobytes())


def test_a_page_hands_a_capture_over_and_learns_how_it_did(
    client: FlaskClient, suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = capture_of(suite, tmp_path / "page.capture", change=doubled_input)
    answered = post(client, path.read_bytes())
    assert answered.status_code == 200, answered.json
    assert answered.json["suite"] == "small"
    sha256 = suite.manifest["model"]["sha256"]
    for digest, taken in ((sha256, "small"), ("1" * 64, None)):
        asked = client.get(f"/api/captures/{digest}", headers={"Host": "127.0.0.1:1"})
        assert asked.json == {"suite": taken}
    found = ended(client, answered.json["job"])
    assert (found["state"], found["error"], found["kind"]) == ("done", None, "import")
    assert {"type": "compare", "done": 2, "total": 2} in found["events"]
    document = found["document"]
    assert (document["path"], document["function"]) == (str(suite.path), "main")
    assert {name: count for name, count in document["summary"].items() if count} == {"pass": 1, "fail": 1}
    right, wrong = document["calls"]
    assert (right["verdict"], right["message"], right["test"]) == ("pass", "", "i000.s0")
    assert (wrong["verdict"], wrong["node"]) == ("fail", "n999")
    assert "outside their bounds" in wrong["message"]
    joined = Suite(suite.path)
    assert [test.id for test in joined.imported.tests] == ["i000.s0"], "of the same inputs it is the same test"
    assert not list(tmp_path.glob("tapml-capture-*")), "nothing is left of what was sent"


@pytest.mark.parametrize(
    ("made", "status", "sentence"),
    [
        (lambda data: b"", 400, "this is no captured call"),
        (lambda data: b"<html>", 400, "this is no captured call"),
        (lambda data: data[: len(data) // 2], 400, "cut short"),
        (lambda data: data.replace(b"tapml.capture/1", b"tapml.capture/7"), 400, "tapml.capture/7"),
        (lambda data: data.replace(b"sha256", b"sha257", 1), 400, "sha25"),
    ],
)
def test_what_is_no_capture_is_one_sentence(
    made: Any, status: int, sentence: str, client: FlaskClient, suite: Suite, tmp_path: Path
) -> None:
    answered = post(client, made(capture_of(suite, tmp_path / "page.capture").read_bytes()))
    assert answered.status_code == status, answered.json
    assert sentence in answered.json["error"]
    assert "\n" not in answered.json["error"]


def test_a_capture_of_another_model_finds_no_suite(client: FlaskClient, suite: Suite, tmp_path: Path) -> None:
    def other(document: Json, _: dict[str, bytes]) -> None:
        document["model"]["sha256"] = "1" * 64

    answered = post(client, capture_of(suite, tmp_path / "page.capture", change=other).read_bytes())
    assert answered.status_code == 404
    assert answered.json["error"].startswith("this server shows no suite of 'small'")


def test_a_capture_that_cannot_be_judged_fails_the_job(client: FlaskClient, suite: Suite, tmp_path: Path) -> None:
    def unknown(document: Json, _: dict[str, bytes]) -> None:
        document["kernels"][0]["kernel"] = document["calls"][0]["kernel"] = "nobody"
        document["calls"] = document["calls"][:1]

    answered = post(client, capture_of(suite, tmp_path / "page.capture", change=unknown).read_bytes())
    found = ended(client, answered.json["job"])
    assert found["state"] == "failed"
    assert "nobody" in found["error"]
    assert not Suite(suite.path).imported.tests


def test_a_foreign_page_cannot_send_one(client: FlaskClient, suite: Suite, tmp_path: Path) -> None:
    data = capture_of(suite, tmp_path / "page.capture").read_bytes()
    for headers in ({"X-Tapml": ""}, {"Origin": "http://elsewhere.example"}):
        assert post(client, data, **headers).status_code == 403
