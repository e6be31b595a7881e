"""The service as devices, and those who are none, see it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from field_profiles import IDS, profile
from field_tasks import FILES, TASK, Group
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tunnel_client import Tunnel

from tapml.errors import InputError
from tapml.field import signing
from tapml.field.decisions import device_key, position, release_salt, share_end, watched
from tapml.field.profiles import HEADER
from tapml.field.releases import Plan
from tapml.field.service.application import ANSWER_HEADER, GRANT_HEADER, create_app
from tapml.field.service.console_views import KEY_HEADER
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.serving import FieldServer
from tapml.field.signing import SigningKey, new_key
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.records import Records
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Store
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published
from tapml.files import sha256

EXCLUSIVE = {"exclusive/ann/taste.json": b"[1]", "exclusive/bob/taste.json": b"[2]"}
ORIGIN = "https://shop.example"


class Field:
    """A published version, released to two beta devices, and a client."""

    def __init__(self, folder: Path) -> None:
        self.group = Group(folder)
        self.group.add("1.0", {**FILES, **EXCLUSIVE})
        self.digest = self.group.publish("1.0")
        self.pages_key: SigningKey = new_key(folder / "grants.pem")
        self.now = 1000
        self.store = Store(folder / "field.sqlite3")
        self.samples = SampleStore(folder / "field.sqlite3")
        self.release("1.0", [{"kind": "beta", "devices": IDS[:2]}, {"kind": "full"}])
        self.state = FleetState(self.store, FleetStore(folder / "field.sqlite3"), self.samples, lambda: self.now)
        app = create_app(
            self.state, Published(published_path(self.group.path)), grants=self.pages_key.public,
            origins=[ORIGIN], local=True,
        )  # fmt: skip
        self.client: FlaskClient = app.test_client()

    def release(self, version: str, steps: list[dict[str, Any]]) -> None:
        given = {"task": TASK, "version": version, "manifest": self.digest, "steps": steps}
        self.plan = Plan.model_validate(given)
        self.store.add(self.plan, self.now)

    def report(self, device: str, **more: Any) -> bool:
        told = {"task": TASK, "version": "1.0", "failed": False, **more}
        answer = self.client.post("/field/reports", json=told, headers=header(device))
        assert answer.status_code == 200, answer.text
        return bool(answer.json["counted"])

    def exclusive(self, path: str, grant: str | None, **headers: str) -> Any:
        given = headers if grant is None else {GRANT_HEADER: grant, **headers}
        return self.client.get(f"/field/exclusive/{self.digest}/{path}", headers=given)


def header(device: str = IDS[0], **more: Any) -> dict[str, str]:
    return {HEADER: profile(device, **more).model_dump_json(exclude_none=True)}


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    found = Field(tmp_path)
    yield found
    found.state.stop()


def test_a_device_is_told_what_is_for_it_and_pulls_it(field: Field) -> None:
    offer = {"task": TASK, "version": "1.0", "manifest": field.digest}
    answer = field.client.get("/field/answer", headers=header())
    assert answer.json == {"install": [offer], "remove": []}
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(answer.headers[ANSWER_HEADER]) == answer.json
    assert field.client.get("/field/answer", headers=header(IDS[5])).json == {"install": [], "remove": []}
    assert field.client.get("/field/answer", headers=header(holds={TASK: "1.0"})).json == {"install": [], "remove": []}

    manifest = field.client.get(f"/field/manifests/{field.digest}.json")
    signature = field.client.get(f"/field/manifests/{field.digest}.sig").data
    assert sha256(manifest.data) == field.digest
    assert signing.verify(field.group.key.public, signing.MANIFEST, manifest.data, signature)
    for file in manifest.json["shared"]:
        blob = field.client.get(f"/field/blobs/{file['sha256']}")
        assert len(blob.data) == file["bytes"]
        assert sha256(blob.data) == file["sha256"]
        assert blob.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        again = field.client.get(f"/field/blobs/{file['sha256']}", headers={"If-None-Match": blob.headers["ETag"]})
        assert again.status_code == 304
    part = field.client.get(f"/field/blobs/{sha256(FILES['weights/w.bin'])}", headers={"Range": "bytes=16-31"})
    assert (part.status_code, part.data) == (206, FILES["weights/w.bin"][16:32])


def test_reports_move_a_release_and_a_failure_takes_it_back_from_everybody(field: Field) -> None:
    assert field.report(IDS[0])
    assert not field.report(IDS[0])
    assert not field.report(IDS[7])  # it is not to hold it
    assert not field.report(IDS[1], version="2.0")
    assert field.report(IDS[1], ms=20)
    field.now = 2000
    field.state.look()
    assert field.client.get("/field/answer", headers=header(IDS[7])).json["install"]
    devices = [f"somebodys-device-{number:06d}" for number in range(40)]
    assert all(field.report(device, failed=True) for device in devices)
    field.now = 3000
    field.state.look()
    holding = {TASK: "1.0"}
    for device in (*IDS[:3], *devices[:3]):
        answer = field.client.get("/field/answer", headers=header(device, holds=holding, app="0.1"))
        assert answer.json == {"install": [], "remove": [TASK]}


def test_why_runs_failed_is_told_by_version_and_browser(field: Field) -> None:
    field.release("1.1", [{"kind": "full"}])
    field.state.look()
    failure = {"kind": "exception", "what": "ValueError at main.py:12"}
    for device in (*IDS[:2], IDS[0]):
        field.report(device, version="1.1", failed=True, failure=failure)
    assert field.report(IDS[2], version="1.1")
    # Its first run was good and counts; why a later one was not is told.
    assert not field.report(IDS[2], version="1.1", failed=True, failure={"kind": "time"})
    one, other = field.store.failed_runs()
    assert (one["kind"], one["what"], one["devices"]) == ("exception", "ValueError at main.py:12", 2)
    assert (one["browser"], one["gpu"]) == ("chromium 156", "")
    assert (other["kind"], other["what"], other["devices"]) == ("time", "", 1)
    for what in ("my name is Ann", "ValueError at /etc/passwd", "x" * 200):
        told = {"task": TASK, "version": "1.1", "failed": True, "failure": {**failure, "what": what}}
        assert field.client.post("/field/reports", json=told, headers=header(IDS[3])).status_code == 400


def test_a_version_that_no_device_can_install_is_rolled_back(field: Field) -> None:
    field.release("1.1", [{"kind": "full"}])
    field.state.look()
    failure = {"kind": "pull", "what": "task.json"}
    devices = [f"somebodys-device-{number:06d}" for number in range(40)]
    assert all(field.report(one, version="1.1", failed=True, failure=failure) for one in devices)
    assert not field.report(devices[0], version="1.1", failed=True, failure=failure)
    field.state.look()
    broken = field.store.releases()[-1]
    assert (broken.status, field.store.counts(broken).failed) == ("rolled-back", 40)
    (told,) = field.store.failed_runs()
    assert (told["kind"], told["what"], told["devices"]) == ("pull", "task.json", 40)
    field.state.seen.look()
    assert field.state.fleet.devices() == []  # none of them holds it


def test_a_device_that_ran_a_version_holds_it(field: Field) -> None:
    assert field.client.get("/field/answer", headers=header()).json["install"]
    assert field.report(IDS[0], failed=True, failure={"kind": "exception"})
    field.state.seen.look()
    (told,) = field.state.fleet.devices()
    assert (told["device"], told["holds"]) == (IDS[0], {TASK: "1.0"})
    assert field.state.fleet.coverage(field.store.releases()[0]) == [(1000, 1)]


def test_of_a_watched_share_reports_count_and_every_device_of_a_named_step(field: Field, tmp_path: Path) -> None:
    state = FleetState(
        field.store, FleetStore(tmp_path / "field.sqlite3"), field.samples, lambda: field.now, share=0.25
    )  # fmt: skip
    assert all(state.report(profile(device), TASK, "1.0", False, None) for device in IDS[:2])  # beta
    state.look()
    devices = [f"somebodys-device-{number:06d}" for number in range(1000)]
    counted = [device for device in devices if state.report(profile(device), TASK, "1.0", False, None)]
    assert 150 < len(counted) < 350
    assert counted == [device for device in devices if watched(device, 0.25)]
    for device in devices:
        assert state.answer(profile(device))["install"]  # all of them have it
    state.seen.look()
    assert {one["device"] for one in state.fleet.devices()} == set(counted)
    # Who is watched says nothing of who is in a share of a release.
    admitted = [device for device in devices if position(device_key(device), release_salt(field.plan)) < share_end(0.5)]
    assert 0.15 < sum(watched(device, 0.25) for device in admitted) / len(admitted) < 0.35
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(InputError, match="cannot be watched"):
            FleetState(field.store, state.fleet, field.samples, share=share)


def test_exclusive_files_are_their_subjects_and_nobody_elses(field: Field) -> None:
    soon = int(time.time()) + 600
    ann, carl = field.pages_key.grant("ann", soon), field.pages_key.grant("carl", soon)
    document = field.exclusive("document.json", ann)
    assert document.headers["Cache-Control"] == "private, no-store"
    assert [file["path"] for file in document.json["files"]] == ["taste.json"]
    signature = field.exclusive("document.sig", ann).data
    assert signing.verify(field.group.key.public, signing.EXCLUSIVE, document.data, signature)
    mine = field.exclusive("files/taste.json", ann)
    assert (mine.data, mine.headers["Cache-Control"]) == (b"[1]", "private, no-store")

    missing = field.exclusive("files/other.json", ann)
    for answer in (
        field.exclusive("document.json", carl),
        field.exclusive("files/taste.json", carl),
        field.exclusive("files/taste.json", None),
        field.exclusive("files/../../bob/taste.json", ann),
        field.exclusive("files/../bob.json", ann),
        field.exclusive("bob.json", ann),
        # Neither what a profile declares nor what stands in an address is believed.
        field.exclusive("files/taste.json", None, **header(attributes={"subject": "bob", "user": "bob"})),
        field.exclusive("files/taste.json?subject=bob", None),
        field.client.get(f"/field/blobs/{sha256(b'[2]')}"),
        field.client.get(f"/field/blobs/..%2fexclusive%2fblobs%2f{sha256(b'[2]')}"),
        field.client.get(f"/field/manifests/..%2fexclusive%2f{field.digest}%2fbob.json"),
    ):
        assert answer.status_code == 404
        assert b"[2]" not in answer.data
    assert field.exclusive("document.json", carl).json == missing.json
    for forged in ("", ann[:-3], new_key(field.group.path / "k").grant("bob", soon), ann.replace(".", "", 1)):
        assert field.exclusive("files/taste.json", forged).status_code == 403
    bob = header(attributes={"subject": "bob"})
    assert field.exclusive("files/taste.json", ann, **bob).data == b"[1]"


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("GET", "/field/answer", {}, 400),
        ("GET", "/field/answer", {"headers": {HEADER: "x" * 5000}}, 400),
        ("GET", "/field/answer", {"headers": {HEADER: '{"device": "é"}'}}, 400),
        ("GET", "/field/blobs/" + "g" * 64, {}, 404),
        ("GET", "/field/blobs/" + "0" * 64, {}, 404),
        ("GET", "/nothing", {}, 404),
        ("POST", "/field/reports", {"data": "{}", "headers": header()}, 415),
        ("POST", "/field/reports", {"json": [], "headers": header()}, 400),
        ("POST", "/field/reports", {"json": {"task": TASK}, "headers": header()}, 400),
        ("POST", "/field/reports", {"json": {"task": TASK, "version": "1.0", "failed": False}}, 400),
        ("POST", "/field/reports", {"json": {"x": "x" * 20_000}, "headers": header()}, 413),
        ("GET", "/field/answer", {"headers": {**header(), "Host": "rebound.example"}}, 403),
        ("GET", "/field/answer", {"headers": {**header(), "Origin": "https://evil.example"}}, 403),
        ("OPTIONS", "/field/reports", {"headers": {"Origin": "https://evil.example"}}, 403),
    ],
)
def test_what_is_wrong_is_one_sentence(field: Field, method: str, path: str, given: Any, status: int) -> None:
    answer = field.client.open(path, method=method, **given)
    assert answer.status_code == status
    assert set(answer.json) == {"error"}
    assert "\n" not in answer.json["error"]


_anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20) | st.sampled_from([TASK, "1.0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_changes = st.dictionaries(
    st.sampled_from(["task", "version", "failed", "ms", "failure", "device", "app", "browser", "holds", "x"]), _anything
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_changes, _changes, st.one_of(st.none(), st.binary(max_size=200)))
def test_whatever_a_device_sends_is_taken_or_refused_in_one_sentence(
    field: Field, told: dict[str, Any], report: dict[str, Any], raw: bytes | None
) -> None:
    profile = {**json.loads(header()[HEADER]), **told}
    given_report = {"task": TASK, "version": "1.0", "failed": False, **report}
    body = json.dumps(given_report).encode() if raw is None else raw
    sent = {HEADER: json.dumps(profile)}
    for answer in (
        field.client.get("/field/answer", headers=sent),
        field.client.post("/field/reports", data=body, content_type="application/json", headers=sent),
        field.client.post(f"/field/samples?task={TASK}&version=1.0", data=body, headers=sent),
    ):
        assert answer.status_code in (200, 400)
        assert answer.status_code == 200 or set(answer.json) == {"error"}
        assert not {"\n", "\r"} & set(answer.json.get("error", ""))


def test_pages_of_an_origin_that_was_named_may_ask(field: Field) -> None:
    asked = field.client.open("/field/reports", method="OPTIONS", headers={"Origin": ORIGIN})
    assert asked.status_code == 204
    assert HEADER in asked.headers["Access-Control-Allow-Headers"]
    answer = field.client.get("/field/answer", headers={**header(), "Origin": ORIGIN})
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN


def test_a_server_that_is_started_again_goes_on(field: Field, tmp_path: Path) -> None:
    def ask(
        server: FieldServer, method: str, path: str, body: str | None = None, more: dict[str, str] | None = None
    ) -> Any:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
        connection.request(method, path, body, {**header(), "Content-Type": "application/json", **(more or {})})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return found

    told = json.dumps({"task": TASK, "version": "1.0", "failed": True})
    apart = tmp_path / "records.sqlite3"
    with FieldServer(field.group.path, tmp_path / "field.sqlite3", records_database=apart) as server:
        tunnel = Tunnel(server.tunnel_url, Origin=server.url)
        assert tunnel.send(1, "a") == {"acknowledged": 1}
        found = ask(server, "GET", "/field/console", None, {KEY_HEADER: server.console.partition("#")[2]})["traffic"]
        (emitted,) = found.pop("emitted")
        assert emitted.pop("latest") > 0
        assert emitted == {"task": TASK, "version": "1.0", "name": "feature", "records": 1, "devices": 1}
        assert found.pop("bytes") > 0
        assert found == {
            "redis": "none", "processes": 1, "answers": 0, "reports": 0, "connections": 1, "devices": None,
            "streams": 1, "records": 1,
        }  # fmt: skip
        assert [offer["version"] for offer in ask(server, "GET", "/field/answer")["install"]] == ["1.0"]
        assert ask(server, "POST", "/field/reports", told) == {"counted": True}
    assert [value for _, _, _, value in Records(apart).values(TASK)] == ["a"]
    with FieldServer(field.group.path, tmp_path / "field.sqlite3") as server:
        # By what was acknowledged before: it is rolled back at the first look.
        assert ask(server, "GET", "/field/answer") == {"install": [], "remove": []}
        assert ask(server, "POST", "/field/reports", told) == {"counted": False}


def test_the_first_page_lists_what_is_served(field: Field) -> None:
    served = [line for line in field.client.get("/").json["served"] if " /field/" in line]
    rules = {one.rule.split("/")[2] for one in field.client.application.url_map.iter_rules() if "/field/" in one.rule}
    assert {line.split("/")[2].partition("?")[0] for line in served} == rules
    scripts = [line.removeprefix("GET ") for line in field.client.get("/").json["served"] if line.endswith(".js")]
    assert [field.client.get(path).mimetype for path in scripts] == ["text/javascript"]


def test_pages_with_an_agent_may_run_python_and_connect_to_the_tunnel_of_their_host(tmp_path: Path) -> None:
    for folder in ("pages", "group"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pages" / "index.html").write_text("<!doctype html>")
    policies, isolated = {}, {}
    with FieldServer(tmp_path / "group", tmp_path / "field.sqlite3", pages=tmp_path / "pages") as server:
        for path in ("/pages/", "/static/agent/tapml-vm.js", "/static/console/index.html", "/"):
            with urllib.request.urlopen(server.url + path) as answer:
                policies[path] = answer.headers["Content-Security-Policy"]
                names = ("Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy")
                isolated[path] = [answer.headers[name] for name in names]
        tunnel = server.tunnel_url.removesuffix("/field/tunnel")
        for name in ("127.0.0.1", "localhost", "[::1]"):
            Tunnel(server.tunnel_url, Origin=f"http://{name}:{server.port}").socket.close()
    for path in ("/pages/", "/static/agent/tapml-vm.js"):
        assert "script-src 'self' 'wasm-unsafe-eval';" in policies[path]
        assert isolated[path] == ["same-origin", "require-corp"]
        assert f"connect-src 'self' {tunnel};" in policies[path]
    assert "wasm-unsafe-eval" not in policies["/static/console/index.html"]
    assert "script-src" not in policies["/"]
    assert isolated["/static/console/index.html"] == [None, None]
