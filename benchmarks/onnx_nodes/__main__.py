"""Carve and validate the ONNX backend node tests, which come with the `onnx` package (`make bench-onnx`).

Each case is imported with its own inputs, carved, compared with the outputs that it expects, and validated on devices.
A worker that dies or hangs is an outcome as well: the next case goes to a fresh one. The records are kept in
build/onnx-nodes.jsonl.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.onnx_nodes import table
from benchmarks.onnx_nodes.cases import cases
from benchmarks.workers import Pool


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


if __name__ == "__main__":
    sys.exit(main())
