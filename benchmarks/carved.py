"""The command of a benchmark whose cases workers carve and validate.

A worker that dies or hangs is an outcome as well: the next case goes to a fresh one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pages import between, check_docs
from benchmarks.pool import COMPILER, Pool

Record = Mapping[str, Any]

COMPILERS = ("tvm", "native", "auto")


@dataclass(frozen=True)
class Benchmark:
    """`name` of its target in the Makefile; `worker`: the module that a worker runs; `seconds` until a case hangs."""

    name: str
    description: str | None
    cases: Callable[[], Sequence[str]]
    worker: str
    seconds: float
    facts: Callable[[str], dict[str, Any]]
    """What stands in a record besides, by the case's name."""
    said: Callable[[Sequence[Record]], None]
    """For the terminal."""
    table: Callable[[Sequence[Record]], str]
    """In Markdown."""
    devices: str = "node-dawn"
    processes: int = 2
    current: Callable[[Record], bool] = lambda record: True
    """Whether a record of before is of the code that runs now: others are made again."""
    compilers: Sequence[str] = ()
    """What `--compiler` may be, the default first; none where workers do not ask (`benchmarks.workers.compilers`)."""

    def main(self) -> int:
        """Exit code 1 where a case shows a fault of tapml's."""
        options = self._options()
        names = [name for name in self.cases() if re.search(options.only, name)]
        if not names:
            raise SystemExit(f"no case has a name like {options.only!r}")
        devices = [name for name in options.devices.split(",") if name]
        options.records.parent.mkdir(parents=True, exist_ok=True)
        kept = _records(options.records, names) if options.resume else {}
        found = {name: record for name, record in kept.items() if self._current(record, options)}
        if others := [name for name in kept if name not in found]:
            of = "other code or another compiler" if self.compilers else "other code"
            print(f"made again, for their records are of {of}: {', '.join(others)}", file=sys.stderr)
        waiting = [name for name in names if name not in found]
        chosen = {"compiler": options.compiler} if self.compilers else {}
        if chosen:
            os.environ[COMPILER] = options.compiler
        pool = Pool(
            waiting,
            devices,
            options.processes,
            options.seconds,
            self.worker,
            lambda name: {**self.facts(name), **chosen},
        )
        with options.records.open("a" if options.resume else "w") as file, contextlib.closing(pool.run()) as ran:
            for record in ran:
                found[record["name"]] = record
                file.write(json.dumps(record) + "\n")
                file.flush()
                told = "" if outcome(record) == "right" else f": {record['name']}: {outcome(record)}\n"
                print(f"\r{len(found)} of {len(names)}{told}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        records = [found[name] for name in names]
        self.said(records)
        if options.docs:
            between(options.docs, self._mark, self.table(records))
        return 1 if any(map(broken, records)) else 0

    def _current(self, record: Record, options: argparse.Namespace) -> bool:
        of_compiler = not self.compilers or record.get("compiler", self.compilers[0]) == options.compiler
        return of_compiler and self.current(record)

    @property
    def _mark(self) -> str:
        return f"made by make {self.name}"

    def _options(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add = parser.add_argument
        add("--only", default="", metavar="REGEX", help="cases whose name it is found in")
        add("--devices", default=self.devices, help=f"comma-separated; empty for none (default {self.devices})")
        add("--processes", type=int, default=self.processes)
        add("--seconds", type=float, default=self.seconds, help=f"what takes longer hangs (default {self.seconds:g})")
        add("--records", type=Path, default=Path("build") / f"{self.name}.jsonl")
        add("--resume", action="store_true", help="keep the records of a run that was interrupted, and do the rest")
        if self.compilers:
            add("--compiler", choices=self.compilers, default=self.compilers[0], help="as of `tapml carve`")
        add("--docs", type=Path, help="page whose generated part is written anew")
        options = parser.parse_args()
        check_docs(parser, options.docs, self._mark)
        return options


def _records(path: Path, names: Sequence[str]) -> dict[str, Record]:
    """Of `names`, by name; a line that an interrupted run left unfinished is none."""
    found: dict[str, Record] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["name"] in names:
            found[record["name"]] = record
    return found


def broken(record: Record) -> bool:
    """Whether a case shows a fault of tapml's: wrong and not noticed, or no sentence."""
    return outcome(record) not in ("right", "no kernel", "refused") and not record.get("noticed")


def outcome(record: Record) -> str:
    """Right is what is right on the reference and passes on every device, or needs a feature that it lacks."""
    found = str(record["outcome"])
    if found != "right":
        return found
    lines = said_by_devices(record)
    if any(not line.startswith("unsupported") for line in lines) or built_wrong(record):
        return "wrong"
    return "no kernel" if any("needs the feature" not in line for line in lines) else "right"


def built_wrong(record: Record) -> list[str]:
    """What the built model gives otherwise than was carved, each with where. One that cannot be built, or needs what a
    device lacks, gives nothing."""
    found = record.get("built", {}).items()
    return [f"built, on {where}: {why}" for where, why in found if why and where != "build" and not _lacks(why)]


def built(record: Record) -> str:
    """Where the model that is built gives what was carved: "cpu, node-dawn"; why it is not built."""
    found = record.get("built", {})
    return found.get("build") or ", ".join(where for where, why in found.items() if not why)


def _lacks(why: str) -> bool:
    return why.startswith("unsupported")


def said_by_devices(record: Record) -> list[str]:
    """What all devices say alike is said once."""
    return list(dict.fromkeys(line for lines in record["verdicts"].values() for line in lines))
