"""HTTP as a page and as a stranger would use it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from helpers import FakeRunner, all_pass
from tapml.program import TensorType
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite

CHANGE = {"X-Tapml": "1"}


def test_a_suite_is_listed_and_described(client: FlaskClient, suite: Suite) -> None:
    (listed,) = client.get("/api/suites").json
    assert listed["id"] == "small"
    assert listed["tests"] == len(suite.tests)
    detail = client.get("/api/suites/small").json
    assert [node["id"] for node in detail["graph"]["nodes"]] == [node.id for node in suite.graph.nodes]
    assert {kernel["kernel"] for kernel in detail["kernels"]} == set(suite.kernels)
    for kernel in detail["kernels"]:
        assert kernel["compiler"] == "tvm"
        assert kernel["variants"] == ["256"]
        assert kernel["files"] == [f"{kernel['kernel']}.wgsl"]


def test_a_damaged_suite_does_not_hide_the_others(client: FlaskClient, state: State, suite: Suite) -> None:
    other = suite.path.with_name("other.suite")
    shutil.copytree(suite.path, other)
    state.suites.add(other)
    (suite.path / "kernels" / "softmax.json").write_text("{}")
    damaged, good = client.get("/api/suites").json
    assert damaged.keys() == {"id", "problem"}
    assert "softmax.json" in damaged["problem"]
    assert (damaged["id"], good["id"], good["tests"]) == ("small", "other", len(suite.tests))


def test_a_test_shows_its_tensors(client: FlaskClient, suite: Suite) -> None:
    test = suite.tests[0]
    detail = client.get(f"/api/suites/small/tests/{test.id}").json
    assert [t["role"] for t in detail["tensors"]] == ["input"] * len(test.inputs) + ["output"] * len(test.outputs)
    row = detail["tensors"][0]
    assert row["min"] <= row["mean"] <= row["max"]
    assert sum(row["histogram"]["counts"]) == suite.tensors.get(test.inputs[0]).size


def test_blobs_are_immutable_and_cacheable(client: FlaskClient, suite: Suite) -> None:
    ref = suite.tests[0].outputs[0]
    response = client.get(f"/blobs/{ref.digest}")
    assert response.data == suite.tensors.get(ref).tobytes()
    assert "immutable" in response.headers["Cache-Control"]


def test_small_blobs_come_together(client: FlaskClient, state: State, suite: Suite) -> None:
    refs = [test.outputs[0] for test in suite.tests[:3]]
    digests = [state.blobs.hold(b"bytes of the moment"), *(ref.digest for ref in refs)]
    expected = b"bytes of the moment" + b"".join(suite.tensors.get(ref).tobytes() for ref in refs)
    response = client.get("/blobs/" + "+".join(digests))
    assert response.data == expected
    assert response.content_length == len(expected)
    assert client.get("/blobs/" + "+".join([*digests, "0" * 64])).status_code == 404
    assert client.get("/blobs/" + "+".join(digests[:1] * 65)).status_code == 400


def test_a_suite_given_by_a_relative_path_is_served(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.path.parent)
    state = State(Security("127.0.0.1"))
    state.suites.add(Path(suite.path.name))
    client = create_app(state).test_client()
    ref = suite.tests[0].outputs[0]
    monkeypatch.chdir("/")
    assert client.get(f"/blobs/{ref.digest}").data == suite.tensors.get(ref).tobytes()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/blobs/" + "0" * 64, 404), ("/blobs/suite.json", 400), ("/blobs/..%2f..%2fsuite.json", 404),
        ("/static/../local.py", 404), ("/static/..%2f..%2flocal.py", 404), ("/api/suites/other", 404),
        ("/api/suites/..%2f..", 404), ("/api/suites/small/kernels/..%2fsuite", 404),
        ("/api/suites/small/kernels/nothing", 400), ("/api/suites/small/tests/n999.s0", 400), ("/api/jobs/none", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_is_a_json_error(client: FlaskClient, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert isinstance(response.json["error"], str)


FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/results", 404, "There is no such page: / lists what is served"),
        ("/models/<script>", 404, "This server has no models"),
        ("/blobs/" + "0" * 64, 404, "No blob"),
        ("/blobs/<script>", 400, "&lt;script&gt;"),
        ("/?token=a&token=b", 400, "A parameter of the address is given twice"),
    ],
)
def test_a_person_who_opens_what_is_not_there_sees_a_page(
    client: FlaskClient, path: str, status: int, sentence: str
) -> None:
    page = client.get(path, headers={"Accept": FIREFOX})
    assert (page.status_code, page.mimetype) == (status, "text/html")
    assert sentence in page.text
    assert "<script>" not in page.text
    assert page.text.count("<h1>") == 1
    for others in ("*/*", "application/json", "image/avif,image/webp,*/*"):
        assert client.get(path, headers={"Accept": others}).json.keys() == {"error"}


def test_the_api_answers_json_to_people_too(client: FlaskClient) -> None:
    assert "no suite 'other'" in client.get("/api/suites/other", headers={"Accept": FIREFOX}).json["error"]
    assert client.post("/results", headers={"Accept": FIREFOX, **CHANGE}).json.keys() == {"error"}


def test_a_copy_of_a_suite_has_its_folders_name(client: FlaskClient, state: State, suite: Suite) -> None:
    copy = suite.path.with_name("Other copy.suite")
    shutil.copytree(suite.path, copy)
    state.suites.add(copy)
    names = {found["id"]: found["name"] for found in client.get("/api/suites").json}
    assert names == {"small": suite.folder_name, "other-copy": "Other copy"}
    assert Suite(copy).name == suite.name


def test_foreign_pages_are_refused(client: FlaskClient) -> None:
    assert client.get("/api/suites", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/api/suites", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/api/suites", headers={"Origin": "http://localhost"}).status_code == 200
    assert client.post("/api/jobs", json={}).status_code == 403


def test_a_lan_server_wants_its_token(suite: Suite) -> None:
    state = State(Security("0.0.0.0"), url="http://0.0.0.0:1")
    state.suites.add(suite.path)
    client = create_app(state).test_client()
    assert client.get("/api/suites").status_code == 403
    assert client.get("/api/suites?token=guess").status_code == 403
    assert client.get(f"/api/suites?token={state.security.token}").status_code == 200
    assert client.get("/api/suites").status_code == 200, "the cookie carries it from there on"


JOB: dict[str, Any] = {"kind": "validation", "suite": "small", "devices": ["x"]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "no JSON object"),
        ({**JOB, "devices": []}, "the job: devices: List should have at least 1 item"),
        ({**JOB, "devices": ["x\0"]}, "the job: devices[0]: a name has no control characters"),
        ({**JOB, "kind": "dance"}, "the job: kind: Input should be 'validation', 'offload', 'locate' or 'reduce'"),
        ({**JOB, "kernels": "all"}, "kernels: Input should be a valid list"),
        ({**JOB, "kernels": ["none"]}, "no kernel 'none'"),
        ({**JOB, "tests": ["n999.s0"]}, "no test 'n999.s0'"),
        ({**JOB, "kind": "locate", "devices": ["x", "y"]}, "one device at a time: give one, not 2"),
        ({**JOB, "hang_seconds": 0}, "hang_seconds: Input should be greater than 0"),
        ({**JOB, "speed": 9}, "there is no field speed"),
    ],
)  # fmt: skip
def test_a_wrong_job_is_explained(client: FlaskClient, body: Any, message: str) -> None:
    response = client.post("/api/jobs", json=body, headers=CHANGE)
    assert response.status_code == 400
    assert message in response.json["error"]


def wait(client: FlaskClient, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"/api/jobs/{job}").json
        if found["state"] != "running" and found["events"][-1]["type"] == "ended":
            return found
        time.sleep(0.02)
    raise AssertionError("the job did not end")


def test_a_job_runs_to_its_document(client: FlaskClient, state: State, suite: Suite) -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.verdict(message, test)
        runner.finish(message)

    device = FakeRunner(state.hub, answer).device
    assert [d["id"] for d in client.get("/api/devices").json["connected"]] == [device.id]
    assert client.get("/api/devices").json["connected"][0]["started"] is None
    body = {"kind": "validation", "suite": "small", "devices": [device.id], "kernels": None}
    ended = wait(client, client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    assert ended["state"] == "done"
    assert ended["document"]["summary"]["pass"] == len(suite.tests)
    (saved,) = client.get("/api/suites/small/results").json["validations"]
    assert saved["tests"] == ended["document"]["tests"]
    kernel = suite.tests[0].kernel
    before = client.get("/api/suites/small/results").json["kernels"]
    assert {name: now["digest"] for name, now in before.items()} == saved["kernel_digests"]
    (told,) = (event for event in ended["events"] if event["type"] == "kernels")
    assert told["digests"] == saved["kernel_digests"]
    wgsl = next((suite.path / "kernels").glob(f"{kernel}*.wgsl"))
    wgsl.write_text(wgsl.read_text() + "// edited\n")
    after = client.get("/api/suites/small/results").json["kernels"]
    assert {name for name in after if after[name] != before[name]} == {kernel}
    assert after[kernel]["edited"]
    body["tests"] = [suite.tests[1].id]
    ended = wait(client, client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    assert [test["id"] for test in ended["document"]["tests"]] == body["tests"]


def test_a_page_that_is_closed_cancels_nothing(client: FlaskClient, state: State, suite: Suite) -> None:
    stays = FakeRunner(state.hub, all_pass, "One 1").device
    closes = FakeRunner(state.hub, lambda message, runner: runner.vanish(), "One 1").device
    body = {"kind": "validation", "suite": "small", "devices": [stays.id, closes.id]}
    ended = wait(client, client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    assert ended["state"] == "done"
    assert ended["document"]["summary"]["pass"] == ended["document"]["summary"]["total"] == len(suite.tests)
    assert ended["document"]["not_run"][closes.id] == [test.id for test in suite.tests]
    (told,) = [event["text"] for event in ended["events"] if event["type"] == "message"]
    assert told.startswith("One 1 (2): its page was closed")


def test_what_an_ended_job_told_is_read_as_before_and_kept_small(client: FlaskClient, state: State) -> None:
    device = FakeRunner(state.hub, all_pass).device
    body = {"kind": "validation", "suite": "small", "devices": [device.id], "kernels": None}
    first = client.post("/api/jobs", json=body, headers=CHANGE).json["job"]
    told = wait(client, first)
    wait(client, client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    kept = state.jobs.get(first)
    assert kept is not None
    assert kept.events == []
    assert kept.document is None
    assert client.get(f"/api/jobs/{first}").json == told
    rest = client.get(f"/api/jobs/{first}?after=2").json
    assert rest["events"] == told["events"][2:]


def test_a_job_on_an_unknown_device_fails_with_the_mend(client: FlaskClient) -> None:
    body = {"kind": "validation", "suite": "small", "devices": ["d-none"], "kernels": None}
    ended = wait(client, client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    assert ended["state"] == "failed"
    assert "no device 'd-none'" in ended["error"]


def test_downloads_are_bounded_by_their_call(client: FlaskClient, state: State) -> None:
    answers: list[int] = []

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for size in (5, 4):
            path = f"/api/calls/{message['call']}/downloads"
            answers.append(client.post(path, data=b"x" * size, headers=CHANGE).status_code)
        runner.finish(message)

    (array,) = FakeRunner(state.hub, answer).device.execute([], [TensorType((4,), "uint8")]).arrays
    assert array.tobytes() == b"xxxx"
    assert answers == [413, 200]
    assert client.post("/api/calls/none/downloads", data=b"x", headers=CHANGE).status_code == 404


def test_what_was_built_comes_compressed_to_whoever_takes_it(
    client: FlaskClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.server.pages.STATIC", tmp_path)
    (tmp_path / "a.js").write_text("plain")
    (tmp_path / "a.js.gz").write_bytes(b"packed")
    (tmp_path.parent / "b.js.gz").write_bytes(b"outside")
    packed = client.get("/static/a.js", headers={"Accept-Encoding": "gzip, br"})
    assert (packed.data, packed.headers["Content-Encoding"], packed.headers["Vary"]) == (
        b"packed",
        "gzip",
        "Accept-Encoding",
    )
    assert "javascript" in packed.headers["Content-Type"]
    for taken in ("identity", "", "gzip;q=0"):
        plain = client.get("/static/a.js", headers={"Accept-Encoding": taken})
        assert (plain.data, plain.headers.get("Content-Encoding")) == (b"plain", None)
    assert client.get("/static/../b.js", headers={"Accept-Encoding": "gzip"}).status_code == 404
