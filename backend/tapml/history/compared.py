"""Runs of a suite as sides of a comparison."""

from __future__ import annotations

import math
from typing import Any, cast

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from tapml.history import bound_shares
from tapml.history.schema import devices, results, runs, series
from tapml.protocol.methods import Verdict
from tapml.results.base import device_label
from tapml.results.comparison import ComparedOutcome, Outcomes, RunSide
from tapml.results.verdicts import VERDICTS

MOST_RUNS = 200
"""The newest, of which one can be chosen."""


def run_sides(connection: Connection, suite: str) -> list[tuple[int, RunSide]]:
    """Each device of each run, newest first, with the number that `outcomes` knows it by. Raises ValueError for rows
    that no tapml wrote."""
    count = (
        sql.select(sql.func.count())
        .where(results.c.device == devices.c.id, results.c.at == runs.c.at, results.c.series == series.c.id)
        .where(series.c.suite == suite)
        .scalar_subquery()
    )
    query = (
        sql.select(
            devices.c.id, devices.c.device, devices.c.name, devices.c.adapter, runs.c.uuid, runs.c.created, count
        )
        .join(runs, devices.c.run == runs.c.id)
        .where(runs.c.suite == suite)
        .order_by(runs.c.at.desc(), runs.c.id.desc(), devices.c.id)
        .limit(MOST_RUNS)
    )
    found: list[tuple[int, RunSide]] = []
    for row in connection.execute(query):
        number, device, name, adapter, run, created, tests = row
        if [type(value) for value in row] != [int, str, str, str, str, str, int]:
            raise ValueError("its runs hold what tapml did not write")
        side: RunSide = {
            "run": run,
            "device": device_label(device, name),
            "adapter": adapter,
            "created": created,
            "tests": tests,
        }
        found.append((number, side))
    return found


def outcomes(connection: Connection, suite: str, device: int) -> Outcomes:
    """Of every test of a run on one device, in the order of their names. Raises ValueError as `run_sides` does."""
    query = (
        sql.select(series.c.test, series.c.kernel, results.c.verdict, results.c.kernel_digest)
        .add_columns(results.c.max_abs_error, results.c.seconds, results.c.gpu_seconds)
        .join(series, results.c.series == series.c.id)
        .where(series.c.suite == suite, results.c.device == device)
        .order_by(series.c.test)
    )
    query = bound_shares.with_bound_share(query, connection)
    return {row[0]: (row[1], _outcome(row)) for row in connection.execute(query)}


def _outcome(row: Any) -> ComparedOutcome:
    test, kernel, verdict, digest, *numbers, share = row
    texts = {type(value) for value in (test, kernel, verdict, digest)} == {str}
    if not texts or verdict not in VERDICTS or not all(map(_is_number, numbers)):
        raise ValueError("its results hold what tapml did not write")
    return {
        "verdict": cast(Verdict, verdict),
        "kernel_digest": digest,
        "bound_share": bound_shares.checked(share),
        "max_abs_error": numbers[0],
        "seconds": numbers[1],
        "gpu_seconds": numbers[2],
    }


def _is_number(value: object) -> bool:
    return value is None or (type(value) in (int, float) and math.isfinite(cast(float, value)))
