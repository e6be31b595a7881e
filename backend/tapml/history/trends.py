"""What a suite's recorded runs say of each test on each device.

Counts, rates and times are of the last `WINDOW` runs of the suite, so that asking costs the same after years; when
something was first seen, and since when it has been as it is now, is looked up in all runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.history import bound_shares
from tapml.history.line import Line, times
from tapml.history.past import Extremes, Past, extremes
from tapml.history.schema import results, runs, series
from tapml.results.history import ChangeMoment, DeviceHistory, HistoryPoint, Trend

WINDOW = 500

_AT_ONCE = 2000

_COLUMNS = ("series", "device", "kernel_digest", "verdict", "flaky", "seconds", "gpu_seconds")
_NUMBERS: set[type[Any]] = {int, float, type(None)}
_TYPES: dict[str, set[type[Any]]] = {
    **{key: {int} for key in ("series", "device", "flaky", "mismatched", "total")},
    **{key: {str} for key in ("kernel_digest", "verdict", "message", "attempts")},
    "variant": {str, type(None)},
}
_DETAILS = ("max_abs_error", "max_ulp", "mismatched", "total", "variant", "message", "attempts")


def count_runs(connection: Connection, suite: str) -> int:
    return int(connection.scalar(sql.select(sql.func.count()).where(runs.c.suite == suite)) or 0)


def trends(connection: Connection, suite: str, *, kernel: str | None = None) -> list[Trend]:
    """A trend for each test and device: failing ones first (the newest failures before older ones), then flaky ones."""
    found = [trend for trend, _, _ in _all(connection, suite, kernel=kernel)]
    return sorted(found, key=_need)


def _need(trend: Trend) -> tuple[Any, ...]:
    failing = trend["state"] == "failing"
    since = trend["since"]["at"] if failing else 0
    return (not failing, not trend["new_failure"], -since, -trend["flaky_rate"], trend["test"], trend["device"])


def timeline(connection: Connection, suite: str, test: str) -> list[DeviceHistory]:
    """For each device that ran the test: its trend, and the points of the window, newest last."""
    found = _all(connection, suite, test=test, details=_DETAILS)
    return [
        {"device": trend["device"], "gpu": trend["gpu"], "trend": trend, "points": list(_points(line, rows))}
        for trend, line, rows in sorted(found, key=lambda entry: (entry[0]["device"], entry[0]["gpu"]))
    ]


def _points(line: Line, rows: Sequence[Sequence[Any]]) -> Iterator[HistoryPoint]:
    for at, row in enumerate(rows):
        *known, share = row[len(_COLUMNS) :]
        details: Any = dict(zip(_DETAILS, known, strict=True))
        point: Any = {
            **line.change(at),
            **details,
            "attempts": details["attempts"].split(),
            "bound_share": bound_shares.checked(share),
            "verdict": line.verdicts[at],
            "kernel_digest": line.digests[at],
            "flaky": line.flaky[at],
            "seconds": line.seconds[at],
            "gpu_seconds": line.gpu_seconds[at],
        }
        yield point


def _all(
    connection: Connection,
    suite: str,
    *,
    kernel: str | None = None,
    test: str | None = None,
    details: Sequence[str] = (),
) -> list[tuple[Trend, Line, list[Any]]]:
    """Trend, line and rows of every series that was chosen and has points in the window."""
    chosen = [series.c.suite == suite]
    if kernel is not None:
        chosen.append(series.c.kernel == kernel)
    if test is not None:
        chosen.append(series.c.test == test)
    begin = _begin(connection, suite)
    past = Past(connection, suite)
    known = past.devices(runs.c.at >= begin)
    tests = extremes(connection, chosen)
    query = (
        sql.select(*(results.c[key] for key in (*_COLUMNS, *details)))
        .where(results.c.series.in_(sql.select(series.c.id).where(*chosen)), results.c.at >= begin)
        .order_by(results.c.series, results.c.at, results.c.device)
    )
    if details:
        query = bound_shares.with_bound_share(query, connection)
    found = []
    for number, group in groupby(connection.execute(query).yield_per(_AT_ONCE), key=itemgetter(0)):
        rows = list(group)
        _check_types(rows)
        _, device, digests, verdicts, marked, seconds, gpu_seconds, *_ = zip(*rows, strict=True)
        line = Line([known[which] for which in device], digests, verdicts, marked, seconds, gpu_seconds)
        found.append((_trend(*tests[number], line, past), line, rows if details else []))
    return found


def _check_types(rows: Sequence[Sequence[Any]]) -> None:
    """SQLite keeps what it is given, whatever a column's type. Raises ValueError for what no document may hold."""
    for column, values in zip((*_COLUMNS, *_DETAILS), zip(*rows, strict=True), strict=False):
        if not {type(value) for value in values} <= _TYPES.get(column, _NUMBERS):
            raise ValueError(f"its column {column} holds what tapml did not write")
        if column not in _TYPES and not all(math.isfinite(value) for value in values if value is not None):
            raise ValueError(f"its column {column} holds no number")


def _begin(connection: Connection, suite: str) -> int:
    """The time of the oldest run in the window."""
    query = sql.select(runs.c.at).where(runs.c.suite == suite).order_by(runs.c.at.desc()).offset(WINDOW - 1).limit(1)
    return connection.scalar(query) or 0


def _trend(test: Any, ends: Extremes, line: Line, past: Past) -> Trend:
    failing, passing = ends.first_of("failing"), ends.first_of("passing")
    since = _since(test, ends, line, past)
    flaky = sum(line.flaky)
    return {
        "test": test.test,
        "kernel": test.kernel,
        "device": test.family,
        "gpu": line.devices[-1].adapter,
        "state": line.state,
        "runs": len(line.verdicts),
        "last": {**line.devices[-1].moment(), "verdict": line.verdicts[-1], "kernel_digest": line.digests[-1]},
        "since": since,
        "new_failure": line.state == "failing" and passing is not None and passing <= since["at"],
        "first_failing": past.moment(test, failing),
        "first_passing": past.moment(test, passing),
        "flaky_runs": flaky,
        "flaky_rate": round(flaky / len(line.verdicts), 4),
        "seconds": times(line.seconds),
        "gpu_seconds": times(line.gpu_seconds),
        "versions": line.versions(),
    }


def _since(test: Any, ends: Extremes, line: Line, past: Past) -> ChangeMoment:
    """The run in which the present state began, and what was new in it."""
    at = line.streak
    before = past.beginning(test, ends, line.state) if at == 0 else None
    if before is not None and before < line.devices[0].at:
        # A run that is not looked at: what was new in it is not known.
        moment = past.moment(test, before) or line.devices[0].moment()
        return {**moment, "kernel_changed": False, "device_changed": False}
    return line.change(at)
