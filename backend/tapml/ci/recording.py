"""A run's verdicts for the history: one record a test, whatever its retries."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from tapml.history import Recorder
from tapml.results import DeviceDocument, TestResult
from tapml.results.validation import ValidationRun
from tapml.suite import Suite
from tapml.validation.results import header


def record(
    history: Recorder,
    suite: Suite,
    devices: Sequence[DeviceDocument],
    attempts: Mapping[tuple[str, str], Sequence[TestResult]],
    *,
    interrupted: bool,
    edited: Sequence[str],
    digests: dict[str, str],
) -> str | None:
    """Record what was run of a suite so far (`attempts`: by the ids of device and test); gives what went wrong, as a
    sentence."""
    document: ValidationRun = {
        "format": "tapml.validation/1",
        **header(suite, [], interrupted=interrupted, edited=edited),
        "devices": list(devices),
        "run": uuid.uuid4().hex,
        "kernel_digests": digests,
        "tests": [results[-1] for results in attempts.values()],
    }
    again = {place: [result["verdict"] for result in results] for place, results in attempts.items() if results[1:]}
    return history.keep(suite, document, again) if attempts else None
