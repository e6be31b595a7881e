"""Recording runs, and asking what became of a suite's tests."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.errors import TapmlError
from tapml.history import schema, trends
from tapml.history.database import Database
from tapml.history.line import STATES
from tapml.history.suite_file import SuiteFile
from tapml.suite import Suite

FILE = Path("results") / "history.sqlite3"
"""Where a suite's history lies in it, unless another database is named."""

_MOST_TEXT = 400
_MOST_MESSAGE = 2000


class History:
    """The runs of one suite in one database. Opening it touches nothing."""

    def __init__(self, suite: Suite, database: Database) -> None:
        self._suite = suite
        self.database = database

    def record(self, document: Mapping[str, Any], *, source: str) -> int:
        """Keep a tapml.validation/1 document; gives the number of results that are new.

        A device of a run that is there already is left alone, so that recording twice does nothing. A result may carry
        `attempts` (verdicts of its repeated runs) and `flaky`. Raises InputError where the database cannot be written.
        """
        with self.database.writing() as connection:
            return _record(connection, document, source)

    def trends(self, *, kernel: str | None = None) -> dict[str, Any]:
        """How many runs there were, and a trend for each test and device, what needs a look first."""
        with self.database.reading() as connection:
            if connection is None:
                return {"runs": 0, "trends": []}
            found = trends.trends(connection, self._suite.id, kernel=kernel and _text(kernel))
            return {"runs": trends.count_runs(connection, self._suite.id), "trends": found}

    def timeline(self, test: str) -> list[dict[str, Any]]:
        """For each device its trend and its points, newest last."""
        with self.database.reading() as connection:
            return [] if connection is None else trends.timeline(connection, self._suite.id, _text(test))


def open_history(suite: Suite, url: str | None = None) -> History:
    """`url`: a database for all suites; without one the suite has its own. Raises InputError for a wrong address."""
    return History(suite, Database(url) if url else Database(suite.path / FILE, SuiteFile(suite.folder, str(FILE))))


def check_database(url: str | None) -> None:
    """Raises InputError where the database that was named cannot be used: before a run, rather than after it."""
    if url:
        with Database(url).writing():
            pass


@dataclass(frozen=True)
class Recorder:
    """Where runs are recorded (`open_history`), and what they are recorded as: validate, test, serve."""

    url: str | None
    source: str

    def keep(self, suite: Suite, document: Mapping[str, Any]) -> str | None:
        """Record a run whose verdicts must not be lost to a broken database: gives what went wrong as a sentence."""
        try:
            open_history(suite, self.url).record(document, source=self.source)
        except TapmlError as error:
            return f"this run is not in the history: {error}"
        return None


def _record(connection: Connection, document: Mapping[str, Any], source: str) -> int:
    at, created = _time(document["created"])
    suite = _text(document["suite"])
    run = _run(connection, document, {"at": at, "created": created, "suite": suite, "source": source})
    known = set(connection.scalars(sql.select(schema.devices.c.device).where(schema.devices.c.run == run)))
    digests = document.get("kernel_digests", {})
    added = 0
    for facts in document["devices"]:
        tests = {_text(test["id"]): test for test in document["tests"] if test["device"] == facts["id"]}
        if _text(facts["id"]) in known or not tests:
            continue
        row = _device(facts)
        inserted = connection.execute(sql.insert(schema.devices).values(run=run, **row)).inserted_primary_key
        assert inserted is not None
        numbers = _series(connection, suite, row["family"], row["gpu"], tests)
        connection.execute(
            sql.insert(schema.results),
            [
                {"series": numbers[name], "device": inserted[0], "at": at, **_result(test, digests)}
                for name, test in tests.items()
            ],
        )
        added += len(tests)
    return added


def _run(connection: Connection, document: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    """The run's number; it is new, or another of its devices was recorded before (after a crash, say)."""
    # Documents of earlier versions have no id of their own.
    of_old = f"{document['suite']} {document['created']} {[device['id'] for device in document['devices']]}"
    name = _text(document.get("run") or uuid.uuid5(uuid.NAMESPACE_URL, f"tapml:{of_old}"))
    found = connection.scalar(sql.select(schema.runs.c.id).where(schema.runs.c.uuid == name))
    if found is not None:
        return int(found)
    row = {**facts, "uuid": name, "suite_name": _text(document["suite_name"]), "version": version("tapml")}
    inserted = connection.execute(sql.insert(schema.runs).values(**row)).inserted_primary_key
    assert inserted is not None
    return int(inserted[0])


def _series(
    connection: Connection, suite: str, family: str, gpu: str, tests: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """The number of each test's series on such a device; new ones are made."""
    table = schema.series
    mine = (table.c.suite == suite) & (table.c.family == family) & (table.c.gpu == gpu)
    query = sql.select(table.c.test, table.c.id).where(mine)
    known = {test for test, _ in connection.execute(query)}
    new = [
        {"suite": suite, "family": family, "gpu": gpu, "test": name, "kernel": _text(test["kernel"])}
        for name, test in tests.items()
        if name not in known
    ]
    if new:
        connection.execute(sql.insert(table), new)
    return {row.test: int(row.id) for row in connection.execute(query)}


def _device(facts: Mapping[str, Any]) -> dict[str, str]:
    name, adapter = _text(facts["name"]), facts["adapter"]
    words = [adapter.get("vendor"), adapter.get("architecture")]
    gpu = " ".join(str(word) for word in words if word)
    return {
        "device": _text(facts["id"]),
        "name": name,
        "family": family(name),
        "gpu": _text(gpu),
        "user_agent": _text(facts["user_agent"]),
        "adapter": _text(adapter.get("description") or gpu or adapter.get("device") or ""),
    }


def family(name: str) -> str:
    """A device's name without its version: "Chromium 156" is a Chromium. One with a profile is of another family."""
    return re.sub(r"[\s/]+v?\d[\w.+-]*(?=$| \(profile )", "", name) or name


def _result(test: Mapping[str, Any], digests: Mapping[str, Any]) -> dict[str, Any]:
    seconds = test.get("seconds") or {}
    attempts: Sequence[Any] = test.get("attempts") or []
    return {
        "kernel_digest": _text(digests.get(test["kernel"]) or ""),
        "verdict": test["verdict"] if test["verdict"] in STATES else "error",
        "flaky": int(bool(test.get("flaky")) or len(set(map(str, attempts))) > 1),
        "attempts": _text(" ".join(map(str, attempts))),
        **{key: _number(test.get(key)) for key in ("max_abs_error", "max_rel_error", "max_ulp")},
        "mismatched": int(_number(test.get("mismatched")) or 0),
        "total": int(_number(test.get("total")) or 0),
        "seconds": _number(seconds.get("run")),
        "gpu_seconds": _number(seconds.get("gpu")),
        "variant": _text(test["variant"]) if test.get("variant") else None,
        "message": _text(test.get("message") or "", _MOST_MESSAGE),
    }


def _number(value: Any) -> float | None:
    """Infinity and NaN, which documents spell as strings, are no point of a line."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: Any, most: int = _MOST_TEXT) -> str:
    """What every database can hold: PostgreSQL knows no NUL, and neither knows halves of a surrogate pair."""
    return str(value)[:most].encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _time(text: str) -> tuple[int, str]:
    at = datetime.datetime.fromisoformat(text)
    utc = (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    return int(utc.timestamp() * 1000), utc.isoformat(timespec="seconds")
