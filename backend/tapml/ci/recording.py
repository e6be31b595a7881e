"""A run's verdicts for the history: one record a test, whatever its retries."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tapml.history import Recorder
from tapml.validation.operatorwise import FORMAT
from tapml.validation.results import header

if TYPE_CHECKING:
    from tapml.ci.run import CiRun


def record(run: CiRun, history: Recorder) -> list[str]:
    """Record what was run so far; gives what went wrong, as sentences."""
    problems = []
    devices = [entry.device for entry in run.devices if entry.device is not None]
    for planned in run.planned:
        tests = [
            {**attempts[-1], "attempts": [str(attempt["verdict"]) for attempt in attempts] if attempts[1:] else []}
            for (suite, _, _), attempts in run.attempts.items()
            if suite == planned.id
        ]
        edited = run.edited[planned.id]
        document = {
            **header(FORMAT, planned.suite, devices, interrupted=run.interrupted, edited=edited),
            "run": uuid.uuid4().hex,
            "kernel_digests": run.digests[planned.id],
            "tests": tests,
        }
        if tests and (problem := history.keep(planned.suite, document)):
            problems.append(problem)
    return list(dict.fromkeys(problems))
