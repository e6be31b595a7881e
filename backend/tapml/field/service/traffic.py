"""What the console tells of the service itself: of all its processes where Redis knows them, else of this one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypedDict

from tapml.field.service.redis_link import Counted, RedisLink
from tapml.field.storage.records import Counts, Emitted, Records


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


class Kept:
    """Of the tunnel's records, as they were counted last. Counting millions takes seconds: it is done again when twenty
    times as long has passed as it took, and a second at least."""

    def __init__(self, records: Records, now: Callable[[], float] = time.monotonic) -> None:
        self._records, self._now = records, now
        self._lock = threading.Lock()
        self._found: tuple[Counts, list[Emitted]] | None = None
        self._again = 0.0

    def __call__(self) -> tuple[Counts, list[Emitted]]:
        """Raises InputError where the database is of no use."""
        with self._lock:
            began = self._now()
            if self._found is None or began >= self._again:
                self._found = self._records.traffic(), self._records.emitted()
                ended = self._now()
                self._again = ended + max(1.0, 20 * (ended - began))
            return self._found


def traffic(counted: Counted, kept: Kept, link: RedisLink | None) -> Traffic:
    """Raises InputError where the database is of no use."""
    totals = None if link is None else link.totals
    known = totals or {**counted.added, **counted.now, "processes": 1}
    counts, emitted = kept()
    return {
        "redis": "none" if link is None else "away" if link.away else "connected",
        "processes": known.get("processes", 1),
        "answers": known.get("answers", 0),
        "reports": known.get("reports", 0),
        "connections": known.get("connections", 0),
        "bytes": known.get("bytes", 0),
        "devices": known.get("devices"),
        "streams": counts["streams"],
        "records": counts["records"],
        "emitted": emitted,
    }
