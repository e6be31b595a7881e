"""Recording runs, and asking what became of a suite's tests."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.errors import InputError, TapmlError
from tapml.history import compared, schema, trends
from tapml.history.database import Database
from tapml.history.suite_file import SuiteFile
from tapml.protocol.methods import Verdict
from tapml.results.base import DeviceDocument
from tapml.results.comparison import Outcomes, RunSide
from tapml.results.headline import share_of
from tapml.results.history import DeviceHistory, SuiteHistory
from tapml.results.validation import TestResult, ValidationRun
from tapml.suite import Suite

FILE = Path("results") / "history.sqlite3"
"""Where a suite's history lies in it, unless another database is named."""

_MOST_TEXT = 400
_MOST_MESSAGE = 2000

Attempts: TypeAlias = Mapping[tuple[str, str], Sequence[Verdict]]
"""Verdicts in their order, by a device's id and a test's."""


class History:
    """The runs of one suite in one database. Opening it touches nothing."""

    def __init__(self, suite: Suite, database: Database) -> None:
        self._suite = suite
        self.database = database

    def record(self, document: ValidationRun, *, source: str, attempts: Attempts = MappingProxyType({})) -> int:
        """Keep a run; gives the number of results that are new. `attempts`: of tests that ran several times.

        A device of a run that is there already is left alone, so that recording twice does nothing. Raises InputError
        where the database cannot be written.
        """
        with self.database.writing() as connection:
            return _record(connection, document, source, attempts)

    def trends(self, *, kernel: str | None = None) -> SuiteHistory:
        """How many runs there were, and a trend for each test and device, what needs a look first."""
        with self.database.reading() as connection:
            if connection is None:
                return {"runs": 0, "trends": []}
            found = trends.trends(connection, self._suite.id, kernel=kernel and _text(kernel))
            return {"runs": trends.count_runs(connection, self._suite.id), "trends": found}

    def timeline(self, test: str) -> list[DeviceHistory]:
        """For each device its trend and its points, newest last."""
        with self.database.reading() as connection:
            return [] if connection is None else trends.timeline(connection, self._suite.id, _text(test))

    def sides(self) -> list[RunSide]:
        """Runs that can be compared, one device each, newest first. Raises InputError where they cannot be read."""
        with self.database.reading() as connection:
            return [] if connection is None else [side for _, side in compared.run_sides(connection, self._suite.id)]

    def outcomes(self, wanted: RunSide) -> tuple[RunSide, Outcomes]:
        """What came of the tests of one of `sides`. Raises InputError for one that is none."""
        with self.database.reading() as connection:
            found = [] if connection is None else compared.run_sides(connection, self._suite.id)
            for number, side in found:
                if connection is not None and (side["run"], side["device"]) == (wanted["run"], wanted["device"]):
                    return side, compared.outcomes(connection, self._suite.id, number)
        raise InputError(f"{self._suite.path} has no run {wanted['run']} on {wanted['device']} in its history")


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

    def keep(self, suite: Suite, document: ValidationRun, attempts: Attempts = MappingProxyType({})) -> str | None:
        """Record a run whose verdicts must not be lost to a broken database: gives what went wrong as a sentence."""
        try:
            open_history(suite, self.url).record(document, source=self.source, attempts=attempts)
        except TapmlError as error:
            return f"this run is not in the history: {error}"
        return None


def _record(connection: Connection, document: ValidationRun, source: str, attempts: Attempts) -> int:
    at, created = _time(document["created"])
    suite = _text(document["suite"])
    run = _run(connection, document, {"at": at, "created": created, "suite": suite, "source": source})
    known = set(connection.scalars(sql.select(schema.devices.c.device).where(schema.devices.c.run == run)))
    digests = document["kernel_digests"]
    added = 0
    for facts in document["devices"]:
        tests = {_text(test["id"]): test for test in document["tests"] if test["device"] == facts["id"]}
        if _text(facts["id"]) in known or not tests:
            continue
        row = _device(facts)
        inserted = connection.execute(sql.insert(schema.devices).values(run=run, **row)).inserted_primary_key
        assert inserted is not None
        numbers = _series(connection, suite, row["family"], row["gpu"], tests)
        keys = {name: {"series": numbers[name], "device": inserted[0], "at": at} for name in tests}
        found = [{**keys[name], **_result(test, digests, attempts)} for name, test in tests.items()]
        connection.execute(sql.insert(schema.results), found)
        if shares := [{**keys[name], "bound_share": share} for name, share in _shares(tests)]:
            connection.execute(sql.insert(schema.bound_shares), shares)
        added += len(tests)
    return added


def _run(connection: Connection, document: ValidationRun, facts: Mapping[str, Any]) -> int:
    """The run's number; it is new, or another of its devices was recorded before (after a crash, say)."""
    # Documents of earlier versions have no id of their own.
    of_old = f"{document['suite']} {document['created']} {[device['id'] for device in document['devices']]}"
    name = _text(document["run"] or uuid.uuid5(uuid.NAMESPACE_URL, f"tapml:{of_old}"))
    found = connection.scalar(sql.select(schema.runs.c.id).where(schema.runs.c.uuid == name))
    if found is not None:
        return int(found)
    row = {**facts, "uuid": name, "suite_name": _text(document["suite_name"]), "version": version("tapml")}
    inserted = connection.execute(sql.insert(schema.runs).values(**row)).inserted_primary_key
    assert inserted is not None
    return int(inserted[0])


def _series(
    connection: Connection, suite: str, family: str, gpu: str, tests: Mapping[str, TestResult]
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


def _device(facts: DeviceDocument) -> dict[str, str]:
    name, adapter = _text(facts["name"]), facts["adapter"]
    gpu = " ".join(filter(None, (adapter["vendor"], adapter["architecture"])))
    return {
        "device": _text(facts["id"]),
        "name": name,
        "family": family(name),
        "gpu": _text(gpu),
        "user_agent": _text(facts["user_agent"]),
        "adapter": _text(adapter["description"] or gpu or adapter["device"]),
    }


def family(name: str) -> str:
    """A device's name, or its label, without version and number: "Chromium 156 (2)" is a Chromium. One with a profile
    is of another family."""
    name = re.sub(r" \([0-9]{1,6}\)$", "", name)
    return re.sub(r"[\s/]+v?\d[\w.+-]*(?=$| \(profile )", "", name) or name


def _result(test: TestResult, digests: Mapping[str, str], attempts: Attempts) -> dict[str, Any]:
    verdicts = attempts.get((test["device"], test["id"]), [])
    return {
        "kernel_digest": _text(digests.get(test["kernel"], "")),
        "verdict": test["verdict"],
        "flaky": int(len(set(verdicts)) > 1),
        "attempts": " ".join(verdicts)[:_MOST_TEXT],
        **{key: test[key] for key in ("max_abs_error", "max_rel_error", "max_ulp", "mismatched", "total")},
        "seconds": test["seconds"].get("run"),
        "gpu_seconds": test["seconds"].get("gpu"),
        "variant": _text(test["variant"]) if test["variant"] else None,
        "message": _text(test["message"], _MOST_MESSAGE),
    }


def _shares(tests: Mapping[str, TestResult]) -> Iterator[tuple[str, float]]:
    """Of those that have one."""
    for name, test in tests.items():
        share = share_of(test["worst"], test["tolerances"], test["max_abs_error"])
        if share is not None:
            yield name, share


def _text(value: Any, most: int = _MOST_TEXT) -> str:
    """What every database can hold: PostgreSQL knows no NUL, and neither knows halves of a surrogate pair."""
    return str(value)[:most].encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _time(text: str) -> tuple[int, str]:
    at = datetime.datetime.fromisoformat(text)
    utc = (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    return int(utc.timestamp() * 1000), utc.isoformat(timespec="seconds")
