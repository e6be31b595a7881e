"""Carve and validate the ONNX backend node tests, which come with the `onnx` package (`make bench-onnx`).

Each case is imported with its own inputs, carved, compared with the outputs that it expects, and validated on devices.
The records are kept in build/bench-onnx.jsonl.
"""

from __future__ import annotations

import sys

from benchmarks.carved import COMPILERS, Benchmark
from benchmarks.onnx_nodes import table
from benchmarks.onnx_nodes.cases import cases, facts

BENCHMARK = Benchmark(
    name="bench-onnx",
    description=__doc__,
    cases=lambda: list(cases()),
    worker="benchmarks.onnx_nodes.worker",
    seconds=60.0,
    facts=facts,
    said=table.show,
    table=table.markdown,
    compilers=COMPILERS,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
