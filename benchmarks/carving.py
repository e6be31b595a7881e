"""What a carve costs, as ratios: its time to that of compiling its kernels, its memory to weights and activations.

Each model is carved in a process of its own with an empty cache of kernels (`make bench-carving`), after a small model
(7 kB, with an operator of each kind that models have, on one point of an image, too), so that what libraries take once
(TVM with its theorem prover, LLVM, ONNX, ONNX Runtime) is neither counted nor guessed at.

- `time`: processor seconds of the whole carve (import, oracle, reference runs, kernels, tolerances, writing) to those
  of its compilers, in this process and the one that compiles beside it. `wall` is the same of a clock, by which
  compiling has two processors and most else has one: on a machine that has other work it says nothing. `seconds` and
  `clock` are what these are ratios of.
- `memory`: the most that the process held at once (the kernel's count of resident memory, VmHWM) less what it held
  before, to the bytes of the model's weights and of every value that one call of it computes. The second process, which
  compiles every other kernel, is a copy of this one and shares its memory but for what it writes to, some 50 MB of any
  model, which are not in it.

Prints one JSON line a model; exits with 1 where a model of 10 MB and more, weights and activations together, takes more
than three times of either. `--docs` writes the table of docs/carve.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import carving_models
from benchmarks.onnx_models.fetch import model_file
from benchmarks.onnx_models.models import MODELS
from benchmarks.pages import between, check_docs
from tapml.carving.carve import carve
from tapml.compilers.base import Compiler
from tapml.compilers.choose import COMPILERS
from tapml.importing import import_model
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.memory import give_back
from tapml.suite import Suite
from tapml.suite.suite import TensorRef

MOST = 3.0
FROM_MB = 10.0

_MARK = "made by make bench-carving"

REAL = ("ppocr-v4-rec", "nudenet", "ddddocr-det", "ddddocr")
"""Of benchmarks/onnx_models: what has 10 MB and more."""


class _Timed:
    """A compiler, and how long it took: by the processor, by the clock."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self.name, self.version = compiler.name, compiler.version
        self.seconds = np.zeros(2)

    def compile(
        self,
        operators: Sequence[Operator],
        variants: Sequence[str] = (),
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, CompiledKernel]:
        before = _now()
        found = self._compiler.compile(operators, variants, progress)
        self.seconds += _now() - before
        return found


def _now() -> np.ndarray:
    used = psutil.Process().cpu_times()
    return np.array(
        [used.user + used.system + used.children_user + used.children_system, time.perf_counter()], np.float64
    )


def measure(model: str, inputs: str) -> dict[str, Any]:
    """In a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        small = carving_models.small(Path(folder) / "small.onnx")
        carve(import_model(small, random_inputs=True), Path(folder) / "small.suite", name="small")
        give_back()
        before, began = _resident("VmRSS"), _now()
        with contextlib.suppress(OSError):  # else the peak counts from the process's begin
            Path("/proc/self/clear_refs").write_text("5")
        given = {"input_files": [Path(inputs)]} if inputs else {"random_inputs": model != "minilm"}
        imported = import_model(model, **given)  # type: ignore[arg-type]
        import_mb = _resident("VmHWM") - before
        compilers = [_Timed(compiler) for compiler in COMPILERS]
        suite = carve(imported, Path(folder) / "x.suite", name="x", compilers=compilers)
        took, kernels = _now() - began, sum(compiler.seconds for compiler in compilers)
        return {
            "name": Path(model).stem, "kernels": len(suite.kernels), "calls": len(suite.model_graph.kernel_nodes),
            "time": round(float(took[0] / kernels[0]), 2), "wall": round(float(took[1] / kernels[1]), 2),
            "seconds": _seconds(took[0], kernels[0]), "clock": _seconds(took[1], kernels[1]),
            **_memory(suite, _resident("VmHWM") - before),
            "before_mb": round(before, 1), "import_mb": round(import_mb, 1),
            "phases": {name: round(value, 2) for name, value in suite.manifest["seconds"].items()},
        }  # fmt: skip


def _seconds(whole: float, kernels: float) -> dict[str, float]:
    return {"carve": round(float(whole), 2), "kernels": round(float(kernels), 2)}


def _memory(suite: Suite, peak_mb: float) -> dict[str, float]:
    weights = sum(TensorRef.from_json(ref).type.nbytes for ref in suite.manifest["parameters"].values())
    values = sum(value.type.nbytes for value in suite.model_graph.values.values()) - weights
    return {
        "memory": round(peak_mb * 1e6 / (weights + values), 2), "peak_mb": round(peak_mb, 1),
        "weights_mb": round(weights / 1e6, 1), "activations_mb": round(values / 1e6, 1),
    }  # fmt: skip


def _resident(field: str) -> float:
    """MB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024 / 1e6


def missed(found: dict[str, Any]) -> list[str]:
    """Targets that a model misses."""
    large = found["weights_mb"] + found["activations_mb"] >= FROM_MB
    return [name for name in ("time", "memory") if large and found[name] > MOST]


def _models(folder: Path, asked: Sequence[str]) -> list[tuple[str, str]]:
    """Files and their inputs: those that are asked for, or made ones and real ones."""
    real = {model.name: model for model in MODELS}
    found = []
    for name in asked or [*carving_models.made(folder), *REAL]:
        if name in real:
            inputs, kept = folder / f"{name}.npz", Path("build/onnx_models")
            kept.mkdir(parents=True, exist_ok=True)
            np.savez(inputs, **dict(real[name].inputs()))
            found.append((str(model_file(real[name], kept)), str(inputs)))
        else:
            path, _, given = name.partition("=")
            found.append((path, given))
    return found


_TITLES = {"nudenet": "nudenet (YOLOv8n)", "ddddocr-det": "ddddocr-det (YOLOX)",
           "ddddocr": "ddddocr (convolutions, two LSTMs)"}  # fmt: skip


def _table(records: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| model | kernels | calls | weights and activations | time | memory |", "| --- | --- | --- | --- | --- | --- |"
    ]  # fmt: skip
    for found in sorted(records, key=lambda found: found["weights_mb"] + found["activations_mb"]):
        size = found["weights_mb"] + found["activations_mb"]
        name = _TITLES.get(found["name"], found["name"])
        lines.append(
            f"| {name} | {found['kernels']} | {found['calls']} | {size:.0f} MB | {found['time']:.1f} | "
            f"{found['memory']:.1f} ({found['peak_mb']:.0f} MB) |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL[=INPUTS.npz]",
        help="files, or names of benchmarks/onnx_models (default: some that are made here, and some of those)",
    )  # fmt: skip
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    check_docs(parser, options.docs, _MARK)
    if options.measure:
        print(json.dumps(measure(*options.measure)), flush=True)
        return 0
    good, records = True, []
    with tempfile.TemporaryDirectory() as folder:
        for path, inputs in _models(Path(folder), options.models):
            with tempfile.TemporaryDirectory() as cache:
                ended = subprocess.run(
                    [sys.executable, "-W", "ignore", "-m", "benchmarks.carving", "--measure", path, inputs],
                    env={**os.environ, "TAPML_CACHE": cache}, stdout=subprocess.PIPE, text=True, check=False,
                )  # fmt: skip
            if ended.returncode:
                print(json.dumps({"name": Path(path).stem, "ok": False, "ended": ended.returncode}), flush=True)
                good = False
                continue
            found = json.loads(ended.stdout.splitlines()[-1])
            targets = missed(found)
            good = good and not targets
            print(json.dumps({**found, "missed": targets, "ok": not targets}), flush=True)
            records.append(found)
    if options.docs:
        between(options.docs, _MARK, _table(records))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
