"""How long a long history takes to ask and to add to (`make bench-history`).

500 runs of MiniLM's 101 tests on two devices. Targets: a suite's summary in 0.5 s, one test's line in 0.05 s, a run
recorded in 0.2 s. With an address (postgresql://...) in a database of that server, else in SQLite. Prints one JSON line
a measurement; exits with 1 where a target is missed.
"""

from __future__ import annotations

import datetime
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measured import exit_code, median_seconds, report
from tapml.carving.carve import carve
from tapml.history import open_history
from tapml.importing import import_model
from tapml.suite import CarvedTest, Suite

RUNS = 500


def result(test: CarvedTest, device: str, luck: random.Random) -> dict[str, Any]:
    """One in a hundred fails; times vary."""
    bad = luck.random() < 0.01
    return {
        "id": test.id, "kernel": test.kernel, "device": device, "verdict": "fail" if bad else "pass",
        "max_abs_error": luck.random(), "max_rel_error": luck.random(), "max_ulp": luck.randrange(64),
        "worst": {"output": 0, "index": [7], "expected": 1.0, "got": 1.0 + luck.random(), "bound": 0.5},
        "tolerances": [],
        "mismatched": int(bad), "total": 384, "message": "1 of 384 elements differ" if bad else "", "variant": "256",
        "seconds": {"run": luck.random() / 100, "gpu": luck.random() / 1000},
    }  # fmt: skip


def document(suite: Suite, number: int, luck: random.Random) -> dict[str, Any]:
    """A run a day, a new browser each month, another kernel now and then."""
    created = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=number)
    names = [f"Chromium {130 + number // 30}", f"Firefox {120 + number // 30}"]
    adapter = {"vendor": "google", "architecture": "swiftshader", "device": "", "description": ""}
    devices = [{"id": name, "name": name, "user_agent": name, "adapter": adapter} for name in names]
    return {
        "run": uuid.uuid4().hex, "suite": suite.id, "suite_name": suite.name, "created": created.isoformat(),
        "devices": devices, "kernel_digests": {kernel: str(number // 50) for kernel in suite.kernels},
        "tests": [result(test, name, luck) for name in names for test in suite.tests],
    }  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    url = arguments[0] if arguments else None
    luck = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        suite = carve(import_model("minilm", texts=["A long history."]), Path(folder) / "minilm.suite", name="minilm")
        history = open_history(suite, url)
        spent = []
        for number in range(RUNS):
            run = document(suite, number, luck)
            started = time.perf_counter()
            history.record(run, source="validate")
            spent.append(time.perf_counter() - started)
        rows = RUNS * 2 * len(suite.tests)
        report("record a run", statistics.median(spent), "s", 0.2, rows=rows)
        report("summary of a suite", median_seconds(history.trends), "s", 0.5, rows=rows)
        report("line of a test", median_seconds(lambda: history.timeline(suite.tests[50].id)), "s", 0.05, rows=rows)
    return exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
