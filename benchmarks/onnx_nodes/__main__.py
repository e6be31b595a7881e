"""Carve and validate the ONNX backend node tests, which come with the `onnx` package (`make bench-onnx`).

Each case is imported with its own inputs, carved, compared with the outputs that it expects, and validated on devices.
A worker that dies or hangs is an outcome as well: the next case goes to a fresh one. The records are kept in
build/onnx-nodes.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.onnx_nodes import table
from benchmarks.onnx_nodes.cases import cases

_CHECKOUT = Path(__file__).parents[2]
_START_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name it is found in")
    parser.add_argument("--devices", default="node-dawn", help="comma-separated; empty for none (default node-dawn)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="a case that takes longer hangs (default 60)")
    parser.add_argument("--records", type=Path, default=Path("build/onnx-nodes.jsonl"))
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    options = parser.parse_args()
    names = [name for name in cases() if re.search(options.only, name)]
    if not names:
        parser.error(f"no case has a name like {options.only!r}")
    devices = [name for name in options.devices.split(",") if name]
    options.records.parent.mkdir(parents=True, exist_ok=True)
    records = []
    with options.records.open("w") as file:
        for record in Pool(
            names, devices, options.processes, options.seconds, "benchmarks.onnx_nodes.worker", _facts
        ).run():
            records.append(record)
            file.write(json.dumps(record) + "\n")
            print(f"\r{len(records)} of {len(names)} cases", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    table.show(records)
    if options.docs:
        table.write(options.docs, records)
    return 1 if any(table.broken(record) for record in records) else 0


def _facts(name: str) -> dict[str, Any]:
    case = cases()[name]
    return {"operator": case.operator, "opset": case.opset}


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

    def run(self) -> Iterator[dict[str, Any]]:
        """The records, as they come."""
        with ThreadPoolExecutor(self._processes) as threads:
            driven = [threads.submit(self._drive) for _ in range(self._processes)]
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._records or not self._driving)
                    records, self._records = self._records, []
                if not records:
                    break
                yield from records
            for ended in driven:
                ended.result()

    def _drive(self) -> None:
        worker = None
        try:
            while (name := self._next()) is not None:
                worker = worker or self._start()
                began = time.monotonic()
                line = _ask(worker, name, self._seconds)
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
            self._records.append({**record, **self._facts(record["name"])})
            self._changed.notify()

    def _start(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", self._module, *self._devices],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=_CHECKOUT,
            env={**os.environ, "PYTHONPATH": f"{_CHECKOUT}/backend:{_CHECKOUT}"},
        )
        if _line(worker, _START_SECONDS) != "ready\n":
            raise SystemExit(f"a worker did not start: try {' '.join(map(str, worker.args))}")  # type: ignore[arg-type]
        return worker


def _ask(worker: subprocess.Popen[str], name: str, seconds: float) -> str:
    """The worker's answer; empty where it takes longer, or has ended."""
    assert worker.stdin
    try:
        worker.stdin.write(name + "\n")
        worker.stdin.flush()
    except OSError:
        return ""
    return _line(worker, seconds)


def _line(worker: subprocess.Popen[str], seconds: float) -> str:
    assert worker.stdout
    ready, _, _ = select.select([worker.stdout], [], [], seconds)
    return worker.stdout.readline() if ready else ""


if __name__ == "__main__":
    sys.exit(main())
