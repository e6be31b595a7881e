"""Imports that are bombs, lies or garbage: one sentence each, in bounded memory, and nothing left behind."""

from __future__ import annotations

import io
import re
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hostile_imports import HostileImport, hostile_imports
from measured import measured

from repro_helpers import keep_result
from tapml.errors import InputError
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing import Repro, load_repro, of_suite
from tapml.sharing.imports import new_suite
from tapml.suite import Suite

MOST_MEMORY = 512 << 20


@pytest.fixture(scope="module")
def repro(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> Repro:
    path = tmp_path_factory.mktemp("hostile") / "small.suite"
    shutil.copytree(carved, path)
    suite = Suite(path)
    test = next(test.id for test in suite.tests if "softmax" in test.kernel)
    keep_result(suite, test)
    return of_suite(suite, test)


@pytest.fixture(scope="module")
def corpus(repro: Repro) -> dict[str, HostileImport]:
    return hostile_imports(repro)


def write(case: HostileImport, folder: Path) -> Path:
    path = folder / f"theirs{case.suffix}"
    with path.open("wb") as file:
        for piece in case.data():
            file.write(piece)
    return path


def names() -> list[str]:
    """Without a test at hand: names do not depend on it."""
    return list(hostile_imports(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", names())
def test_a_hostile_import_is_one_sentence_or_harmless(
    corpus: dict[str, HostileImport], name: str, tmp_path: Path
) -> None:
    case = corpus[name]
    path = write(case, tmp_path)
    if case.said is None:
        new_suite(load_repro(path), tmp_path / "new.suite")
    else:
        with pytest.raises(InputError, match=case.said) as caught:
            load_repro(path)
        message = str(caught.value)
        assert message.startswith(str(path))
        assert len(message) < 1500
        assert "\n" not in message
    left = {found.name for found in tmp_path.iterdir()}
    assert left <= {path.name, "new.suite"}


BOMBS = [
    "html: an unreferenced tensor of 4 GiB",
    "html: a tensor of 4 GiB under a true digest",
    "html: a tensor of 600 MiB of zeros that is another",
    "safetensors: 250,000 tensors",
    "many objects (.html)",
    "many lists (.safetensors)",
]


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_memory(corpus: dict[str, HostileImport], name: str, tmp_path: Path) -> None:
    path = write(corpus[name], tmp_path)
    ended = measured("import", str(path), "-o", str(tmp_path / "new.suite"), folder=tmp_path)
    assert "Traceback" not in ended.said
    assert ended.code == (0 if corpus[name].said is None else 2), ended.said
    assert re.search(corpus[name].said or "is the suite", ended.said.replace("\n", " "))
    assert ended.most_memory < MOST_MEMORY


class Flood(io.RawIOBase):
    """A body that begins as an exported page does and goes on for `size` bytes; nobody holds it."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._begin = b"<!doctype html>"

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target)
        count = min(len(view), self._left, 1 << 20)
        self._left -= count
        view[:count] = self._begin[:count].ljust(count, b" ")
        self._begin = b""
        return count


def test_a_body_is_never_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_DATA", str(tmp_path))
    client = create_app(State(Security("127.0.0.1"), url="http://127.0.0.1:1")).test_client()
    client.environ_base["HTTP_HOST"] = "127.0.0.1"

    def post(size: int) -> Any:
        environ = {"wsgi.input": Flood(size), "CONTENT_LENGTH": str(size)}
        return client.post("/api/imports?name=flood.html", headers={"X-Tapml": "1"}, environ_overrides=environ)

    post(1000)  # what is loaded late is loaded now
    tracemalloc.start()
    answer = post(200_000_000)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert answer.status_code == 400
    assert answer.json["error"] == "flood.html is no exported test: no description of one is in it"
    assert post((1 << 30) + 1).status_code == 413
    assert list(tmp_path.iterdir()) == []
