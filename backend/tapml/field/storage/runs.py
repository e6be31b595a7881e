"""Why runs of tasks failed: of each device the first failure in a step of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.field.storage import schema

_MOST = 200

_failures = sql.Table(
    "tapml_field_run_failures",
    schema.metadata,
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),
    sql.Column("device", sql.Text, primary_key=True),
    sql.Column("at", sql.BigInteger, nullable=False),  # milliseconds since 1970
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("what", sql.Text, nullable=False),
    sql.Column("browser", sql.Text, nullable=False),
    sql.Column("gpu", sql.Text, nullable=False),
    sqlite_with_rowid=False,
)


class RunFailure(TypedDict):
    """Why a run failed: nothing that a user may have said is in it."""

    kind: str
    what: str
    """"ValueError at main.py:12"; empty where that is not known."""
    browser: str
    gpu: str


class FailedRuns(RunFailure):
    """Runs that failed alike."""

    release: int
    devices: int
    latest: int
    """Milliseconds since 1970."""


def prepare(connection: Connection) -> None:
    """A database of before has no such table."""
    schema.metadata.create_all(connection, tables=[_failures])


def note(connection: Connection, found: Sequence[dict[str, Any]]) -> None:
    """Rows of release, step, device, at and a RunFailure; a device's first one is kept."""
    if found:
        connection.execute(schema.insert_into(connection, _failures).on_conflict_do_nothing(), list(found))


def failed_runs(connection: Connection) -> list[FailedRuns]:
    """By release, reason, browser and GPU; what failed on most devices comes first."""
    table = _failures.c
    alike = (table.release, table.kind, table.what, table.browser, table.gpu)
    devices, latest = sql.func.count(table.device.distinct()).label("devices"), sql.func.max(table.at).label("latest")
    query = sql.select(*alike, devices, latest).group_by(*alike)
    rows = connection.execute(query.order_by(devices.desc(), latest.desc(), *alike).limit(_MOST)).all()
    return [
        {
            "release": row.release, "kind": row.kind, "what": row.what, "browser": row.browser, "gpu": row.gpu,
            "devices": int(row.devices), "latest": int(row.latest),
        }
        for row in rows
    ]  # fmt: skip
