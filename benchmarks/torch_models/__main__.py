"""Carve and validate tiny transformers and blocks that torch.export writes (`make bench-torch`).

Each is exported with random weights, imported, carved, compared with PyTorch, and validated on devices. The records are
kept in build/bench-torch.jsonl.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.carved import COMPILERS, Benchmark, Record, built, built_wrong, outcome, said_by_devices
from benchmarks.torch_models.cases import names


def _show(records: Sequence[Record]) -> None:
    for record in records:
        if (told := outcome(record)) != "right" or _why(record):
            print(f"{record['name']}: {told} {_why(record)}")
    print(", ".join(f"{count} {name}" for name, count in Counter(map(outcome, records)).items()))


def _table(records: Sequence[Record]) -> str:
    lines = ["| model | kernels | calls | outcome | built, as carved on |", "| --- | --- | --- | --- | --- |"]
    for record in records:
        why = _why(record).replace("|", "\\|")
        # What WGSL promises nothing for is no fault of the import's.
        told = why if why.startswith("unbounded") else f"{outcome(record)}: {why}" if why else outcome(record)
        counts = [record.get("kernels") or "", record.get("calls") or ""]
        cells = [record["name"], *counts, told, built(record).replace("|", "\\|")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _why(record: Record) -> str:
    if record["outcome"] in ("right", "wrong"):
        return "; ".join(filter(None, (record["why"], *said_by_devices(record), *built_wrong(record))))[:300]
    return str(record["why"]).strip().splitlines()[-1][:300]


BENCHMARK = Benchmark(
    name="bench-torch",
    description=__doc__,
    cases=names,
    worker="benchmarks.torch_models.worker",
    seconds=300.0,
    facts=lambda name: {},
    said=_show,
    table=_table,
    compilers=COMPILERS,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
