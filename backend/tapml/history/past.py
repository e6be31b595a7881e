"""What is older than the runs that trends look at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.history.line import STATES, RunDevice
from tapml.history.schema import devices, results, runs, series
from tapml.protocol.methods import Verdict
from tapml.results.history import Moment


@dataclass(frozen=True)
class Extremes:
    """First and last times of each verdict of a series, in all runs."""

    first: dict[Verdict, int]
    last: dict[Verdict, int]

    def first_of(self, state: str) -> int | None:
        return min((at for verdict, at in self.first.items() if STATES[verdict] == state), default=None)

    def last_of_others(self, state: str) -> int | None:
        return max((at for verdict, at in self.last.items() if STATES[verdict] != state), default=None)


def extremes(connection: Connection, chosen: Sequence[Any]) -> dict[int, tuple[Any, Extremes]]:
    """Series and their extremes; a few look-ups in an index each, however long the history is."""

    def extreme(function: Any, verdict: str) -> Any:
        query = sql.select(function(results.c.at))
        return query.where(results.c.series == series.c.id, results.c.verdict == verdict).scalar_subquery()

    columns = [extreme(function, verdict) for function in (sql.func.min, sql.func.max) for verdict in STATES]
    found = {}
    for row in connection.execute(sql.select(series, *columns).where(*chosen)):
        times = row[len(series.c) :]
        if not {type(at) for at in times} <= {int, type(None)} or not {type(value) for value in row[1:6]} <= {str}:
            raise ValueError("its series hold what tapml did not write")
        first, last = (
            {verdict: at for verdict, at in zip(STATES, half, strict=True) if at is not None}
            for half in (times[: len(STATES)], times[len(STATES) :])
        )
        found[row.id] = (row, Extremes(first, last))
    return found


class Past:
    """Devices of runs, by their number and by the time of the run."""

    def __init__(self, connection: Connection, suite: str) -> None:
        self._connection = connection
        self._suite = suite
        self._moments: dict[tuple[int, str, str], RunDevice] = {}

    def devices(self, condition: Any) -> dict[int, RunDevice]:
        """Devices in those runs of the suite for which `condition` holds."""
        query = (
            sql.select(devices.c.id, devices.c.name, devices.c.family, devices.c.gpu, devices.c.adapter)
            .add_columns(runs.c.at, runs.c.created, runs.c.uuid)
            .join(runs, devices.c.run == runs.c.id)
            .where(runs.c.suite == self._suite, condition)
        )
        found = {}
        for row in self._connection.execute(query):
            if not {type(value) for value in row} <= {str, int} or type(row.at) is not int:
                raise ValueError("its runs hold what tapml did not write")
            device = RunDevice(row.name, row.adapter, row.at, row.created, row.uuid)
            found[row.id] = self._moments[row.at, row.family, row.gpu] = device
        return found

    def moment(self, test: Any, at: int | None) -> Moment | None:
        """The run at this time, on the devices of a series."""
        if at is None:
            return None
        key = (at, test.family, test.gpu)
        if key not in self._moments:
            self.devices(runs.c.at == at)
        return self._moments[key].moment() if key in self._moments else None

    def beginning(self, test: Any, ends: Extremes, state: str) -> int | None:
        """When a state began that has not changed since the oldest run that is looked at."""
        others = ends.last_of_others(state)
        if others is None:
            return ends.first_of(state)
        query = sql.select(sql.func.min(results.c.at)).where(results.c.series == test.id, results.c.at > others)
        found: int | None = self._connection.scalar(query)
        return found
