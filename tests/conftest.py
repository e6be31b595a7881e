"""What all tests share: a small model carved once, HTTP clients that leave nothing open."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from collected import pytest_runtest_setup
from everywhere import every_carve
from helpers import small_model
from parts import only_part, pytest_configure
from postgres_cluster import postgres
from redis_server import redis
from tapml.carving.carve import carve
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite
from temporary import temporary_files_of_programs
from workers import in_order

# Hooks, and fixtures for all.
__all__ = [
    "every_carve",
    "postgres",
    "pytest_configure",
    "pytest_runtest_setup",
    "redis",
    "temporary_files_of_programs",
]


class _BufferedClient(FlaskClient):
    """Reads each answer to its end, as a connection does, so that what the server sends from is closed."""

    def open(self, *arguments: Any, **options: Any) -> TestResponse:
        return super().open(*arguments, **{"buffered": True, **options})


Flask.test_client_class = _BufferedClient


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    in_order(
        items,
        "test_hostile_suites.py",
        "test_webdriver_launch.py",
        "test_hostile_limits.py",
        "test_hostile_pages.py",
        "test_hostile_programs.py",
        "test_hostile_fuzz_sample.py",
        "test_disk_full.py",
        "test_states.py",
        "test_carved_sizes.py",
        "test_importing_minilm.py",
        "test_gallery.py",
        "test_hostile_imports.py",
    )
    only_part(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed travels from its worker as UTF-8, which has no place for half of a surrogate pair."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def no_usual_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may serve suites of their own where `tapml serve` listens."""
    monkeypatch.setattr("tapml.cli.runs.DEFAULT_SERVER", "http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def no_model_is_lowered_without(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Where moves in place fail, a model is lowered without, and is right: a test would not see that."""
    yield
    said = [*caplog.get_records("setup"), *caplog.get_records("call")]
    assert [one.getMessage() for one in said if one.name == "tapml.lowering.lower"] == []


@pytest.fixture(scope="session")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite nobody may change: copy it with `suite` where a test edits."""
    path = tmp_path_factory.mktemp("carved") / "small.suite"
    carve(small_model(), path, name="small")
    return path


@pytest.fixture
def suite(carved: Path, tmp_path: Path) -> Suite:
    """A copy of the small suite, free to be damaged."""
    path = tmp_path / "small.suite"
    shutil.copytree(carved, path)
    return Suite(path)


@pytest.fixture
def state(suite: Suite) -> Iterator[State]:
    """Of a server of this machine that has the small suite, and no socket."""
    made = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    made.suites.add(suite.path)
    yield made
    made.close()


@pytest.fixture
def client(state: State) -> FlaskClient:
    return create_app(state).test_client()


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
