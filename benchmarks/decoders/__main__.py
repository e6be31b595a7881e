"""`tapml zoo` with several workers and kept records (`make bench-decoders`).

Each is imported from its configuration with random weights, carved, validated on devices, built, and run for a prompt
of 11 tokens and 64 tokens after it, on this machine and on the devices. The records are kept in
build/bench-decoders.jsonl, each with a digest of tapml's files: --resume makes those of other code again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from benchmarks.carved import COMPILERS, Benchmark, Record, outcome
from tapml.zoo.code import code, of_this_code
from tapml.zoo.configurations import CONFIGURATIONS
from tapml.zoo.table import table, why


def _show(records: Sequence[Record]) -> None:
    for record in records:
        if outcome(record) != "right":
            print(f"{record['name']}: {outcome(record)} {why(record)}")
    print(", ".join(f"{count} {name}" for name, count in Counter(map(outcome, records)).items()))


BENCHMARK = Benchmark(
    name="bench-decoders",
    description=__doc__,
    cases=lambda: [*CONFIGURATIONS],
    worker="benchmarks.decoders.worker",
    seconds=300.0,
    # Of a worker that died, too.
    facts=lambda name: {"codes": [code()]},
    current=of_this_code,
    said=_show,
    table=table,
    compilers=COMPILERS,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
