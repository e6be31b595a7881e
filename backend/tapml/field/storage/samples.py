"""Captured calls that devices sent, what came of computing them again, and whose release that counts against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.field.releases import Release
from tapml.field.storage import schema
from tapml.history.database import Database

MOST_WAITING = 200
"""Samples that wait to be judged; further ones are not taken."""

MOST_OF_DEVICE = 4
"""Samples of one device of one release: one that sends without end judges nothing but itself."""

_ABANDONED_MS = 600_000
_LONGEST = 2000


class Taken(NamedTuple):
    """A sample that its caller is to judge."""

    number: int
    file: str


class Failure(TypedDict):
    """One operator call that was wrong on a device."""

    kernel: str
    variant: str
    node: str
    browser: str
    gpu: str
    message: str
    link: str


class Filed(Failure):
    """With where it comes from."""

    at: int
    task: str
    version: str
    device: str


class SampleStore:
    """Every method is one transaction. All raise InputError where the database is of no use."""

    def __init__(self, url: str | Path) -> None:
        self._database = Database(url, tables=schema.FIELD)

    def add(self, release: Release, device: str, file: str, now: int) -> bool:
        """False where it is not wanted: the release is over, or there are enough."""
        table, rows = schema.samples, schema.releases.c
        waiting = sql.select(sql.func.count()).where(table.c.judged == 0)
        same = (table.c.release == release.number) & (table.c.device == device)
        with self._database.writing() as connection:
            running = sql.select(rows.number).where((rows.number == release.number) & (rows.status == "running"))
            if (
                connection.scalar(running) is None
                or int(connection.scalar(waiting) or 0) >= MOST_WAITING
                or int(connection.scalar(sql.select(sql.func.count()).where(same)) or 0) >= MOST_OF_DEVICE
            ):
                return False
            found = {"release": release.number, "device": device, "at": now, "file": file}
            none = {"taken": 0, "judged": 0, "calls": 0, "failed": 0, "refused": ""}
            connection.execute(sql.insert(table).values(**found, **none))
            return True

    def take(self, now: int) -> Taken | None:
        """The oldest one that nobody has begun to judge, or that somebody left ten minutes ago."""
        table = schema.samples
        free = (table.c.judged == 0) & ((table.c.taken == 0) | (table.c.taken < now - _ABANDONED_MS))
        query = sql.select(table.c.number, table.c.file).where(free).order_by(table.c.number).limit(1)
        with self._database.reading() as connection:  # most of the time there is none, and nobody waits
            if connection is None or connection.execute(query).first() is None:
                return None
        with self._database.writing() as connection:
            row = connection.execute(query).first()
            if row is None:
                return None
            connection.execute(sql.update(table).where(table.c.number == row.number).values(taken=now))
            return Taken(row.number, row.file)

    def judged(self, number: int, calls: int, failures: Sequence[Failure], now: int, refused: str = "") -> None:
        """What came of a sample. Where a call failed, so has its device in the step in which its release is now."""
        table = schema.samples
        with self._database.writing() as connection:
            changed = {"judged": 1, "calls": calls, "failed": len(failures), "refused": refused[:_LONGEST]}
            connection.execute(sql.update(table).where(table.c.number == number).values(changed))
            if not failures:
                return
            rows = [{"sample": number, **one, "message": one["message"][:_LONGEST]} for one in failures]
            connection.execute(sql.insert(schema.failures), rows)
            sample = connection.execute(sql.select(table).where(table.c.number == number)).one()
            _fail(connection, sample.release, sample.device, now)

    def counts(self) -> dict[int, tuple[int, int, int]]:
        """By the number of a release: samples that were judged, their calls, and those of these that failed."""
        table = schema.samples.c
        sums = (sql.func.count(), sql.func.sum(table.calls), sql.func.sum(table.failed))
        query = sql.select(table.release, *sums).where(table.judged == 1).group_by(table.release)
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(query).all()
        return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in rows}

    def failures(self, most: int = 500) -> list[Filed]:
        """The newest first."""
        failed, sample = schema.failures, schema.samples
        query = (
            sql.select(failed, sample.c.at, sample.c.device, schema.releases.c.plan)
            .join(sample, sample.c.number == failed.c.sample)
            .join(schema.releases, schema.releases.c.number == sample.c.release)
            .order_by(failed.c.number.desc())
            .limit(most)
        )
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(query).all()
        return [_filed(row) for row in rows]


def _filed(row: sql.Row[tuple[object, ...]]) -> Filed:
    plan = json.loads(row.plan)
    return {
        "kernel": row.kernel, "variant": row.variant, "node": row.node, "browser": row.browser, "gpu": row.gpu,
        "message": row.message, "link": row.link, "at": row.at, "device": row.device, "task": plan["task"],
        "version": plan["version"],
    }  # fmt: skip


def _fail(connection: Connection, release: int, device: str, now: int) -> None:
    """Its report of the step, also where the device itself took its run for a good one."""
    table, rows = schema.reports, schema.releases.c
    step = connection.scalar(sql.select(rows.step).where((rows.number == release) & (rows.status == "running")))
    if step is None:
        return
    key = {"release": release, "step": step, "device": device}
    if connection.scalar(sql.select(table.c.device).filter_by(**key)) is None:
        connection.execute(sql.insert(table).values(**key, at=now, failed=1, slow=0))
    else:
        connection.execute(sql.update(table).filter_by(**key).values(failed=1))


def unjudged(connection: Connection, release: int) -> int:
    """Samples of a release that were not judged yet."""
    table = schema.samples.c
    query = sql.select(sql.func.count()).where((table.release == release) & (table.judged == 0))
    return int(connection.scalar(query) or 0)


def suspect(connection: Connection, release: int) -> str:
    """Which kernel was wrong on most devices, for the reason of a rollback; empty where none was."""
    failed, sample = schema.failures.c, schema.samples.c
    devices = sql.func.count(sql.distinct(sample.device))
    query = (
        sql.select(failed.kernel, failed.variant, devices)
        .join_from(schema.failures, schema.samples, sample.number == failed.sample)
        .where(sample.release == release)
        .group_by(failed.kernel, failed.variant)
        .order_by(devices.desc(), failed.kernel, failed.variant)
    )
    row = connection.execute(query).first()
    if row is None:
        return ""
    return f"{row[0]} (variant {row[1]}) is wrong on {row[2]} {'device' if row[2] == 1 else 'devices'}"
