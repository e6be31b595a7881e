"""Suites of strangers, through the commands, the server and a validation: one sentence or harmless, and nothing beside
them is touched.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from hostile_suites import SHARE_ID, SHARE_NAME, hostile_suites
from rich.console import Console

from helpers import FakeRunner, all_pass
from repro_helpers import keep_result
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError
from tapml.history import Recorder, open_history
from tapml.reports.terminal import show_suite
from tapml.results.checks import RESULTS
from tapml.server.local import create_app
from tapml.server.registry import SuiteRegistry, detail
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing import FORMS, Repro, export, links, of_suite
from tapml.sharing.files import load_repro
from tapml.sharing.imports import add_to_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

CASES = hostile_suites()
TEST = "n000.s0"
SECRET = b"somebody else's"


@pytest.fixture(scope="module")
def good(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "small.suite"
    shutil.copytree(carved, path)
    suite = Suite(path)
    keep_result(suite, TEST)
    OperatorRun(
        JobContext(suite, [FakeRunner(DeviceHub(), all_pass, "Other 1").device], Blobs()),
        history=Recorder(None, "validate"),
    ).run()
    return path


@pytest.fixture(scope="module")
def theirs(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Repro:
    """An exported test to import."""
    path = tmp_path_factory.mktemp("exported") / "theirs.safetensors"
    export(of_suite(Suite(good), "n002.s0"), "safetensors", path)
    return load_repro(path)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[State, Flask]]:
    """Made once, for Flask compiles each of its routes; each test has a registry of suites of its own."""
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    yield state, create_app(state)
    state.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    (folder / "1.999999999.0.jsonl").write_bytes(SECRET)
    yield folder
    try:
        shutil.rmtree(tmp_path / "small.suite")
    except RecursionError:  # one is nested deeper than Python's own way to remove it goes
        subprocess.run(["rm", "-rf", tmp_path / "small.suite"], check=True)


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 20 else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_suite_is_one_sentence_or_harmless(
    name: str, good: Path, theirs: Repro, server: tuple[State, Flask], outside: Path, tmp_path: Path
) -> None:
    case = CASES[name]
    # A server that showed it when it was good.
    state, app = server
    state.suites = SuiteRegistry(state.blobs, Recorder(None, "serve"))
    path = tmp_path / "small.suite"
    shutil.copytree(good, path)
    state.suites.add(path)
    case.spoil(path, outside)
    before = contents(outside)
    if case.said is None:
        suite = Suite(path)
        assert suite.tests
        assert not case.left_out or any(suite.read_results(kind)[1] for kind in RESULTS)
    else:
        with pytest.raises(InputError, match=case.said) as caught:
            Suite(path)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000
    for use in uses(path, theirs, tmp_path):
        said(use)
    visit_all(app)
    said(lambda: state.suites.add(path))
    assert contents(outside) == before


def said(use: Callable[[], object]) -> None:
    """What goes wrong is one sentence."""
    with contextlib.suppress(InputError):
        try:
            use()
        except InputError as error:
            text = str(error)
            raise AssertionError(text[:2000]) if "\n" in text or len(text) > 2000 else error from None


def uses(path: Path, theirs: Repro, folder: Path) -> list[Callable[[], object]]:
    """What commands do with a suite; writing comes last."""

    def validate() -> None:
        suite = Suite(path)
        device = FakeRunner(DeviceHub(), all_pass).device
        run = OperatorRun(JobContext(suite, [device], Blobs()), save=True, history=Recorder(None, "validate"))
        assert run.run()["summary"]["pass"] == len(suite.tests), "no verdict is lost"

    return [
        lambda: show_suite(Console(file=io.StringIO(), width=200), Suite(path)),
        lambda: detail("small", Suite(path)),
        lambda: Suite(path).verify(),
        lambda: [export(of_suite(Suite(path), TEST), form, folder / f"made{FORMS[form]}") for form in FORMS],
        lambda: open_history(Suite(path)).trends(),
        lambda: open_history(Suite(path)).timeline(TEST),
        lambda: links.shares(path),
        lambda: links.revoke(path, SHARE_NAME),
        validate,
        lambda: add_to_suite(theirs, Suite(path)),
        lambda: links.create(path, of_suite(Suite(path), TEST)),
    ]


def visit_all(app: Flask) -> None:
    """Every route of the server that is about suites; none answers 500."""
    parts = {
        "suite_id": "small", "test_id": TEST, "kernel": "softmax", "share_id": SHARE_ID, "name": SHARE_NAME,
        "digests": "0" * 64, "_page": "small", "call": "c", "device_id": "d", "job_id": "j",
    }  # fmt: skip
    client = app.test_client()
    visited = 0
    for rule in app.url_map.iter_rules():
        # Which devices there are is asked of browsers, not of suites.
        if (
            "wasm" in rule.rule
            or rule.rule.startswith(("/static", "/api/devices"))
            or not rule.arguments <= parts.keys()
        ):
            continue
        with app.test_request_context():
            _, url = rule.build({name: parts[name] for name in rule.arguments}) or (None, None)
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"}):
            answer = client.open(url, method=method, headers={"X-Tapml": "1"}, json=None if method == "GET" else {})
            assert answer.status_code < 500, f"{method} {url}: {answer.status_code}"
            assert not re.search(rb"\b(NaN|Infinity)\b", answer.data) or not answer.is_json or answer.json is not None
            assert SECRET not in answer.data
            visited += 1
    assert visited > 15
