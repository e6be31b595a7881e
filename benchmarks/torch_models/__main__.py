"""Carve and validate tiny transformers and blocks that torch.export writes (`make bench-torch`).

Each is exported with random weights, imported, carved, compared with PyTorch, and validated on devices.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.onnx_nodes.table import broken, outcome
from benchmarks.torch_models.cases import names
from benchmarks.workers import Pool

_BEGIN, _END = "<!-- made by make bench-torch -->", "<!-- end -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name it is found in")
    parser.add_argument("--devices", default="node-dawn", help="comma-separated; empty for none (default node-dawn)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="what takes longer hangs (default 300)")
    parser.add_argument("--records", type=Path, default=Path("build/torch-models.jsonl"))
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    options = parser.parse_args()
    chosen = [name for name in names() if re.search(options.only, name)]
    if not chosen:
        parser.error(f"no model has a name like {options.only!r}")
    devices = [name for name in options.devices.split(",") if name]
    options.records.parent.mkdir(parents=True, exist_ok=True)
    pool = Pool(chosen, devices, options.processes, options.seconds, "benchmarks.torch_models.worker", lambda name: {})
    found: dict[str, dict[str, Any]] = {}
    with options.records.open("w") as file:
        for record in pool.run():
            found[record["name"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            print(f"{record['name']}: {outcome(record)} {_why(record)}", file=sys.stderr, flush=True)
    records = [found[name] for name in chosen]
    print(", ".join(f"{count} {name}" for name, count in Counter(map(outcome, records)).items()))
    if options.docs:
        _write(options.docs, records)
    return 1 if any(broken(record) for record in records) else 0


def _why(record: dict[str, Any]) -> str:
    if record["outcome"] in ("right", "wrong"):
        lines = dict.fromkeys(line for found in record["verdicts"].values() for line in found)
        return "; ".join(filter(None, (record["why"], *lines)))[:300]
    return str(record["why"]).strip().splitlines()[-1][:300]


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    text = path.read_text()
    before, _, rest = text.partition(_BEGIN)
    lines = ["| model | kernels | calls | outcome |", "| --- | --- | --- | --- |"]
    for record in records:
        why = _why(record).replace("|", "\\|")
        # What WGSL promises nothing for is no fault of the import's.
        told = why if why.startswith("unbounded") else f"{outcome(record)}: {why}" if why else outcome(record)
        lines.append(f"| {record['name']} | {record.get('kernels') or ''} | {record.get('calls') or ''} | {told} |")
    path.write_text(f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    sys.exit(main())
