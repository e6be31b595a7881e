"""20,000 fuzzed documents over all formats that tapml reads, in some minutes (`make bench-hostile`).

Real good documents are mutated by their structure and read by the functions behind command and server, in processes
that are watched. Counted, and a failure of the benchmark: a traceback (any exception that is no TapmlError), HTTP 500,
more than 10 s of processor time or, alone on the machine, by the clock, more than 512 MB above the process's own size,
a file outside of the suite that is read, written or removed, code that runs. A small share goes through the real
command. What failed is kept in build/hostile, with the seed that makes it again:

    python -m benchmarks.hostile --format tests.json --first 1234 --documents 1
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.hostile.pool import Sums, run
from benchmarks.hostile.through_command import through_command

_KEPT = Path("build/hostile")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first document (default 0)")
    parser.add_argument("--format", help="only this one, as the table names it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--commands", type=int, default=40, help="documents that go through the real command, too")
    parser.add_argument("--quick", action="store_true", help="good documents without a real device")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tapml-hostile-") as name:
        folder = Path(name)
        good = folder / "good"
        good.mkdir()
        from benchmarks.hostile.good import make

        make(good, real=not options.quick)
        made = time.perf_counter() - started
        only = (options.format,) if options.format else None
        sums = run(good, folder / "work", _KEPT, options.documents, options.first, only, options.processes)
        if options.commands and not options.format:
            sums["real command"] = through_command(good, folder / "command", _KEPT, options.commands, options.first)
    show(sums)
    print(
        f"{sum(found.documents for found in sums.values())} documents, seeds from {options.first}, in "
        f"{time.perf_counter() - started:.0f} s ({made:.0f} s of it to make the good ones)"
    )
    broken = {name for name, found in sums.items() if found.broken}
    for name in sorted(broken):
        for what, (count, kept) in sums[name].causes.most_common():
            print(f"{name}: {count} times {what}\n    kept in {kept}")
    return 1 if broken else 0


def show(sums: dict[str, Sums]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in (
        "format",
        "documents",
        "refused",
        "accepted",
        "tracebacks",
        "500s",
        "hangs",
        "most MB",
        "escapes",
        "most s",
    ):
        table.add_column(column, justify="left" if column == "format" else "right")
    total = Sums()
    for name, found in sums.items():
        table.add_row(name, *found.cells())
        total.add(found)
    table.add_row("all", *total.cells())
    Console(width=140, markup=False).print(table)


if __name__ == "__main__":
    sys.exit(main())
