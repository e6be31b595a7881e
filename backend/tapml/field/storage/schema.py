"""Tables of the field, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from tapml.history.schema import Tables

metadata = sql.MetaData()

version = sql.Table("tapml_field", metadata, sql.Column("version", sql.Integer, nullable=False))

releases = sql.Table(
    "tapml_field_releases",
    metadata,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("plan", sql.Text, nullable=False),  # JSON; it never changes
    sql.Column("step", sql.Integer, nullable=False),
    sql.Column("since", sql.BigInteger, nullable=False),  # milliseconds since 1970, as all times here
    sql.Column("status", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
)

# What became of a release, in order; rows are only ever added.
events = sql.Table(
    "tapml_field_events",
    metadata,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), nullable=False),
    sql.Column("at", sql.BigInteger, nullable=False),
    sql.Column("step", sql.Integer, nullable=False),
    sql.Column("status", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
)

# A device's first report in a step: the one that counts.
reports = sql.Table(
    "tapml_field_reports",
    metadata,
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),
    sql.Column("device", sql.Text, primary_key=True),
    sql.Column("at", sql.BigInteger, nullable=False),
    sql.Column("failed", sql.SmallInteger, nullable=False),  # 0 or 1
    sql.Column("slow", sql.SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Captured calls that devices sent, before and after they were computed here again.
samples = sql.Table(
    "tapml_field_samples",
    metadata,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), nullable=False),
    sql.Column("device", sql.Text, nullable=False),
    sql.Column("at", sql.BigInteger, nullable=False),
    sql.Column("file", sql.Text, nullable=False),  # its name; it is removed when it is judged
    sql.Column("taken", sql.BigInteger, nullable=False),  # by who judges it; 0: by nobody yet
    sql.Column("judged", sql.SmallInteger, nullable=False),  # 0 or 1
    sql.Column("calls", sql.Integer, nullable=False),
    sql.Column("failed", sql.Integer, nullable=False),  # of these
    sql.Column("refused", sql.Text, nullable=False),  # why it is no sample; empty where it is one
)

# Operator calls that were outside of their bounds on a device.
failures = sql.Table(
    "tapml_field_failures",
    metadata,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("sample", sql.Integer, sql.ForeignKey("tapml_field_samples.number"), nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("variant", sql.Text, nullable=False),
    sql.Column("node", sql.Text, nullable=False),
    sql.Column("browser", sql.Text, nullable=False),  # "Chromium 156"
    sql.Column("gpu", sql.Text, nullable=False),
    sql.Column("message", sql.Text, nullable=False),
    sql.Column("link", sql.Text, nullable=False),  # the id of a shared test
)

# What devices told of themselves last.
devices = sql.Table(
    "tapml_field_devices",
    metadata,
    sql.Column("device", sql.Text, primary_key=True),
    sql.Column("at", sql.BigInteger, nullable=False),
    sql.Column("app", sql.Text, nullable=False),
    sql.Column("browser", sql.Text, nullable=False),
    sql.Column("gpu", sql.Text, nullable=False),
    sql.Column("holds", sql.Text, nullable=False),  # JSON: versions by task
    sqlite_with_rowid=False,
)

# Devices that held a release's version, whenever that number changed.
coverage = sql.Table(
    "tapml_field_coverage",
    metadata,
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True),
    sql.Column("devices", sql.Integer, nullable=False),
    sqlite_with_rowid=False,
)

FIELD = Tables("the field's database", metadata, version, 2)


def insert_into(connection: Connection, table: sql.Table) -> Any:
    """The database's own insert, which may say what becomes of a row that is there."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


def upsert(connection: Connection, table: sql.Table) -> Any:
    """An insert that changes the row of its primary key where there is one: for many rows at once."""
    insert = insert_into(connection, table)
    changed = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)
