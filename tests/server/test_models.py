"""Compiled models as pages load them from a server, and what a folder of strangers' files may hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from flask.testing import FlaskClient

from compiled_models import doubled
from tapml.compiled.files import single_pieces, write_folder
from tapml.compiled.model import Validation
from tapml.errors import InputError
from tapml.server import Server, models
from tapml.server.local import create_app
from tapml.server.model_views import pages_folder
from tapml.server.models import ModelFolder
from tapml.server.security import Security
from tapml.server.state import State

OTHER = "http://127.0.0.1:5173"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model as a folder, the same as a single file, and what is none."""
    model, parts = doubled()
    (tmp_path / "doubled.tapml").mkdir()
    write_folder(tmp_path / "doubled.tapml", model, parts.__getitem__)
    (tmp_path / "one.tapml").write_bytes(b"".join(single_pieces(model, parts.__getitem__)))
    (tmp_path / "notes.txt").write_text("no model")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "secret.json").write_text("{}")
    return tmp_path


@pytest.fixture
def client(folder: Path) -> FlaskClient:
    return client_of(folder)


def client_of(folder: Path, **options: Any) -> FlaskClient:
    state = State(
        Security("127.0.0.1", options.pop("origins", ())),
        url="http://127.0.0.1:1",
        models=ModelFolder(folder),
        **options,
    )
    return create_app(state).test_client()


def shard_of(folder: Path) -> Path:
    (found,) = (folder / "doubled.tapml" / "weights").iterdir()
    return found


def test_models_are_listed_with_what_they_rest_on(client: FlaskClient) -> None:
    document = client.get("/api/models").json
    assert document["left_out"] == 0
    first, second = document["models"]
    assert (first["id"], first["single"], second["id"], second["single"]) == ("doubled.tapml", False, "one.tapml", True)
    model, parts = doubled()
    for found in (first, second):
        assert found["name"] == model.name
        assert found["weights"] == sum(model.weights.buffers)
        assert found["kernels"] == len(model.kernels)
        assert found["validation"] == found["doubts"] == []
        assert [port["name"] for port in found["functions"]["main"]["inputs"]] == [
            port.name for port in model.functions["main"].inputs
        ]
    assert second["bytes"] >= sum(map(len, parts.values()))


def test_a_device_that_lacked_something_is_not_one_where_kernels_fail(tmp_path: Path) -> None:
    model, parts = doubled()
    names = [kernel.kernel for kernel in model.kernels]
    device = {"name": "Firefox 153", "runtime": "browser", "user_agent": ""}
    adapter = {"vendor": "", "architecture": "", "device": "", "description": ""}
    for verdict in ("unsupported", "error"):
        found = {"device": {**device, "adapter": adapter}, "kernels": dict.fromkeys(names, verdict)}
        validated = model.model_copy(update={"validation": [Validation.model_validate(found)]})
        (tmp_path / verdict).mkdir()
        write_folder(tmp_path / verdict, validated, parts.__getitem__)
    failing, lacking = (found["validation"] for found in client_of(tmp_path).get("/api/models").json["models"])
    assert failing == [{"device": "Firefox 153", "passed": 0, "failing": names, "unsupported": []}]
    assert lacking == [{"device": "Firefox 153", "passed": 0, "failing": [], "unsupported": names}]


def test_a_page_gets_every_file_once(client: FlaskClient, folder: Path) -> None:
    document = client.get("/models/doubled.tapml/model.json")
    assert document.content_type == "application/json"
    assert document.headers["Cache-Control"] == "no-cache"
    again = client.get("/models/doubled.tapml/model.json", headers={"If-None-Match": document.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    shard = shard_of(folder)
    found = client.get(f"/models/doubled.tapml/weights/{shard.name}")
    assert found.data == shard.read_bytes()
    assert found.content_type == "application/octet-stream"
    assert "immutable" in found.headers["Cache-Control"]
    assert found.headers["ETag"] == f'"{shard.stem}"'
    head = client.head(f"/models/doubled.tapml/weights/{shard.name}")
    assert (head.data, head.content_length) == (b"", shard.stat().st_size)


def test_a_single_file_comes_in_ranges(client: FlaskClient, folder: Path) -> None:
    content = (folder / "one.tapml").read_bytes()
    for asked, expected in (
        ("bytes=0-15", content[:16]),
        ("bytes=300-", content[300:]),
        ("bytes=-7", content[-7:]),
        (f"bytes=0-{10 * len(content)}", content),
    ):
        part = client.get("/models/one.tapml", headers={"Range": asked})
        assert (part.status_code, part.data) == (206, expected), asked
        assert part.content_length == len(expected)
    assert client.get("/models/one.tapml", headers={"Range": f"bytes={len(content)}-"}).status_code == 416
    assert client.get("/models/one.tapml").data == content


def test_ranges_arrive_from_a_server_that_runs(folder: Path) -> None:
    content = (folder / "one.tapml").read_bytes()
    with Server(models=folder) as server:
        for asked, expected in ((None, content), ("bytes=5-20", content[5:21]), ("bytes=300-", content[300:])):
            request = Request(f"{server.url}/models/one.tapml", headers={"Range": asked} if asked else {})
            with urlopen(request, timeout=120) as answer:
                assert answer.status == (206 if asked else 200)
                assert answer.read() == expected


def test_the_runtime_comes_with_them(client: FlaskClient) -> None:
    for name in ("runtime", "timing", "preparing", "tokenizer", "generation"):
        found = client.get(f"/runtime/tapml-{name}.js")
        assert found.status_code == 200
        assert found.content_type.startswith("text/javascript")
    assert b"declare" in client.get("/runtime/tapml-runtime.d.ts").data
    assert client.get("/runtime/../views.py").status_code == 404


def removed_shard(folder: Path) -> str:
    shard_of(folder).unlink()
    return "weights/"


def cut_shard(folder: Path) -> str:
    with shard_of(folder).open("r+b") as file:
        file.truncate(5)
    return "has 5 bytes, not"


def linked_shard(folder: Path) -> str:
    shard = shard_of(folder)
    shard.rename(folder / "elsewhere")
    shard.symlink_to(folder / "elsewhere")
    return "is missing"


def no_json(folder: Path) -> str:
    (folder / "doubled.tapml" / "model.json").write_text("{")
    return "model.json"


def newer(folder: Path) -> str:
    (folder / "doubled.tapml" / "model.json").write_text('{"format": "tapml.model/9"}')
    return "tapml.model/9"


def linked_document(folder: Path) -> str:
    document = folder / "doubled.tapml" / "model.json"
    document.rename(folder / "elsewhere.json")
    document.symlink_to(folder / "elsewhere.json")
    return "is a symbolic link"


def linked_model(folder: Path) -> str:
    model = folder / "doubled.tapml"
    model.rename(folder / ".elsewhere")
    model.symlink_to(folder / ".elsewhere")
    return "is a symbolic link"


@pytest.mark.parametrize(
    "damage", [removed_shard, cut_shard, linked_shard, no_json, newer, linked_document, linked_model]
)
def test_a_damaged_model_is_named_and_hides_no_other(folder: Path, damage: Callable[[Path], str]) -> None:
    client = client_of(folder)
    assert "problem" not in client.get("/api/models").json["models"][0]
    sentence = damage(folder)
    damaged, good = client.get("/api/models").json["models"]
    assert damaged.keys() == {"id", "problem"}
    assert damaged["id"] == "doubled.tapml"
    assert sentence in damaged["problem"]
    assert good["id"] == "one.tapml"
    assert "problem" not in good


def test_what_no_page_loads_is_missed_without_a_verdict(folder: Path) -> None:
    client, listed = client_of(folder), ModelFolder(folder)
    assert [found["incomplete"] for found in client.get("/api/models").json["models"]] == [None, None]
    document = json.loads((folder / "doubled.tapml" / "model.json").read_text())
    document["attachments"].append({"name": "operators/double.json", "sha256": "0" * 64, "bytes": 2})
    (folder / "doubled.tapml" / "model.json").write_text(json.dumps(document))
    first, second = client.get("/api/models").json["models"]
    assert "operators/double.json is missing" in first["incomplete"]
    assert second["incomplete"] is None
    assert listed.damaged() == []
    removed_shard(folder)
    assert listed.damaged() == ["doubled.tapml"]


def test_a_cut_single_file_is_named(folder: Path, client: FlaskClient) -> None:
    with (folder / "one.tapml").open("r+b") as file:
        file.truncate(200)
    assert "one.tapml ends within its document" in client.get("/api/models").json["models"][1]["problem"]


@pytest.mark.parametrize(
    "path",
    [
        "/models/none.tapml/model.json",
        "/models/notes.txt",
        "/models/others/secret.json",
        "/models/doubled.tapml",
        "/models/one.tapml/model.json",
        "/models/doubled.tapml/../notes.txt",
        "/models/doubled.tapml/%2e%2e/notes.txt",
        "/models/doubled.tapml/..%2fone.tapml",
        "/models/../doubled.tapml/model.json",
        "/models/doubled.tapml//etc/passwd",
        "/models/doubled.tapml/weights/../model.json",
        "/models/doubled.tapml/weights/model.bin",
        "/models/.elsewhere/model.json",
        "/pages/",
    ],
)
def test_nothing_else_is_served(client: FlaskClient, folder: Path, path: str) -> None:
    (folder / ".elsewhere").mkdir()
    (folder / ".elsewhere" / "model.json").write_text("{}")
    found = client.get(path)
    assert found.status_code == 404
    assert isinstance(found.json["error"], str)


def test_links_are_not_followed(client: FlaskClient, folder: Path) -> None:
    tokenizer = folder / "doubled.tapml" / "tokenizer.json"
    tokenizer.unlink()
    tokenizer.symlink_to("/etc/hostname")
    (folder / "linked.tapml").symlink_to(folder / "one.tapml")
    for path in ("/models/doubled.tapml/tokenizer.json", "/models/linked.tapml"):
        found = client.get(path)
        assert found.status_code == 400
        assert "is a symbolic link" in found.json["error"]


def test_a_folder_of_many_is_cut_off_and_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST_MODELS", 1)
    document = client_of(folder).get("/api/models").json
    assert ([found["id"] for found in document["models"]], document["left_out"]) == (["doubled.tapml"], 1)


def test_a_folder_that_is_none_is_refused(folder: Path) -> None:
    for path, sentence in (
        (folder / "doubled.tapml", "is a compiled model: give the folder that it lies in"),
        (folder / "one.tapml", "is a compiled model: give the folder that it lies in"),
        (folder / "notes.txt", "is no folder"),
        (folder / "none", "is no folder"),
    ):
        with pytest.raises(InputError, match=sentence):
            ModelFolder(path)
    with pytest.raises(InputError, match="is no folder"):
        pages_folder(folder / "notes.txt")


def test_pages_stand_beside_models(folder: Path) -> None:
    pages = folder / "pages"
    (pages / "search").mkdir(parents=True)
    (pages / "search" / "index.html").write_text("<!doctype html>")
    (pages / "search" / "page.js").write_text("")
    (pages / "search" / "link.txt").symlink_to("/etc/hostname")
    client = client_of(folder, pages=pages_folder(pages))
    assert client.get("/api/models").json["pages"] is False
    (pages / "index.html").write_text("<!doctype html>")
    assert client.get("/api/models").json["pages"] is True
    assert client.get("/pages/search").headers["Location"].endswith("/pages/search/")
    page = client.get("/pages/search/")
    assert page.content_type == "text/html; charset=utf-8"
    assert "script-src 'self';" in page.headers["Content-Security-Policy"]
    assert client.get("/pages/search/page.js").content_type.startswith("text/javascript")
    assert client.get("/pages/none/").status_code == 404
    assert client.get("/pages/../doubled.tapml/model.json").status_code == 400
    assert client.get("/pages/search/link.txt").status_code == 400


def test_pages_of_other_origins_load_models_where_that_is_allowed(folder: Path) -> None:
    closed, opened = client_of(folder), client_of(folder, origins=[OTHER])
    for path in ("/api/models", "/models/doubled.tapml/model.json", "/runtime/tapml-runtime.js"):
        asked = {"Origin": OTHER, "Sec-Fetch-Site": "cross-site"}
        assert closed.get(path, headers=asked).status_code == 403
        found = opened.get(path, headers=asked)
        assert found.status_code == 200
        assert found.headers["Access-Control-Allow-Origin"] == OTHER
        assert found.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in found.headers
        assert opened.get(path, headers={**asked, "Origin": "https://else.example"}).status_code == 403
        assert "Access-Control-Allow-Origin" not in opened.get(path).headers
        preflight = opened.options(path, headers={**asked, "Access-Control-Request-Headers": "range"})
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Headers"]) == (204, "Range")
    for path in ("/api/suites", "/", "/models/../api/suites", "/api/models/x"):
        assert opened.get(path, headers={"Origin": OTHER}).status_code == 403
    assert opened.post("/api/jobs", headers={"Origin": OTHER, "X-Tapml": "1"}, json={}).status_code == 403


@pytest.mark.parametrize("origin", ["*", "null", "example.org", "https://example.org/page"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(InputError, match="is no origin"):
        Security("127.0.0.1", [origin])


def test_other_origins_have_no_token() -> None:
    with pytest.raises(InputError, match="do not have the token"):
        Security("0.0.0.0", [OTHER])
