"""What devices told of themselves, and how many hold what over time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.field.profiles import Profile
from tapml.field.releases import NamedStep, Release
from tapml.field.storage import schema
from tapml.history.database import Database


class Told(TypedDict):
    """A device, as it described itself when it asked last (milliseconds since 1970)."""

    device: str
    at: int
    app: str
    browser: str
    gpu: str
    holds: dict[str, str]


class FleetStore:
    """Every method is one transaction. All raise InputError where the database is of no use."""

    def __init__(self, url: str | Path) -> None:
        self._database = Database(url, tables=schema.FIELD)

    def saw(self, seen: Mapping[str, tuple[Profile, int]], releases: Iterable[Release], now: int) -> None:
        """Devices that asked, and when; then how many hold what is being released. Browsers that the platform drives
        are nobody's devices: they end with their step, and do not say so."""
        releases = list(releases)
        driven = {device for release in releases for device in _driven(release)}
        told = [_told(profile, at) for profile, at in seen.values() if profile.device not in driven]
        if not told:
            return
        with self._database.writing() as connection:
            connection.execute(schema.upsert(connection, schema.devices), told)
            holding = _holding(connection)
            for release in releases:
                _cover(connection, release.number, holding[release.plan.task, release.plan.version], now)

    def devices(self, most: int = 1000) -> list[Told]:
        """Those that asked last come first."""
        table = schema.devices
        with self._database.reading() as connection:
            query = sql.select(table).order_by(table.c.at.desc(), table.c.device).limit(most)
            rows = [] if connection is None else connection.execute(query).all()
        return [
            {
                "device": row.device, "at": row.at, "app": row.app, "browser": row.browser, "gpu": row.gpu,
                "holds": json.loads(row.holds),
            }
            for row in rows
        ]  # fmt: skip

    def coverage(self, release: Release) -> list[tuple[int, int]]:
        """Milliseconds since 1970, and the devices that held the version from then on."""
        table = schema.coverage.c
        query = sql.select(table.at, table.devices).where(table.release == release.number).order_by(table.at)
        with self._database.reading() as connection:
            return [] if connection is None else [(row[0], row[1]) for row in connection.execute(query)]


def browser_of(profile: Profile) -> str:
    """Name and version."""
    return f"{profile.browser.name} {profile.browser.version}"


def gpu_of(profile: Profile) -> str:
    """Vendor and architecture; empty where neither is told."""
    return f"{profile.gpu.vendor} {profile.gpu.architecture}".strip()


def _driven(release: Release) -> Iterator[str]:
    for step in release.plan.steps:
        if isinstance(step, NamedStep) and step.browsers:
            yield from step.devices


def _told(profile: Profile, at: int) -> dict[str, Any]:
    return {
        "device": profile.device,
        "at": at,
        "app": profile.app,
        "browser": browser_of(profile),
        "gpu": gpu_of(profile),
        "holds": json.dumps(profile.holds),
    }


def _holding(connection: Connection) -> Counter[tuple[str, str]]:
    """By task and version."""
    table = schema.devices.c
    found: Counter[tuple[str, str]] = Counter()
    for holds, count in connection.execute(sql.select(table.holds, sql.func.count()).group_by(table.holds)):
        for task, version in json.loads(holds).items():
            found[task, version] += count
    return found


def _cover(connection: Connection, release: int, devices: int, now: int) -> None:
    table = schema.coverage
    last = sql.select(table.c.devices).where(table.c.release == release).order_by(table.c.at.desc()).limit(1)
    if connection.scalar(last) != devices:
        connection.execute(sql.delete(table).where((table.c.release == release) & (table.c.at == now)))
        connection.execute(sql.insert(table).values(release=release, at=now, devices=devices))
