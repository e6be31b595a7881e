"""Shared links as visitors, strangers and attackers use them; exports and imports over HTTP."""

from __future__ import annotations

import io
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repro_helpers import keep_result, read_data
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing.html_file import html_file
from tapml.suite import Suite

CHANGE = {"X-Tapml": "1"}


@pytest.fixture
def state(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[State]:
    """On all interfaces: visitors have no token."""
    monkeypatch.setenv("TAPML_DATA", str(tmp_path / "data"))
    made = State(Security("0.0.0.0"), url="http://0.0.0.0:1")
    made.suites.add(suite.path)
    yield made
    made.close()


@pytest.fixture
def owner(state: State) -> FlaskClient:
    client = create_app(state).test_client()
    client.get(f"/?token={state.security.token}")  # the cookie
    return client


@pytest.fixture
def visitor(state: State) -> FlaskClient:
    return create_app(state).test_client()


@pytest.fixture
def test_id(suite: Suite) -> str:
    found = next(test.id for test in suite.tests if "softmax" in test.kernel)
    keep_result(suite, found)
    return found


def share(owner: FlaskClient, test_id: str, **body: Any) -> Any:
    response = owner.post(f"/api/suites/small/tests/{test_id}/shares", json=body, headers=CHANGE)
    assert response.status_code == 200, response.json
    return response.json


def test_a_visitor_sees_the_test_and_its_bytes(
    owner: FlaskClient, visitor: FlaskClient, suite: Suite, test_id: str, tmp_path: Path
) -> None:
    path = share(owner, test_id, device="Fake 1", days=7)["path"]
    answer = visitor.get(f"{path}/test")
    assert answer.headers["Cache-Control"] == "no-store"
    repro = answer.json["repro"]
    assert repro["test"]["id"] == test_id
    assert repro["report"]["result"]["message"] == "6 of 96 elements differ"
    for tensor in (*repro["inputs"], *repro["outputs"]):
        data = visitor.get(f"{path}/blobs/{tensor['digest']}").data
        assert data == suite.tensors.path(tensor["digest"]).read_bytes()
    (file,) = repro["files"]
    both = f"{repro['inputs'][0]['digest']}+{file['sha256']}"
    assert visitor.get(f"{path}/blobs/{both}").data.endswith(file["text"].encode())
    page = visitor.get(path)
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Referrer-Policy"] == "no-referrer"
    again = read_data("saved", visitor.get(f"{path}/repro.html").data, tmp_path)
    assert again.document.model_dump(mode="json") == repro
    assert "## Steps" in visitor.get(f"{path}/issue.md").text


def test_a_link_survives_a_restart(owner: FlaskClient, suite: Suite, test_id: str) -> None:
    path = share(owner, test_id)["path"]
    later = State(Security("0.0.0.0"), url="http://0.0.0.0:2")
    later.suites.add(suite.path)
    assert create_app(later).test_client().get(f"{path}/test").json["repro"]["test"]["id"] == test_id


def test_a_link_can_be_listed_and_revoked(owner: FlaskClient, visitor: FlaskClient, test_id: str) -> None:
    made = share(owner, test_id)
    assert visitor.get(f"{made['path']}/test").status_code == 200
    (listed,) = owner.get("/api/suites/small/shares").json["shares"]
    assert listed == made["share"]
    assert made["path"].split("/")[-1] not in str(listed)
    path = f"/api/suites/small/shares/{listed['name']}"
    assert owner.delete(path).status_code == 403, "a change needs the header"
    assert owner.delete(path, headers=CHANGE).status_code == 200
    gone = visitor.get(f"{made['path']}/test")
    assert gone.status_code == 404
    assert "revoked" in gone.json["error"]
    assert owner.delete(path, headers=CHANGE).status_code == 404


def test_what_a_visitor_may_not_see(owner: FlaskClient, visitor: FlaskClient, suite: Suite, test_id: str) -> None:
    """The link opens one test: no other tensor, kernel, suite, result, nor the making of links."""
    path = share(owner, test_id)["path"]
    mine = {ref.digest for ref in suite.test(test_id).refs}
    others = [digest for digest in suite.digests() if digest not in mine]
    assert others
    for digest in others:
        assert visitor.get(f"{path}/blobs/{digest}").status_code == 404
        assert visitor.get(f"/blobs/{digest}").status_code == 403
    for other in (
        "/", "/runner", "/api/suites", "/api/suites/small", "/api/suites/small/results", "/api/suites/small/shares",
        "/api/devices", f"/api/suites/small/tests/{test_id}", f"/api/suites/small/tests/{test_id}/export",
        "/static/webui/index.html", f"{path}/../../api/suites",
    ):  # fmt: skip
        assert visitor.get(other).status_code in (403, 404), other
        assert b"small" not in visitor.get(other).data
    for method in (visitor.post, visitor.delete, visitor.put):
        assert method(f"{path}/test", headers=CHANGE).status_code in (403, 405)
    assert visitor.post(f"/api/suites/small/tests/{test_id}/shares", json={}, headers=CHANGE).status_code == 403
    assert visitor.post("/api/imports", data=b"x", headers=CHANGE).status_code == 403


SECRET = "never to be seen"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(
            ["..", ".", "", "%2e%2e", "%2f", "..%2f..", "suite.json", "tensors", "shares", "test", "blobs", "s",
             "static", "share", "%00", "~", "local.py", "C:", "\\..", "....//", "repro.html", "api", "suites", "small"]
        ),
        max_size=8,
    ),
    valid=st.booleans(),
)  # fmt: skip
def test_no_path_leads_out_of_a_link(
    owner: FlaskClient, visitor: FlaskClient, suite: Suite, test_id: str, parts: list[str], valid: bool
) -> None:
    (suite.path / "secret.txt").write_text(SECRET)
    real = share(owner, test_id)["path"] if valid else f"/s/{secrets.token_urlsafe(16)}"
    response = visitor.get("/".join([real, *parts]))
    assert response.status_code in (200, 301, 308, 400, 403, 404)
    assert SECRET.encode() not in response.data
    for name in ("program.json", "tests.json", "security.py"):
        assert name.encode() not in response.data
    if response.status_code == 200 and not valid:
        # The page itself says nothing; it learns that the link is none when it asks for the test.
        assert "text/html" in response.content_type


def test_guessing_finds_nothing(owner: FlaskClient, visitor: FlaskClient, test_id: str) -> None:
    path = share(owner, test_id)["path"]
    for guess in [secrets.token_urlsafe(16) for _ in range(50)] + [path[3:-1], path[3:] + "A", path[3:].swapcase()]:
        if guess != path[3:]:
            assert visitor.get(f"/s/{guess}/test").status_code in (403, 404)


@pytest.mark.parametrize(
    "body", [{"days": 0}, {"days": "7"}, {"days": True}, {"days": -1}, {"device": 3}, {"device": "Nobody 9"}, []]
)
def test_a_wrong_request_makes_no_link(owner: FlaskClient, suite: Suite, test_id: str, body: Any) -> None:
    response = owner.post(f"/api/suites/small/tests/{test_id}/shares", json=body, headers=CHANGE)
    assert response.status_code == 400
    assert isinstance(response.json["error"], str)
    assert not (suite.path / "shares").exists()


@pytest.mark.parametrize("form", ["html", "safetensors"])
def test_a_file_over_http_is_the_exported_test(owner: FlaskClient, test_id: str, form: str, tmp_path: Path) -> None:
    response = owner.get(f"/api/suites/small/tests/{test_id}/export?form={form}&device=Fake")
    assert response.headers["Content-Disposition"].startswith('attachment; filename="softmax')
    assert response.content_type == "application/octet-stream"
    assert read_data("x", response.data, tmp_path).document.test.id == test_id


@pytest.mark.parametrize(("form", "names"), [("python", {"softmax-ID.py", "softmax-ID.safetensors"}),
                                            ("wgsl", {"softmax-ID/repro.json", "softmax-ID/README.md"})])  # fmt: skip
def test_what_is_several_files_comes_zipped(owner: FlaskClient, test_id: str, form: str, names: set[str]) -> None:
    response = owner.get(f"/api/suites/small/tests/{test_id}/export?form={form}")
    with zipfile.ZipFile(io.BytesIO(response.data)) as archive:
        assert {name.replace("ID", test_id) for name in names} <= set(archive.namelist())
    assert ".zip" in response.headers["Content-Disposition"]
    assert owner.get(f"/api/suites/small/tests/{test_id}/export?form=exe").status_code == 400


def test_an_exported_test_opens_and_joins_a_suite(owner: FlaskClient, state: State, suite: Suite, test_id: str) -> None:
    data = owner.get(f"/api/suites/small/tests/{test_id}/export?form=html").data
    opened = owner.post("/api/imports?name=../../x.html", data=data, headers=CHANGE)
    assert opened.status_code == 200, opened.json
    name = opened.json["suite"]
    detail = owner.get(f"/api/suites/{name}").json
    assert detail["model"]["kind"] == "imported"
    assert Path(opened.json["path"]).is_relative_to(state_data := suite.path.parent / "data"), state_data
    same = owner.post("/api/suites/small/imports", json={"suite": name, "test": "n000.s0"}, headers=CHANGE)
    assert same.json == {"test": test_id, "added": False}
    twice = owner.post("/api/imports?name=x.html", data=data, headers=CHANGE)
    assert twice.json == opened.json, "opened again, it is the same one"
    kernel = Path(opened.json["path"]) / "kernels" / "softmax.wgsl"
    kernel.write_text(kernel.read_text() + "// tried something\n")
    again = owner.post("/api/imports?name=x.html", data=data, headers=CHANGE)
    assert again.json["suite"] != name, "what was tried there stays"


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"<!doctype html>hello", b"\x10\0\0\0\0\0\0\0{}"])
def test_what_is_no_exported_test_is_refused(owner: FlaskClient, data: bytes) -> None:
    response = owner.post("/api/imports?name=holiday.html", data=data, headers=CHANGE)
    assert response.status_code == 400
    assert "holiday.html" in response.json["error"]
    assert len(owner.get("/api/suites").json) == 1


def test_a_tensor_that_was_swapped_is_refused(owner: FlaskClient, state: State, test_id: str) -> None:
    suite = state.suites.require("small")
    from tapml.sharing import of_suite
    from tapml.sharing.repro import of_memory

    repro = of_suite(suite, test_id)
    tensors = {digest: repro.read(digest) for digest in repro.digests}
    first = repro.digests[0]
    tensors[first] = np.zeros(len(tensors[first]), np.uint8).tobytes()
    with pytest.raises(Exception, match="damaged"):
        of_memory("x", repro.document, tensors)
    data = html_file(type(repro)(repro.document, lambda digest: [tensors[digest]]))
    assert owner.post("/api/imports?name=x.html", data=data, headers=CHANGE).status_code == 400
