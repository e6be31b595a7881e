"""Kernels over HTTP: read, tried and written."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from helpers import FakeRunner, all_pass
from tapml.devices.messages import digest_now
from tapml.results.texts import joined
from tapml.server.state import State
from tapml.suite import Suite

CHANGE = {"X-Tapml": "1"}
KERNEL = "softmax"


def file_of(client: FlaskClient) -> dict[str, Any]:
    (found,) = client.get(f"/api/suites/small/kernels/{KERNEL}").json["files"]
    return dict(found)


def put(client: FlaskClient, name: str, **body: Any) -> Any:
    return client.put(f"/api/suites/small/kernels/{KERNEL}/files/{name}", json=body, headers=CHANGE)


def test_a_file_is_written_by_whoever_knows_what_it_was(client: FlaskClient, suite: Suite) -> None:
    file = file_of(client)
    text = file["text"] + "// mine\n"
    answer = put(client, file["name"], text=text, was=file["digest"])
    assert answer.json["kernel"] == {"digest": digest_now(suite, KERNEL), "edited": True}
    assert Path(file["path"]).read_text() == text
    assert file_of(client)["digest"] == answer.json["digest"]


def test_two_writers_of_a_file_are_told(client: FlaskClient) -> None:
    file = file_of(client)
    Path(file["path"]).write_text("// theirs\n")
    answer = put(client, file["name"], text="// mine\n", was=file["digest"])
    assert answer.status_code == 409
    assert "somebody else" in answer.json["error"]
    assert Path(file["path"]).read_text() == "// theirs\n"
    # Of many who began at the same text one is the first.
    was, codes = file_of(client)["digest"], []
    threads = [
        threading.Thread(
            target=lambda n=n: codes.append(
                put(client.application.test_client(), file["name"], text=f"// {n}\n", was=was).status_code
            )
        )
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200, 409, 409, 409, 409, 409]


def test_launches_are_written_as_far_as_they_are_some(client: FlaskClient, suite: Suite) -> None:
    document = client.get(f"/api/suites/small/kernels/{KERNEL}").json["document"]
    wrong = json.loads(document["text"])
    wrong["variants"][0]["launches"][0]["grid"] = [-1, 1, 1]
    answer = put(client, document["name"], text=json.dumps(wrong), was=document["digest"])
    assert answer.status_code == 400
    assert "grid" in answer.json["error"]
    assert Path(document["path"]).read_text() == document["text"]
    wrong["variants"][0]["launches"][0]["grid"] = [3, 1, 1]
    assert put(client, document["name"], text=json.dumps(wrong), was=document["digest"]).status_code == 200
    assert suite.bundle(KERNEL)["variants"][0]["launches"][0]["grid"] == [3, 1, 1]


@pytest.mark.parametrize(
    "name", ["layer_norm.wgsl", "..%2fsuite.json", "../../suite.json", "suite.json", "x.wgsl", "%00"]
)
def test_nothing_but_a_kernels_own_files_is_written(client: FlaskClient, suite: Suite, name: str) -> None:
    before = {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()}
    answer = put(client, name, text="x", was=file_of(client)["digest"])
    assert answer.status_code in (400, 404)
    assert {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()} == before


def test_what_is_no_text_is_refused(client: FlaskClient) -> None:
    file = file_of(client)
    for body in ({"text": "\ud800", "was": file["digest"]}, {"text": "x"}, {"text": 1, "was": file["digest"]}):
        assert put(client, file["name"], **body).status_code == 400
    answer = client.put(f"/api/suites/small/kernels/{KERNEL}/files/{file['name']}", json={"text": "x", "was": "0" * 64})
    assert answer.status_code == 403
    assert file_of(client) == file


def test_a_link_in_a_files_place_leads_nowhere(client: FlaskClient, tmp_path: Path) -> None:
    file = file_of(client)
    outside = tmp_path / "outside.wgsl"
    outside.write_text(file["text"])
    Path(file["path"]).unlink()
    Path(file["path"]).symlink_to(outside)
    answer = put(client, file["name"], text="// mine\n", was=file["digest"])
    assert answer.status_code == 400
    assert outside.read_text() == file["text"]


def test_texts_are_tried_and_nothing_of_it_is_kept(client: FlaskClient, state: State, suite: Suite) -> None:
    seen: list[dict[str, Any]] = []

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        seen.append(message["params"])
        all_pass(message, runner)

    device = FakeRunner(state.hub, answer).device
    file, before = file_of(client), digest_now(suite, KERNEL)
    files = {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()}
    body = {"kind": "validation", "suite": "small", "devices": [device.id], "kernels": [KERNEL]}
    tried = {**body, "files": {file["name"]: "// tried\n"}}
    job = state.jobs.get(client.post("/api/jobs", json=tried, headers=CHANGE).json["job"])
    assert job is not None
    assert job.done.wait(180)
    assert job.state == "done", job.error
    (told,) = (event for event in job.events if event["type"] == "kernels")
    assert told["trial"]
    assert told["digests"][KERNEL] != before
    assert [kernel["kernel"] for kernel in seen[0]["kernels"]] == [KERNEL]
    assert {path: path.read_bytes() for path in suite.path.rglob("*") if path.is_file()} == files
    for wrong in (
        {**body, "files": {"suite.json": "{}"}},
        {**body, "files": {"../suite.json": "{}"}},
        {**body, "files": {f"{KERNEL}.json": "{}"}},
        {**body, "files": {}},
        {**body, "kernels": None, "files": {file["name"]: "x"}},
        {**body, "kind": "locate", "files": {file["name"]: "x"}},
    ):
        assert client.post("/api/jobs", json=wrong, headers=CHANGE).status_code == 400


def versions(client: FlaskClient) -> list[dict[str, Any]]:
    return list(client.get(f"/api/suites/small/kernels/{KERNEL}/versions").json["versions"])


def validate(client: FlaskClient, state: State, verdict: str) -> None:
    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.verdict(message, test, verdict=verdict)
        runner.finish(message)

    device = FakeRunner(state.hub, answer).device
    body = {"kind": "validation", "suite": "small", "devices": [device.id], "kernels": [KERNEL]}
    job = state.jobs.get(client.post("/api/jobs", json=body, headers=CHANGE).json["job"])
    assert job is not None
    assert job.done.wait(180)
    assert job.state == "done", job.error


def test_texts_that_ran_are_kept_with_what_came_of_them(client: FlaskClient, state: State, suite: Suite) -> None:
    assert versions(client) == []
    assert client.get("/api/suites/small/kernels/none/versions").status_code == 400
    file, document = file_of(client), client.get(f"/api/suites/small/kernels/{KERNEL}").json["document"]
    generated = digest_now(suite, KERNEL)
    put(client, file["name"], text="// mine\n" + file["text"], was=file["digest"])
    # What never ran is nowhere else.
    (one,) = versions(client)
    assert (one["digest"], one["edited"], one["verdicts"]) == (generated, False, {})
    assert one["files"] == {file["name"]: file["text"], document["name"]: document["text"]}
    validate(client, state, "fail")
    mine, same = versions(client)
    assert (mine["digest"], mine["edited"], [*mine["verdicts"].values()]) == (digest_now(suite, KERNEL), True, ["fail"])
    assert mine["files"][file["name"]] == "// mine\n" + file["text"]
    assert same == one
    Path(file["path"]).write_text(file["text"])
    validate(client, state, "pass")
    first, second = versions(client)
    assert (first["digest"], [*first["verdicts"].values()], first["first"]) == (generated, ["pass"], one["first"])
    assert second == mine
    # A file that somebody wrote over is told, and begun anew by the next run.
    (suite.path / "results" / "texts" / f"{KERNEL}.json").write_text('{"format": "tapml.texts/1", "versions": 7}')
    answer = client.get(f"/api/suites/small/kernels/{KERNEL}/versions")
    assert answer.status_code == 400
    assert f"{KERNEL}.json" in answer.json["error"]
    validate(client, state, "pass")
    assert [one["digest"] for one in versions(client)] == [generated]


def test_a_few_texts_are_kept_and_those_that_one_asks_for() -> None:
    def version(at: int, verdict: str, *, edited: bool = True) -> Any:
        created = f"2026-01-{at:02}T00:00:00+00:00"
        files = {"x.wgsl": str(at)}
        return {
            "digest": str(at), "first": created, "created": created, "edited": edited, "verdicts": {"a": verdict},
            "files": files,
        }  # fmt: skip

    found: list[Any] = []
    for new in (version(1, "fail", edited=False), version(2, "pass"), version(3, "pass"), version(4, "unbounded")):
        found = joined(found, new)
    for at in range(5, 25):
        found = joined(found, version(at, "fail"))
    # The first as it was generated, the latest that passes, and the latest eight.
    assert [one["digest"] for one in found] == [*map(str, range(24, 16, -1)), "3", "1"]
    again = joined(found, {**version(26, "error"), "digest": "20", "verdicts": {"b": "pass"}})
    assert (again[0]["digest"], again[0]["verdicts"]) == ("20", {"a": "fail", "b": "pass"})
    assert again[0]["first"] == "2026-01-20T00:00:00+00:00"


def test_texts_are_checked_without_running_or_writing_them(client: FlaskClient) -> None:
    def problem(**files: str) -> str | None:
        path = f"/api/suites/small/kernels/{KERNEL}/check"
        answer = client.post(path, json={"files": files}, headers=CHANGE)
        assert answer.status_code == 200
        found: str | None = answer.json["problem"]
        return found

    document = client.get(f"/api/suites/small/kernels/{KERNEL}").json["document"]
    changed = json.loads(document["text"])
    assert problem(**{document["name"]: document["text"]}) is None
    changed["variants"][0]["launches"][0]["grid"] = [-1, 1, 1]
    assert "grid" in str(problem(**{document["name"]: json.dumps(changed)}))
    assert "no file" in str(problem(**{"other.wgsl": "x"}))
    assert Path(document["path"]).read_text() == document["text"]
