"""Keeping releases: whatever is answered was committed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.errors import InputError
from tapml.field.releases import Counts, Plan, Release, advance, rolled_back
from tapml.field.storage import runs, schema, times
from tapml.field.storage.runs import FailedRuns, RunFailure
from tapml.field.storage.samples import suspect, unjudged
from tapml.field.storage.times import StepRates
from tapml.formats import validated
from tapml.history.database import Database
from tapml.strict_json import parse_json
from tapml.text import meant

_REMEDY = "; the database was changed by something else than tapml: restore it"


class Event(TypedDict):
    """What became of a release, and when (milliseconds since 1970)."""

    at: int
    step: int
    status: str
    reason: str


@dataclass(frozen=True)
class Reported:
    """What a device says of its run in a release's step."""

    release: Release
    device: str
    failed: bool
    slow: bool
    failure: RunFailure | None = None
    milliseconds: float | None = None
    """Of a run that did not fail."""


class Store:
    """Every method is one transaction; what writes is alone. All raise InputError where the database is of no use."""

    def __init__(self, url: str | Path) -> None:
        self._database = Database(url, tables=schema.FIELD)
        with self._database.writing() as connection:  # it is made, or told now that it cannot be
            runs.prepare(connection)
            times.prepare(connection)

    def releases(self) -> list[Release]:
        """All, the oldest first."""
        with self._database.reading() as connection:
            return [] if connection is None else _releases(connection)

    def add(self, plan: Plan, now: int) -> Release:
        """Begin a release. Raises InputError where one of this version is under way."""
        with self._database.writing() as connection:
            for other in _releases(connection):
                same = (other.plan.task, other.plan.version) == (plan.task, plan.version)
                if same and other.status == "running":
                    raise InputError(f"{plan.task} {plan.version} is being released: roll it back first")
            values = {"plan": plan.model_dump_json(), "step": 0, "since": now, "status": "running", "reason": ""}
            inserted = connection.execute(sql.insert(schema.releases).values(values)).inserted_primary_key
            assert inserted is not None
            release = Release(int(inserted[0]), plan, since=now)
            _note(connection, release)
            return release

    def roll_back(self, task: str, version: str, reason: str, now: int) -> Release:
        """By hand. Raises InputError where no release of the version is under way."""
        with self._database.writing() as connection:
            running = [release for release in _releases(connection) if release.status == "running"]
            for release in running:
                if (release.plan.task, release.plan.version) == (task, version):
                    return _moved(connection, rolled_back(release, reason, now))
        of_task = [release.plan.version for release in running if release.plan.task == task]
        near = meant(version, of_task) if of_task else meant(task, (release.plan.task for release in running))
        raise InputError(f"{task} {version} is not being released{near or ':'} `tapml field releases` lists what is")

    def report(self, release: Release, device: str, *, failed: bool, slow: bool, now: int) -> bool:
        """A device's run in the release's step; False where it is not the first, or the step is over."""
        return self.report_all([Reported(release, device, failed, slow)], now)[0]

    def report_all(self, reports: Sequence[Reported], now: int) -> list[bool]:
        """Of several runs, in one transaction."""
        with self._database.writing() as connection:
            row = schema.releases.c
            running = sql.select(row.number, row.step).where(row.status == "running")
            steps = {found.number: found.step for found in connection.execute(running)}
            seen = _reported(connection, reports)
            answers, rows, why = [], [], []
            took: list[tuple[int, int, float]] = []
            for one in reports:
                key = (one.release.number, one.release.step, one.device)
                under_way = steps.get(one.release.number) == one.release.step
                answers.append(under_way and key not in seen)
                told = {"release": key[0], "step": key[1], "device": one.device, "at": now}
                if answers[-1]:
                    seen.add(key)
                    rows.append({**told, "failed": int(one.failed), "slow": int(one.slow)})
                    if one.milliseconds is not None and not one.failed:
                        took.append((one.release.number, one.release.step, one.milliseconds))
                if under_way and one.failure is not None:  # what failed later does not count, and is told
                    why.append({**told, **one.failure})
            if rows:
                connection.execute(sql.insert(schema.reports), rows)
            runs.note(connection, why)
            times.note(connection, took)
            return answers

    def reported(self, release: Release, device: str) -> bool:
        """Has the device reported in the release's step, or is that over?"""
        table, rows = schema.reports, schema.releases.c
        known = sql.select(table.c.device).filter_by(release=release.number, step=release.step, device=device)
        now = sql.select(rows.step, rows.status).where(rows.number == release.number)
        with self._database.reading() as connection:
            if connection is None:
                return False
            over = connection.execute(now).first() != (release.step, "running")
            return over or connection.scalar(known) is not None

    def watch(self, now: int) -> list[Release]:
        """Advance every release that is under way by what was reported; gives all, as they are then."""
        # Most of the time nothing is to be written, and readers do not wait for each other.
        with self._database.reading() as connection:
            found = [] if connection is None else _releases(connection)
            if connection is None or all(_advanced(connection, one, now) is one for one in found):
                return found
        with self._database.writing() as connection:
            return [_advance(connection, one, now) for one in _releases(connection)]

    def counts(self, release: Release) -> Counts:
        """Of its step."""
        with self._database.reading() as connection:
            return Counts() if connection is None else _counts(connection, release)

    def rates(self) -> dict[int, list[StepRates]]:
        """By a release's number what was reported in each step that it was in."""
        with self._database.reading() as connection:
            return {} if connection is None else times.by_step(connection)

    def failed_runs(self) -> list[FailedRuns]:
        """Why runs failed, of all releases; what failed on most devices comes first."""
        with self._database.reading() as connection:
            return [] if connection is None else runs.failed_runs(connection)

    def events(self, release: Release) -> list[Event]:
        """The oldest first."""
        table = schema.events
        query = sql.select(table).where(table.c.release == release.number).order_by(table.c.number)
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(query).all()
        return [{"at": row.at, "step": row.step, "status": row.status, "reason": row.reason} for row in rows]


def _releases(connection: Connection) -> list[Release]:
    return [
        Release(row.number, read_plan(row.plan), row.step, row.since, row.status, row.reason)
        for row in connection.execute(sql.select(schema.releases).order_by(schema.releases.c.number))
    ]


def _reported(connection: Connection, reports: Sequence[Reported]) -> set[tuple[int, int, str]]:
    """Which of these are there already: release, step and device."""
    table, found = schema.reports.c, set()
    for release, step in {(one.release.number, one.release.step) for one in reports}:
        devices = [one.device for one in reports if (one.release.number, one.release.step) == (release, step)]
        mine = (table.release == release) & (table.step == step) & table.device.in_(devices)
        found |= {(release, step, device) for device in connection.scalars(sql.select(table.device).where(mine))}
    return found


def read_plan(text: str) -> Plan:
    """As it was kept. Raises InputError."""
    return validated("a release", Plan, parse_json(text, "a release", _REMEDY.removeprefix("; ")), _REMEDY)


def _counts(connection: Connection, release: Release) -> Counts:
    table = schema.reports
    sums = (sql.func.coalesce(sql.func.sum(column), 0) for column in (table.c.failed, table.c.slow))
    mine = (table.c.release == release.number) & (table.c.step == release.step)
    row = connection.execute(sql.select(sql.func.count(), *sums).select_from(table).where(mine)).one()
    devices, failed, slow = (int(value) for value in row)
    return Counts(devices, failed, slow, unjudged(connection, release.number))


def _advanced(connection: Connection, release: Release, now: int) -> Release:
    if release.status != "running":
        return release
    return advance(release, _counts(connection, release), now)


def _advance(connection: Connection, release: Release, now: int) -> Release:
    after = _advanced(connection, release, now)
    if after is release:
        return release
    if after.status == "rolled-back" and (found := suspect(connection, release.number)):
        after = replace(after, reason=f"{after.reason}: {found}")
    return _moved(connection, after)


def _moved(connection: Connection, release: Release) -> Release:
    row = schema.releases
    values = {"step": release.step, "since": release.since, "status": release.status, "reason": release.reason}
    connection.execute(sql.update(row).where(row.c.number == release.number).values(values))
    _note(connection, release)
    return release


def _note(connection: Connection, release: Release) -> None:
    connection.execute(
        sql.insert(schema.events).values(
            release=release.number, at=release.since, step=release.step, status=release.status, reason=release.reason
        )
    )
