"""Generate with tiny decoders of transformers, and compare each token with its own (`make bench-decoders`).

Each is imported from its configuration with random weights, carved, validated on devices, built, and run for a prompt
of 11 tokens and 48 tokens after it, on this machine and on the devices. The records are kept in
build/bench-decoders.jsonl.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.carved import Benchmark, Record, outcome, said_by_devices
from benchmarks.decoders.configurations import CONFIGURATIONS


def _show(records: Sequence[Record]) -> None:
    for record in records:
        if outcome(record) != "right":
            print(f"{record['name']}: {outcome(record)} {_why(record)}")
    print(", ".join(f"{count} {name}" for name, count in Counter(map(outcome, records)).items()))


def _table(records: Sequence[Record]) -> str:
    lines = [
        "| configuration | kernels | tests | tokens as transformers' | different ones | outcome |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for record in records:
        why = _why(record).replace("|", "\\|")
        equal = ", ".join(f"{where} {count}" for where, count in record.get("tokens", {}).items())
        counts = [record.get("kernels") or "", record.get("calls") or "", equal, record.get("distinct") or ""]
        told = f"{outcome(record)}: {why}" if why else outcome(record)
        lines.append(f"| {' | '.join(map(str, (record['name'], *counts, told)))} |")
    return "\n".join(lines)


def _why(record: Record) -> str:
    if record["outcome"] in ("right", "wrong"):
        return "; ".join(filter(None, (record["why"], *said_by_devices(record))))[:300]
    return str(record["why"]).strip().splitlines()[-1][:300]


BENCHMARK = Benchmark(
    name="bench-decoders",
    description=__doc__,
    cases=lambda: [*CONFIGURATIONS],
    worker="benchmarks.decoders.worker",
    seconds=300.0,
    facts=lambda name: {},
    said=_show,
    table=_table,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
