"""What tasks sent through the tunnel: each record once, by device, stream and number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import sqlalchemy as sql
from pydantic import Field
from sqlalchemy.engine import Connection

from tapml.field.names import DeviceId, TaskName, Version
from tapml.field.storage import schema
from tapml.history.database import Database
from tapml.protocol.base import Message

MOST_RECORDS = 256
"""In a batch."""

_streams = sql.Table(
    "tapml_field_streams",
    schema.metadata,
    sql.Column("device", sql.Text, primary_key=True),
    sql.Column("stream", sql.Text, primary_key=True),
    sql.Column("last", sql.BigInteger, nullable=False),  # all up to it are committed
)

_records = sql.Table(
    "tapml_field_records",
    schema.metadata,
    sql.Column("device", sql.Text, primary_key=True),
    sql.Column("stream", sql.Text, primary_key=True),
    sql.Column("number", sql.BigInteger, primary_key=True),
    sql.Column("task", sql.Text, nullable=False),
    sql.Column("version", sql.Text, nullable=False),
    sql.Column("name", sql.Text, nullable=False),
    sql.Column("at", sql.BigInteger, nullable=False),  # as the device says
    sql.Column("received", sql.BigInteger, nullable=False),
    sql.Column("value", sql.Text, nullable=False),  # JSON
)


class Hello(Message):
    """A connection's first message. A stream is one outbox of a device; a page that lost its own begins another."""

    tunnel: Literal[1]
    device: DeviceId
    stream: DeviceId


class Record(Message):
    """What a task emitted."""

    task: TaskName
    version: Version
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
    at: Annotated[int, Field(ge=0, le=2**53)]
    """Milliseconds since 1970, by the device's clock."""
    value: Any


class Batch(Message):
    """Records of one stream; the first has this number, and those after it the next ones. Numbers begin at 1."""

    first: Annotated[int, Field(ge=1, le=2**53)]
    records: Annotated[list[Record], Field(min_length=1, max_length=MOST_RECORDS)]


@dataclass(frozen=True)
class Sent:
    """A batch, and whose it is."""

    device: str
    stream: str
    batch: Batch


class Counts(TypedDict):
    """Of the tunnel, since the database was made."""

    streams: int
    records: int


class Emitted(TypedDict):
    """What came of a task under one name."""

    task: str
    version: str
    name: str
    records: int
    devices: int
    latest: int
    """When the newest came: milliseconds since 1970."""


class Records:
    """All raise InputError where the database is of no use."""

    def __init__(self, url: str | Path) -> None:
        self._database = Database(url, tables=schema.FIELD)
        with self._database.writing() as connection:  # a database of before has no such tables
            schema.metadata.create_all(connection, tables=[_streams, _records])

    def lasts(self, streams: Sequence[tuple[str, str]]) -> list[int]:
        """Of each device and stream: all records up to this number are committed; 0 where none is."""
        with self._database.reading() as connection:
            found = {} if connection is None else _lasts(connection, streams)
        return [found.get(one, 0) for one in streams]

    def take(self, sent: Sequence[Sent], now: int) -> list[int]:
        """Commit these in one transaction; gives `last` of each one's stream then.

        A record that was committed before is not taken again, and a batch behind a gap not at all.
        """
        rows: list[dict[str, Any]] = []
        found: list[int] = []
        with self._database.writing() as connection:
            lasts = _lasts(connection, [(one.device, one.stream) for one in sent])
            for one in sent:
                key = (one.device, one.stream)
                last = lasts.setdefault(key, 0)
                if one.batch.first <= last + 1:
                    for number, record in enumerate(one.batch.records, one.batch.first):
                        if number > last:
                            rows.append(_row(one, number, record, now))
                            last = number
                    lasts[key] = last
                found.append(last)
            if rows:
                connection.execute(sql.insert(_records), rows)
            insert = schema.upsert(connection, _streams)
            connection.execute(
                insert, [{"device": key[0], "stream": key[1], "last": last} for key, last in lasts.items()]
            )
        return found

    def traffic(self) -> Counts:
        """What came so far."""
        with self._database.reading() as connection:
            if connection is None:
                return {"streams": 0, "records": 0}
            streams, records = (
                int(connection.scalar(sql.select(sql.func.count()).select_from(table)) or 0)
                for table in (_streams, _records)
            )
            return {"streams": streams, "records": records}

    def emitted(self, most: int = 200) -> list[Emitted]:
        """By task, version and name; what came last comes first."""
        table = _records.c
        key = (table.task, table.version, table.name)
        latest = sql.func.max(table.received).label("latest")
        counts = (sql.func.count().label("records"), sql.func.count(table.device.distinct()).label("devices"), latest)
        query = sql.select(*key, *counts).group_by(*key).order_by(latest.desc(), *key).limit(most)
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(query).all()
        return [
            {
                "task": row.task, "version": row.version, "name": row.name, "records": int(row.records),
                "devices": int(row.devices), "latest": int(row.latest),
            }
            for row in rows
        ]  # fmt: skip

    def values(self, task: str, most: int = 1000) -> list[tuple[str, str, int, Any]]:
        """Device, name, number and value of a task's records, the latest `most`, in the order they came."""
        query = sql.select(_records).filter_by(task=task).order_by(_records.c.received.desc(), _records.c.number.desc())
        with self._database.reading() as connection:
            rows = [] if connection is None else connection.execute(query.limit(most)).all()
        return [(row.device, row.name, row.number, json.loads(row.value)) for row in reversed(rows)]


def _lasts(connection: Connection, streams: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    table = _streams.c
    query = sql.select(table.device, table.stream, table.last)
    mine = sql.tuple_(table.device, table.stream).in_(sorted(set(streams)))
    return {(row.device, row.stream): int(row.last) for row in connection.execute(query.where(mine))}


def _row(sent: Sent, number: int, record: Record, now: int) -> dict[str, Any]:
    return {
        "device": sent.device, "stream": sent.stream, "number": number, "task": record.task, "version": record.version,
        "name": record.name, "at": record.at, "received": now, "value": json.dumps(record.value, allow_nan=False),
    }  # fmt: skip
