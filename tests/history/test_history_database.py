"""Every trouble with a database is one sentence, and none tells the password."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from history_documents import document, result

from tapml.errors import InputError
from tapml.history import History, check_database, open_history
from tapml.history.database import Database
from tapml.suite import Suite

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("history.sqlite3", "is no address"),
        (f"postgresql://me:x@{SECRET}@host/db", "percent-encoded"),
        (f"postgresql://me:{SECRET}@host:port/db", "is no address"),
        (f"mysql://me:{SECRET}@host/db", "is of mysql"),
        (f"postgresql+asyncpg://me:{SECRET}@host/db", "is of postgresql+asyncpg"),
        ("sqlite://", "names no SQLite file"),
        ("sqlite:///:memory:", "names no SQLite file"),
        ("sqlite:///file:x?mode=memory&uri=true", "names no SQLite file"),
    ],
)
def test_a_wrong_address_is_one_sentence(url: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        Database(url)
    text = str(raised.value)
    assert said in text
    assert SECRET not in text
    assert "\n" not in text


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
@pytest.mark.parametrize(
    "form",
    [
        f"me:{SECRET}@127.0.0.1:1/tapml",
        f"me:12/{SECRET}?x=%2f@127.0.0.1:1/tapml",
        f"127.0.0.1:1/tapml?user=me&password={SECRET}",
    ],
)
def test_a_server_that_is_not_there(suite: Suite, scheme: str, form: str) -> None:
    with pytest.raises(InputError) as raised:
        check_database(f"{scheme}://{form}")
    text = str(raised.value)
    assert "postgresql://127.0.0.1:1/tapml" in text
    assert "refused" in text
    assert SECRET not in text
    assert "\n" not in text


def test_a_wrong_password_is_not_repeated(postgres: Any) -> None:
    with pytest.raises(InputError) as raised:
        check_database(f"postgresql://nobody:{SECRET}@/absent?host={postgres.folder}")
    text = str(raised.value)
    assert "nobody" in text or "absent" in text
    assert SECRET not in text
    assert "\n" not in text


def test_without_the_driver_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from tapml.errors import InputError
from tapml.history import check_database
try:
    check_database("postgresql://me:hunter2secret@host/db")
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tapml[postgres]'" in done.stdout
    assert SECRET not in done.stdout


def test_a_newer_history_is_left_alone(history: History, suite: Suite, execute: Callable[[str], None]) -> None:
    history.record(document(suite, 0, [result()]), source="validate")
    execute("UPDATE tapml_history SET version = 99")
    for use in (history.trends, lambda: history.record(document(suite, 1, [result()]), source="validate")):
        with pytest.raises(InputError, match=r"newer tapml \(version 99; this one knows 2\): update tapml"):
            use()
    execute("UPDATE tapml_history SET version = 1")
    assert history.trends()["runs"] == 1


def test_what_an_earlier_version_recorded_is_read_and_added_to(
    history: History, suite: Suite, execute: Callable[[str], None]
) -> None:
    """Version 1 kept no share of the bound."""
    history.record(document(suite, 0, [result()]), source="validate")
    execute("DROP TABLE tapml_bound_shares")
    execute("UPDATE tapml_history SET version = 1")

    def shares() -> list[Any]:
        return [point["bound_share"] for entry in history.timeline("n000.s0") for point in entry["points"]]

    assert shares() == [None]
    (side,) = history.sides()
    assert history.outcomes(side)[1]["n000.s0"][1]["bound_share"] is None
    history.record(document(suite, 1, [result()]), source="validate")
    assert shares() == [None, 2.0]


def test_a_history_without_a_version_says_so(history: History, suite: Suite, execute: Callable[[str], None]) -> None:
    history.record(document(suite, 0, [result()]), source="validate")
    execute("DELETE FROM tapml_history")
    with pytest.raises(InputError, match="does not tell its version"):
        history.trends()


def test_an_empty_database_is_a_new_one(history: History, suite: Suite) -> None:
    if history.database.path is not None:
        history.database.path.touch()
    assert history.trends() == {"runs": 0, "trends": []}
    history.record(document(suite, 0, [result()]), source="validate")
    assert history.trends()["runs"] == 1


def test_tables_of_others_are_not_touched(history: History, suite: Suite, execute: Callable[[str], None]) -> None:
    execute("CREATE TABLE runs (mine INTEGER)")
    execute("INSERT INTO runs VALUES (7)")
    history.record(document(suite, 0, [result()]), source="validate")
    execute("UPDATE runs SET mine = 1 / (mine = 7 AND true)::int" if history.database.path is None else "SELECT 1")
    assert history.trends()["runs"] == 1


def test_a_damaged_file_is_named(suite: Suite) -> None:
    path = suite.path / "results" / "history.sqlite3"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"not a database, whatever its name says " * 50)
    history = open_history(suite)
    for use in (history.trends, lambda: history.record(document(suite, 0, [result()]), source="validate")):
        with pytest.raises(InputError, match=r"it is damaged .* move the file away") as raised:
            use()
        assert str(path) in str(raised.value)


def test_a_file_with_other_columns_is_an_error_not_a_crash(suite: Suite) -> None:
    path = suite.path / "results" / "history.sqlite3"
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE tapml_history (version INTEGER)")
        connection.execute("INSERT INTO tapml_history VALUES (1)")
    with pytest.raises(InputError, match="cannot be read: its 'tapml_history' is not as tapml makes it"):
        open_history(suite).trends()


def test_a_file_that_others_keep_locked_is_waited_for_then_told(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    history = open_history(suite)
    history.record(document(suite, 0, [result()]), source="validate")
    monkeypatch.setattr("tapml.history.database._BUSY_SECONDS", 0.2)
    assert history.database.path is not None
    other = sqlite3.connect(history.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="locked"):
        history.record(document(suite, 1, [result()]), source="validate")
    assert history.trends()["runs"] == 1, "readers do not wait for a writer"
    other.execute("ROLLBACK")
    other.close()
    assert history.record(document(suite, 1, [result()]), source="validate") == 1


@pytest.mark.parametrize("name", ["a%b?c#d.sqlite3", "with space & ünïcode.sqlite3"])
def test_files_with_odd_names(suite: Suite, tmp_path: Path, name: str) -> None:
    database = Database(tmp_path / name)
    history = History(suite, database)
    history.record(document(suite, 0, [result()]), source="validate")
    assert history.trends()["runs"] == 1
    assert (tmp_path / name).is_file()
