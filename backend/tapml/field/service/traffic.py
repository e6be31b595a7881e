"""What the console tells of the service itself: of all its processes where Redis knows them, else of this one."""

from __future__ import annotations

from typing import Literal, TypedDict

from tapml.field.service.redis_link import Counted, RedisLink
from tapml.field.storage.records import Emitted, Records


class Traffic(TypedDict):
    """`answers`, `reports` and `bytes` (of the tunnel, as they came) are since the start."""

    redis: Literal["none", "connected", "away"]
    processes: int
    answers: int
    reports: int
    connections: int
    bytes: int
    devices: int | None
    """Different ones that asked today (UTC), within a hundredth; None where it is not counted."""
    streams: int
    records: int
    emitted: list[Emitted]


def traffic(counted: Counted, records: Records, link: RedisLink | None) -> Traffic:
    """Raises InputError where the database is of no use."""
    totals = None if link is None else link.totals
    known = totals or {**counted.added, **counted.now, "processes": 1}
    kept = records.traffic()
    return {
        "redis": "none" if link is None else "away" if link.away else "connected",
        "processes": known.get("processes", 1),
        "answers": known.get("answers", 0),
        "reports": known.get("reports", 0),
        "connections": known.get("connections", 0),
        "bytes": known.get("bytes", 0),
        "devices": known.get("devices"),
        "streams": kept["streams"],
        "records": kept["records"],
        "emitted": records.emitted(),
    }
