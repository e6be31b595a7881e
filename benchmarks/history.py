"""How long a long history takes to ask and to add to (`make bench-history`).

500 runs of MiniLM's 101 tests on two devices. Targets: a suite's summary in 0.5 s, one test's line in 0.05 s, a run
recorded in 0.2 s. With an address (postgresql://...) in a database of that server, else in SQLite. Prints one JSON line
a measurement; exits with 1 where a target is missed.
"""

from __future__ import annotations

import datetime
import json
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tapml.carving.carve import carve
from tapml.history import open_history
from tapml.importing import import_model
from tapml.suite import CarvedTest, Suite

RUNS = 500
_missed: list[str] = []


def report(name: str, seconds: float, target: float, **more: object) -> None:
    good = seconds <= target
    if not good:
        _missed.append(name)
    print(json.dumps({"name": name, "seconds": round(seconds, 4), "target": target, "ok": good, **more}), flush=True)


def result(test: CarvedTest, device: str, luck: random.Random) -> dict[str, Any]:
    """One in a hundred fails; times vary."""
    bad = luck.random() < 0.01
    return {
        "id": test.id, "kernel": test.kernel, "device": device, "verdict": "fail" if bad else "pass",
        "max_abs_error": luck.random(), "max_rel_error": luck.random(), "max_ulp": luck.randrange(64),
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


def median_seconds(work: Callable[[], object], rounds: int = 7) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


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
        report("record a run", statistics.median(spent), 0.2, rows=rows)
        report("summary of a suite", median_seconds(history.trends), 0.5, rows=rows)
        report("line of a test", median_seconds(lambda: history.timeline(suite.tests[50].id)), 0.05, rows=rows)
    return 1 if _missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
