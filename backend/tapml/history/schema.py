"""Tables of the history, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sql

VERSION = 2


@dataclass(frozen=True)
class Tables:
    """Of one kind of database: `what` in words, and the table that tells of which version it is."""

    what: str
    metadata: sql.MetaData
    version: sql.Table
    newest: int


metadata = sql.MetaData()

# A run's position: ids follow the order in which runs were recorded, `at` the time at which they ended.
_Id = sql.BigInteger().with_variant(sql.Integer(), "sqlite")  # SQLite numbers by itself only INTEGER PRIMARY KEY

version = sql.Table("tapml_history", metadata, sql.Column("version", sql.Integer, nullable=False))

runs = sql.Table(
    "tapml_runs",
    metadata,
    sql.Column("id", _Id, primary_key=True),
    sql.Column("uuid", sql.Text, nullable=False, unique=True),
    sql.Column("at", sql.BigInteger, nullable=False),  # milliseconds since 1970, UTC
    sql.Column("created", sql.Text, nullable=False),  # the same for people, ISO 8601
    sql.Column("suite", sql.Text, nullable=False),  # Suite.id: digest of graph and tests
    sql.Column("suite_name", sql.Text, nullable=False),
    sql.Column("source", sql.Text, nullable=False),  # validate, test, serve
    sql.Column("version", sql.Text, nullable=False),  # of tapml
    sql.Index("tapml_runs_suite", "suite", "at"),
)

devices = sql.Table(
    "tapml_devices",
    metadata,
    sql.Column("id", _Id, primary_key=True),
    sql.Column("run", _Id, sql.ForeignKey("tapml_runs.id"), nullable=False),
    sql.Column("device", sql.Text, nullable=False),  # its id within the run
    sql.Column("name", sql.Text, nullable=False),  # "Chromium 156"
    sql.Column("family", sql.Text, nullable=False),  # "Chromium"
    sql.Column(
        "gpu", sql.Text, nullable=False
    ),  # "google swiftshader": the adapter without what its driver's update changes
    sql.Column("user_agent", sql.Text, nullable=False),
    sql.Column("adapter", sql.Text, nullable=False),  # for people
    sql.UniqueConstraint("run", "device"),
)

# A test on a family of devices with one sort of GPU: what has a trend.
series = sql.Table(
    "tapml_series",
    metadata,
    sql.Column("id", _Id, primary_key=True),
    sql.Column("suite", sql.Text, nullable=False),
    sql.Column("test", sql.Text, nullable=False),
    sql.Column("kernel", sql.Text, nullable=False),
    sql.Column("family", sql.Text, nullable=False),
    sql.Column("gpu", sql.Text, nullable=False),
    sql.UniqueConstraint("suite", "test", "family", "gpu"),
)

results = sql.Table(
    "tapml_results",
    metadata,
    sql.Column("series", _Id, sql.ForeignKey("tapml_series.id"), primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True),  # the run's: rows are asked for in this order
    sql.Column("device", _Id, sql.ForeignKey("tapml_devices.id"), primary_key=True),
    sql.Column("kernel_digest", sql.Text, nullable=False),  # of WGSL and launches; empty where it is not known
    sql.Column("verdict", sql.Text, nullable=False),
    sql.Column("flaky", sql.SmallInteger, nullable=False),  # 0 or 1
    sql.Column("attempts", sql.Text, nullable=False),  # verdicts of repeated runs, "fail pass"; else empty
    sql.Column("max_abs_error", sql.Double),
    sql.Column("max_rel_error", sql.Double),
    sql.Column("max_ulp", sql.Double),
    sql.Column("mismatched", sql.BigInteger, nullable=False),
    sql.Column("total", sql.BigInteger, nullable=False),
    sql.Column("seconds", sql.Double),
    sql.Column("gpu_seconds", sql.Double),
    sql.Column("variant", sql.Text),
    sql.Column("message", sql.Text, nullable=False),
    sql.Index("tapml_results_verdict", "series", "verdict", "at"),
    sqlite_with_rowid=False,  # a series' rows lie together
)

# Not of every result: where nothing was compared, or nothing bounds it. A table of its own, for a newer version adds
# tables and leaves those that are there alone (`Database.writing`).
bound_shares = sql.Table(
    "tapml_bound_shares",
    metadata,
    sql.Column("series", _Id, sql.ForeignKey("tapml_series.id"), primary_key=True),
    sql.Column("at", sql.BigInteger, primary_key=True),
    sql.Column("device", _Id, sql.ForeignKey("tapml_devices.id"), primary_key=True),
    sql.Column("bound_share", sql.Double, nullable=False),  # infinity where a number was expected and none came
    sqlite_with_rowid=False,
)

HISTORY = Tables("the history", metadata, version, VERSION)
