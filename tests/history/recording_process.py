"""What a process of its own does in test_history_record.py."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier
from pathlib import Path

from history_documents import document, result

from tapml.history import open_history
from tapml.suite import Suite


def record_runs(path: Path, url: str, first: int, count: int, start: Barrier) -> None:
    suite = Suite(path)
    history = open_history(suite, url)
    start.wait(60)
    for day in range(first, first + count):
        history.record(document(suite, day, [result(), result("n001.s0")]), source="validate")
