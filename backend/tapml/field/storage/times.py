"""How long runs of tasks took: of each device its first good run in a step of a release, as a histogram."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypedDict

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.field.storage import schema

_PER_DOUBLING = 8
"""Buckets of a factor of two: what is told of one is at most 4.5 % beside the time itself."""
_LAST = 30 * _PER_DOUBLING
"""From 2^30 ms on, twelve days."""

_times = sql.Table(
    "tapml_field_run_times",
    schema.metadata,
    sql.Column("release", sql.Integer, sql.ForeignKey("tapml_field_releases.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),
    sql.Column("bucket", sql.Integer, primary_key=True),  # the time is about 2^(bucket / 8) ms
    sql.Column("devices", sql.Integer, nullable=False),
    sqlite_with_rowid=False,
)


class Times(TypedDict):
    """Of so many devices; milliseconds."""

    devices: int
    p50: float
    p95: float


class StepRates(TypedDict):
    """What devices reported in a step of a release. `times` is null where none told how long a good run took."""

    step: int
    devices: int
    failed: int
    slow: int
    times: Times | None


def prepare(connection: Connection) -> None:
    """A database of before has no such table."""
    schema.metadata.create_all(connection, tables=[_times])


def note(connection: Connection, found: Iterable[tuple[int, int, float]]) -> None:
    """Of each run its release and step, and the milliseconds that it took."""
    counted = Counter((release, step, _bucket(milliseconds)) for release, step, milliseconds in found)
    if not counted:
        return
    insert = schema.insert_into(connection, _times)
    more = {"devices": _times.c.devices + insert.excluded.devices}
    rows = [
        {"release": release, "step": step, "bucket": bucket, "devices": devices}
        for (release, step, bucket), devices in sorted(counted.items())
    ]
    connection.execute(insert.on_conflict_do_update(index_elements=list(_times.primary_key), set_=more), rows)


def by_step(connection: Connection) -> dict[int, list[StepRates]]:
    """By release what was reported in each of its steps, in order."""
    times: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in connection.execute(sql.select(_times)):
        times[row.release, row.step][row.bucket] = row.devices
    table = schema.reports.c
    key = (table.release, table.step)
    sums = (sql.func.count(), sql.func.sum(table.failed), sql.func.sum(table.slow))
    found: dict[int, list[StepRates]] = defaultdict(list)
    for release, step, devices, failed, slow in connection.execute(
        sql.select(*key, *sums).group_by(*key).order_by(*key)
    ):
        rates: StepRates = {
            "step": step, "devices": int(devices), "failed": int(failed), "slow": int(slow),
            "times": quantiles(times[release, step]),
        }  # fmt: skip
        found[release].append(rates)
    return found


def quantiles(buckets: dict[int, int]) -> Times | None:
    """Of devices by bucket."""
    devices = sum(buckets.values())
    if devices == 0:
        return None

    def at(share: float) -> float:
        below = 0
        for bucket in sorted(buckets):
            below += buckets[bucket]
            if below >= share * devices:
                break
        return float(f"{2.0 ** (bucket / _PER_DOUBLING):.3g}")

    return {"devices": devices, "p50": at(0.5), "p95": at(0.95)}


def _bucket(milliseconds: float) -> int:
    return min(_LAST, round(_PER_DOUBLING * math.log2(max(1.0, milliseconds))))
