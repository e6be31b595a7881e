"""The history over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from history_documents import device, document, result

from tapml.cli import main
from tapml.errors import InputError
from tapml.history import History, open_history
from tapml.server import Server
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.suite import Suite


def _fill(history: History, suite: Suite) -> str:
    """Two runs, the second failing one test with another kernel; gives that test's id."""
    test = suite.tests[0]
    good = [result(found.id, kernel=found.kernel) for found in suite.tests]
    bad = [result(test.id, "fail", kernel=test.kernel, message="[red]3 of 96[/red]\nelements differ"), *good[1:]]
    history.record(document(suite, 0, good), source="validate")
    history.record(document(suite, 1, bad, digest="bbbb", devices=[device("Chromium 151")]), source="validate")
    return test.id


def test_the_server_shows_the_history_of_the_database_it_was_given(suite: Suite, url: str, history: History) -> None:
    test = _fill(history, suite)
    state = State(Security("127.0.0.1"), database_url=url)
    state.suites.add(suite.path)
    client = create_app(state).test_client()
    found = client.get("/api/suites/small/history").json
    assert found == json.loads(json.dumps(history.trends()))
    single = client.get(f"/api/suites/small/history/{test}").json
    assert single == {"test": test, "kernel": suite.tests[0].kernel, "devices": history.timeline(test)}
    assert client.get("/api/suites/none/history").status_code == 404
    assert client.get("/api/suites/small/history/none").status_code == 400
    assert client.get("/api/suites/small/history", headers={"Host": "evil.example"}).status_code == 403
    state.close()


def test_the_server_shows_each_suite_its_own_without_one(suite: Suite) -> None:
    state = State(Security("127.0.0.1"))
    state.suites.add(suite.path)
    client = create_app(state).test_client()
    assert client.get("/api/suites/small/history").json == {"runs": 0, "trends": []}
    _fill(open_history(suite), suite)
    assert client.get("/api/suites/small/history").json["runs"] == 2
    history = suite.path / "results" / "history.sqlite3"
    history.write_bytes(b"damaged " * 200)
    answer = client.get("/api/suites/small/history")
    assert answer.status_code == 400
    assert "it is damaged" in answer.json["error"]
    state.close()


def test_a_server_does_not_start_without_its_database(suite: Suite) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        Server([suite.path], database_url="postgresql://me@127.0.0.1:1/db")


def test_the_command_tells_what_fails_and_since_when(
    suite: Suite, url: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    test = _fill(history, suite)
    assert main(["history", str(suite.path), "--database-url", url, "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    first = shown.splitlines()[1]
    assert first.startswith(test)
    assert "✗ fail" in first
    assert "Chromium 151, kernel changed and another version" in first
    assert f"... and {len(suite.tests) - 1} more tests" in shown
    assert f"of {len(suite.tests)} trends 1 failing (1 passed before), 0 flaky" in shown

    assert main(["history", str(suite.path), "--database-url", url, "--test", test]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Chromium 151") < shown.index("Chromium 150"), "newest first"
    assert "kernel changed; [red]3 of 96[/red]" in shown
    assert "failing since" in shown


def test_the_command_writes_json(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    test = _fill(open_history(suite), suite)
    assert main(["history", str(suite.path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["suite"], found["runs"]) == ("tapml.history/1", suite.id, 2)
    assert len(found["trends"]) == len(suite.tests)
    kernel = suite.tests[0].kernel
    assert main(["history", str(suite.path), "--test", test, "--kernel", kernel, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [point["verdict"] for point in found["devices"][0]["points"]] == ["pass", "fail"]


def test_an_empty_history_says_how_to_fill_it(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--test", suite.tests[0].id]):
        assert main(["history", str(suite.path), *more]) == 0
        shown = capsys.readouterr().out
        assert "no recorded runs" in shown
        assert "tapml validate" in shown


def test_the_environment_names_a_database_too(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'all.sqlite3'}"
    _fill(open_history(suite, url), suite)
    monkeypatch.setenv("TAPML_DATABASE_URL", url)
    assert main(["history", str(suite.path), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--test", "nothing"], "has no test 'nothing': `tapml show"),
        (["--test", "n000"], "has no test 'n000', did you mean n000.s0?"),
        (["--kernel", "nothing"], "has no kernel 'nothing'"),
        (["--limit", "-1"], "--limit"),
        (["--database-url", "elsewhere"], "--database-url is no address"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    suite: Suite, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(suite.path), *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "test"])
def test_an_unreachable_database_is_told_before_any_device_starts(
    suite: Suite, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a server was started")

    monkeypatch.setattr("tapml.cli.runs.Server", refuse)
    url = "postgresql://me:hunter2secret@127.0.0.1:1/db"
    assert main([command, str(suite.path), "--device", "node-dawn", "--database-url", url]) == 2
    said = capsys.readouterr().err
    assert "the history in postgresql://127.0.0.1:1/db cannot be written" in said
    assert "hunter2secret" not in said


def test_a_running_server_keeps_its_own_history(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--device", "http://127.0.0.1:1", "--database-url", "sqlite:///x.sqlite3"]
    assert main(["validate", str(suite.path), *arguments]) == 2
    assert "give --database-url to its `tapml serve`" in capsys.readouterr().err
