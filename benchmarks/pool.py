"""Worker processes of benchmarks: they answer each line that they are given with one, and may die or hang."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
START_SECONDS = 120.0

COMPILER = "TAPML_BENCHMARK_COMPILER"
"""The variable that says to workers whose kernels a case is carved with; all that are started later inherit it."""


class Pool:
    """Worker processes, each with a watchdog."""

    def __init__(
        self,
        names: Sequence[str],
        devices: Sequence[str],
        processes: int,
        seconds: float,
        module: str,
        facts: Callable[[str], dict[str, Any]],
    ) -> None:
        """`module`: what a worker runs; `facts`: what stands in a record besides, by its name."""
        self._waiting = list(reversed(names))
        self._devices = list(devices)
        self._processes = processes
        self._seconds = seconds
        self._module, self._facts = module, facts
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._records: list[dict[str, Any]] = []
        self._driving = processes

    def run(self) -> Generator[dict[str, Any]]:
        """The records, as they come. Closed before its end it gives no more cases to workers."""
        with ThreadPoolExecutor(self._processes) as threads:
            driven = [threads.submit(self._drive) for _ in range(self._processes)]
            try:
                while records := self._take():
                    yield from records
            finally:
                # Interrupted: what is under way ends, and nothing is begun.
                with self._lock:
                    self._waiting.clear()
            for ended in driven:
                ended.result()

    def _take(self) -> list[dict[str, Any]]:
        """What came since the last time, once something has; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._records or not self._driving)
            records, self._records = self._records, []
        return records

    def _drive(self) -> None:
        worker = None
        try:
            while (name := self._next()) is not None:
                worker = worker or self._start()
                began = time.monotonic()
                line = ask(worker, name, self._seconds)
                if line:
                    self._put(json.loads(line))
                    continue
                waited = time.monotonic() - began
                outcome = "hang" if waited >= self._seconds else "abort"
                worker.kill()
                worker.communicate()
                self._put(
                    {"name": name, "seconds": waited, "outcome": outcome, "why": f"ended with {worker.returncode}"}
                )
                worker = None
        finally:
            if worker is not None:
                worker.communicate()
            with self._changed:
                self._driving -= 1
                self._changed.notify()

    def _next(self) -> str | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _put(self, record: dict[str, Any]) -> None:
        with self._changed:
            self._records.append({**self._facts(record["name"]), **record})
            self._changed.notify()

    def _start(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", self._module, *self._devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=CHECKOUT,
            env=environment(),
        )
        if read_line(worker, START_SECONDS) != "ready\n":
            raise SystemExit(f"a worker did not start: try {' '.join(map(str, worker.args))}")  # type: ignore[arg-type]
        return worker


def environment() -> dict[str, str]:
    """A child's: it imports this checkout before all else, and whatever is on this process's PYTHONPATH after it."""
    folders = (f"{CHECKOUT}/backend", str(CHECKOUT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def ask(worker: subprocess.Popen[str], name: str, seconds: float) -> str:
    """The worker's answer; empty where it takes longer, or has ended."""
    assert worker.stdin
    try:
        worker.stdin.write(name + "\n")
        worker.stdin.flush()
    except OSError:
        return ""
    return read_line(worker, seconds)


def read_line(worker: subprocess.Popen[str], seconds: float) -> str:
    """One line of its answers; empty where it takes longer, or has ended."""
    assert worker.stdout
    ready, _, _ = select.select([worker.stdout], [], [], seconds)
    return worker.stdout.readline() if ready else ""
