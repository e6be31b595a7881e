"""Processes that read fuzzed documents, with a watchdog each; and what they found, summed up."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.pool import CHECKOUT, START_SECONDS, ask, environment, read_line

_HANG_SECONDS = 10.0


class Causes(dict[str, tuple[int, str]]):
    """What broke, by its last line and place: how often, and where the first is kept."""

    def note(self, what: str, kept: str) -> None:
        count, first = self.get(what, (0, kept))
        self[what] = (count + 1, first)

    def most_common(self) -> list[tuple[str, tuple[int, str]]]:
        return sorted(self.items(), key=lambda item: -item[1][0])


@dataclass
class Sums:
    """Of one format."""

    documents: int = 0
    refused: int = 0
    tracebacks: int = 0
    errors_500: int = 0
    hangs: int = 0
    megabytes: float = 0.0
    large: int = 0
    escapes: int = 0
    seconds: float = 0.0
    causes: Causes = field(default_factory=Causes)

    @property
    def broken(self) -> bool:
        return bool(self.tracebacks or self.errors_500 or self.hangs or self.large or self.escapes)

    def note(self, found: dict[str, Any], most_megabytes: float = 512.0) -> None:
        """One case's outcome."""
        self.documents += 1
        self.refused += bool(found["refused"])
        self.tracebacks += bool(found["tracebacks"])
        self.errors_500 += bool(found["500s"])
        self.hangs += bool(found.get("hang")) or found["seconds"] > _HANG_SECONDS
        self.escapes += bool(found["escapes"])
        self.megabytes = max(self.megabytes, found["MB"])
        self.seconds = max(self.seconds, found["seconds"])
        kept = str(found.get("kept", ""))
        for text in [*found["tracebacks"], *found["500s"]]:
            self.causes.note(_cause(text), kept)
        for text in found["escapes"]:
            self.causes.note(text[:200], kept)
        if found.get("hang"):
            self.causes.note(found["hang"], kept)
        if found["MB"] > most_megabytes:
            self.large += 1
            self.causes.note(f"more than {most_megabytes:.0f} MB", kept)

    def add(self, other: Sums) -> None:
        for name in ("documents", "refused", "tracebacks", "errors_500", "hangs", "large", "escapes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.megabytes, self.seconds = max(self.megabytes, other.megabytes), max(self.seconds, other.seconds)

    def cells(self) -> list[str]:
        accepted = self.documents - self.refused
        numbers = [self.documents, self.refused, accepted, self.tracebacks, self.errors_500, self.hangs]
        return [*map(str, numbers), f"{self.megabytes:.0f}", str(self.escapes), f"{self.seconds:.1f}"]


def _cause(text: str) -> str:
    """The exception, and the last place in tapml before it."""
    lines = [line.strip() for line in text.strip().splitlines()]
    places = [line for line in lines if line.startswith("File ") and "tapml" in line]
    place = places[-1].split("tapml/")[-1] if places else lines[0][:100]
    return f"{lines[-1][:160]} ({place})"


def cases(count: int, first: int, only: Sequence[str] | None = None) -> Iterator[tuple[str, int]]:
    """(format, seed), each format by its share."""
    from benchmarks.hostile.shares import SHARES

    shares = {name: share for name, share in SHARES.items() if only is None or name in only}
    if not shares:
        raise SystemExit(f"no such format: choose one of {', '.join(SHARES)}")
    total = sum(shares.values())
    done = 0
    for number, (name, share) in enumerate(shares.items()):
        wanted = count - done if number == len(shares) - 1 else max(1, round(count * share / total))
        done += wanted
        yield from ((name, first + seed) for seed in range(wanted))


def run(
    good: Path, work: Path, kept: Path, count: int, first: int, only: Sequence[str] | None, processes: int
) -> dict[str, Sums]:
    """All cases, dealt out to so many processes.

    What takes long by the clock and not by the processor may have waited for others: it runs again, alone, before it is
    said to hang.
    """
    work.mkdir()
    shutil.rmtree(kept, ignore_errors=True)
    waiting = list(cases(count, first, only))
    sums: dict[str, Sums] = {name: Sums() for name, _ in waiting}
    # Slow formats do not all come last.
    waiting = [waiting[i] for start in range(97) for i in range(start, len(waiting), 97)][::-1]
    lock = threading.Lock()

    suspects: list[dict[str, Any]] = []

    def note(found: dict[str, Any]) -> None:
        with lock:
            if found["waited"] > _HANG_SECONDS >= found["seconds"]:
                suspects.append(found)
            else:
                sums[found["format"]].note(found)

    def note_alone(found: dict[str, Any]) -> None:
        sums[found["format"]].note({**found, "seconds": max(found["seconds"], found["waited"])})

    def next_case() -> tuple[str, int] | None:
        with lock:
            return waiting.pop() if waiting else None

    with ThreadPoolExecutor(processes) as threads:
        driven = [
            threads.submit(_drive, good.resolve(), work / str(number), kept.resolve(), next_case, note)
            for number in range(processes)
        ]
    for ended in driven:
        ended.result()
    for found in suspects:
        shutil.rmtree(found.get("kept", ""), ignore_errors=True)
    again = [(found["format"], found["seed"]) for found in suspects]
    _drive(good.resolve(), work / "alone", kept.resolve(), lambda: again.pop() if again else None, note_alone)
    return sums


def _drive(good: Path, root: Path, kept: Path, next_case: Any, note: Any) -> None:
    """One process after the other: where one hangs or dies, the next goes on."""
    started = 0
    process = None
    while (case := next_case()) is not None:
        if process is None:
            process, started = _start(good, root / str(started), kept), started + 1
        name, seed = case
        began, used = time.monotonic(), _processor_seconds(process)
        line = ask(process, json.dumps(case), 2 * _HANG_SECONDS)
        if line:
            note(json.loads(line))
            continue
        waited, seconds = time.monotonic() - began, _processor_seconds(process) - used
        hang = f"no end after {waited:.0f} s, {seconds:.0f} s of them on a processor"
        if waited < 2 * _HANG_SECONDS:
            hang = f"the process died ({process.wait()})"
        process.kill()
        process.communicate()
        place = kept / f"hang-{name.replace('/', '-').replace('*', '_').replace(' ', '-')}-{seed}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "found.txt").write_text(
            f"{hang}: --format '{name}' --first {seed} --documents 1\n" + _tail(root, started - 1)
        )
        note(
            {
                "format": name,
                "seed": seed,
                "refused": False,
                "tracebacks": [],
                "500s": [],
                "escapes": [],
                "MB": 0.0,
                "seconds": seconds,
                "waited": waited,
                "hang": hang,
                "kept": str(place),
            }
        )
        process = None
    if process is not None:
        process.communicate()


def _processor_seconds(process: subprocess.Popen[str]) -> float:
    """Of all its threads; zero once it is gone."""
    try:
        times = psutil.Process(process.pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _tail(root: Path, number: int) -> str:
    path = root.parent / f"{root.name}-{number}.log"
    return path.read_text(errors="replace")[-5000:] if path.exists() else ""


def _start(good: Path, root: Path, kept: Path) -> subprocess.Popen[str]:
    root.mkdir(parents=True)
    log = root.parent.parent / f"{root.parent.name}-{root.name}.log"
    variables = {**environment(), "PYTHONFAULTHANDLER": "1"}
    # Its cache is the user's: what lies there is trusted, and reading it is no escape.
    variables.setdefault("TAPML_CACHE", str(Path.home() / ".cache" / "tapml"))
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hostile.worker", str(good), str(root), str(kept)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=CHECKOUT,
            env=variables,
        )
    if read_line(process, START_SECONDS) != "ready\n":
        raise SystemExit(f"a worker did not start: {log.read_text()[-3000:]}")
    return process
