"""Calls of compiled models over HTTP: what strangers send, and what a stranger's server answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from compiled_models import doubled
from tapml.compiled.files import CompiledFiles, write_folder
from tapml.errors import InputError
from tapml.jobs.run import RunOptions
from tapml.npy import opening
from tapml.server.client import RemoteServer
from tapml.server.local import create_app
from tapml.server.models import ModelFolder
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing.arrays_file import arrays_file, calls_of, named_by_call, read_arrays
from tapml.validation.events import Cancel

X = np.arange(4, dtype=np.float32).reshape(2, 2)


@pytest.fixture
def files(tmp_path: Path) -> CompiledFiles:
    model, parts = doubled()
    (tmp_path / "models" / "doubled.tapml").mkdir(parents=True)
    write_folder(tmp_path / "models" / "doubled.tapml", model, parts.__getitem__)
    return CompiledFiles(tmp_path / "models" / "doubled.tapml")


@pytest.fixture
def client(files: CompiledFiles) -> Iterator[FlaskClient]:
    state = State(Security("127.0.0.1", ()), url="http://127.0.0.1:1", models=ModelFolder(files.path.parent))
    yield create_app(state).test_client()
    state.close()


def body(files: CompiledFiles, arrays: dict[str, np.ndarray] | None = None, **changes: Any) -> bytes:
    name = files.model.functions["main"].inputs[0].name
    asked = {"model": "doubled.tapml", "content": files.content, "device": "node-dawn", "calls": 1, **changes}
    return b"".join(arrays_file(json.dumps(asked), {f"0/{name}": X} if arrays is None else arrays))


def post(client: FlaskClient, data: bytes) -> Any:
    headers = {"X-Tapml": "1", "Host": "127.0.0.1:1", "Content-Type": "application/octet-stream"}
    return client.post("/api/runs", data=data, headers=headers)


@pytest.mark.parametrize(
    ("made", "status", "sentence"),
    [
        (lambda files: b"", 400, "the run: its header is not valid JSON"),
        (lambda files: body(files)[:-3], 400, "cut short"),
        (lambda files: body(files, model="other.tapml"), 404, "there is no model 'other.tapml'"),
        (lambda files: body(files, model="../models/doubled.tapml"), 404, "there is no model"),
        (lambda files: body(files, content="0" * 64), 400, "is another one now"),
        (lambda files: body(files, function="other"), 400, "there is no function other: it has main"),
        (lambda files: body(files, calls=0), 400, "calls"),
        (lambda files: body(files, calls=1001), 400, "calls"),
        (lambda files: body(files, surprise=1), 400, "surprise"),
        (lambda files: body(files, capture={"nodes": ["n777"]}), 400, "has no node or kernel 'n777'"),
        (lambda files: body(files, arrays={}), 400, "was given no input"),
        (lambda files: body(files, arrays={"x": X}), 400, "'x' is of none of 1 calls"),
        (lambda files: body(files, arrays={"1/x": X}), 400, "'1/x' is of none of 1 calls"),
        (lambda files: body(files, arrays={"0/zz": X}), 400, "has no input 'zz'"),
        (lambda files: body(files).replace(b'"F32"', b'"F99"'), 400, "no tensor"),
        (lambda files: body(files).replace(b'"shape": [2, 2]', b'"shape": [2, 3]'), 400, "which its shape has not"),
        (lambda files: body(files).replace(b'"shape": [2, 2]', b'"shape": 2222  '), 400, "it does not say what"),
    ],
)
def test_what_is_no_run_is_one_sentence(
    made: Callable[[CompiledFiles], bytes], status: int, sentence: str, files: CompiledFiles, client: FlaskClient
) -> None:
    answer = post(client, made(files))
    assert (answer.status_code, sentence in answer.json["error"]) == (status, True), answer.json


def test_a_job_that_gave_nothing_has_no_outputs(client: FlaskClient) -> None:
    for what in ("outputs", "capture"):
        answer = client.get(f"/api/jobs/none/{what}", headers={"Host": "127.0.0.1:1"})
        assert (answer.status_code, "has no outputs" in answer.json["error"]) == (404, True)


def test_arrays_of_all_dtypes_come_back(tmp_path: Path) -> None:
    calls = [
        {dtype: np.ones((2, 3), dtype) for dtype in ("float32", "float16", "int32", "uint32", "int8", "uint8", "bool")},
        {"scalar": np.array(2.5, np.float32), "empty": np.zeros((0, 4), np.int32)},
    ]
    path = tmp_path / "arrays"
    path.write_bytes(b"".join(arrays_file("the text", named_by_call(calls))))
    text, arrays = read_arrays("it", opening(path))
    assert text == "the text"
    for given, found in zip(calls, calls_of(arrays, 2), strict=True):
        assert {name: (array.dtype, array.shape, array.tobytes()) for name, array in given.items()} == {
            name: (array.dtype, array.shape, array.tobytes()) for name, array in found.items()
        }


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (b"nonsense", "is no readable safetensors file|not valid JSON"),
        (b"".join(arrays_file("", {})), "has not the outputs that the model gives"),
        (b"".join(arrays_file("", {"0/y": np.zeros(5, np.float32)})), "has not the outputs that the model gives"),
    ],
)
def test_what_a_server_answers_is_checked(
    outputs: bytes, sentence: str, files: CompiledFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"variants": {}, "unvalidated": [], "bytes": 1, "load_seconds": 1.0, "call_seconds": [1.0]}
    state = {"state": "done", "events": [], "next": 0, "document": facts, "error": None}
    device = {"id": "d", "name": "D 1", "user_agent": "", "adapter": {}, "unavailable": None}
    answers: dict[str, Any] = {
        "/api/models": {"models": [{"id": "broken", "problem": "x"}, {"id": "m", "content": files.content}]},
        "/api/devices": {"connected": [device]},
        "/api/runs": {"job": "j"},
        "/api/jobs/j?after=0": state,
    }

    def fetch(self: RemoteServer, method: str, path: str, *arguments: Any, **options: Any) -> tuple[bytes, bool]:
        return (outputs if path.endswith("/outputs") else json.dumps(answers[path]).encode()), True

    monkeypatch.setattr(RemoteServer, "_fetch", fetch)
    name = files.model.functions["main"].inputs[0].name
    with pytest.raises(InputError, match=sentence):
        RemoteServer("http://127.0.0.1:1").run_model(files, [{name: X}], RunOptions(), lambda event: None, Cancel())
