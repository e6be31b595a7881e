"""What a carve costs, as ratios: its time to that of compiling its kernels, its memory to weights and activations.

Each model is carved in a process of its own with an empty cache of kernels (`make bench-carving`), after a small model
(7 kB, with an operator of each kind that models have, on one point of an image, too), so that what libraries take once
(TVM with its theorem prover, LLVM, ONNX, ONNX Runtime) is neither counted nor guessed at.

- `time`: processor seconds of the whole carve (import, oracle, reference runs, kernels, tolerances, writing), those of
  its second process among them, to those that compiling the same kernels takes by itself. That is measured in another
  process, in which nothing else is done meanwhile: a carve compiles beside its other work. `wall` is the same of a
  clock: on a machine that has other work it says nothing. `seconds` and `clock` are what these are ratios of.
- `memory`: the most that the process held at once (the kernel's count of resident memory, VmHWM) less what it held
  before, to the bytes of the model's weights and of every value that one call of it computes. The second process is a
  copy of this one and shares its memory but for what it writes to, which is not in it.

Prints one JSON line a model; exits with 1 where a model of 10 MB and more, weights and activations together, takes more
than three times of any of them. `--docs` writes the table of docs/carve.md.
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import carving_models
from benchmarks.onnx_models.fetch import model_file
from benchmarks.onnx_models.models import MODELS
from benchmarks.pages import between, check_docs
from tapml.carving.carve import carve
from tapml.carving.prepare import lowered_with_documents
from tapml.compilers.choose import compile_operators
from tapml.compilers.tvm.variants import BASE
from tapml.importing import ImportedModel, import_model
from tapml.memory import give_back
from tapml.suite import Suite
from tapml.suite.suite import TensorRef

MOST = 3.0
FROM_MB = 10.0

_MARK = "made by make bench-carving"

REAL = ("ppocr-v4-rec", "nudenet", "ddddocr-det", "ddddocr")
"""Of benchmarks/onnx_models: what has 10 MB and more."""


def _now() -> np.ndarray:
    used = psutil.Process().cpu_times()
    return np.array(
        [used.user + used.system + used.children_user + used.children_system, time.perf_counter()], np.float64
    )


def measure(what: str, model: str, inputs: str) -> dict[str, Any]:
    """In a process of its own: the "carve", or its "kernels" alone."""
    with tempfile.TemporaryDirectory() as folder:
        small = carving_models.small(Path(folder) / "small.onnx")
        carve(import_model(small, random_inputs=True), Path(folder) / "small.suite", name="small")
        give_back()
        given = {"input_files": [Path(inputs)]} if inputs else {"random_inputs": model != "minilm"}
        measured = partial(import_model, model, **given)  # type: ignore[arg-type]
        return _kernels(measured()) if what == "kernels" else _carve(measured, Path(folder) / "x.suite")


def _kernels(imported: ImportedModel) -> dict[str, Any]:
    lowered, _ = lowered_with_documents(imported)
    began = _now()
    compile_operators(lowered.operators, (BASE.name,))
    return {"took": [*(_now() - began)]}


def _carve(measured: Callable[[], ImportedModel], path: Path) -> dict[str, Any]:
    before, began = _resident("VmRSS"), _now()
    with contextlib.suppress(OSError):  # else the peak counts from the process's begin
        Path("/proc/self/clear_refs").write_text("5")
    imported = measured()
    import_mb = _resident("VmHWM") - before
    suite = carve(imported, path, name="x")
    took = _now() - began
    return {
        "took": [*took], "kernels": len(suite.kernels), "calls": len(suite.model_graph.kernel_nodes),
        **_memory(suite, _resident("VmHWM") - before),
        "before_mb": round(before, 1), "import_mb": round(import_mb, 1),
        "phases": {name: round(value, 2) for name, value in suite.manifest["seconds"].items()},
    }  # fmt: skip


def _measured(path: str, inputs: str) -> dict[str, Any] | int:
    """Of one model; the exit code where that ended so."""
    found = []
    for what in ("kernels", "carve"):
        with tempfile.TemporaryDirectory() as cache:
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "benchmarks.carving", "--measure", what, path, inputs],
                env={**os.environ, "TAPML_CACHE": cache}, stdout=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        if ended.returncode:
            return ended.returncode
        found.append(json.loads(ended.stdout.splitlines()[-1]))
    kernels, whole = (one.pop("took") for one in found)
    ratios = {
        "time": round(whole[0] / kernels[0], 2), "wall": round(whole[1] / kernels[1], 2),
        "seconds": _seconds(whole[0], kernels[0]), "clock": _seconds(whole[1], kernels[1]),
    }  # fmt: skip
    return {"name": Path(path).stem, **ratios, **found[1]}


def _seconds(whole: float, kernels: float) -> dict[str, float]:
    return {"carve": round(whole, 2), "kernels": round(kernels, 2)}


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
    return [name for name in ("time", "wall", "memory") if large and found[name] > MOST]


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
        "| model | kernels | calls | weights and activations | time | by the clock | memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in sorted(records, key=lambda found: found["weights_mb"] + found["activations_mb"]):
        size = found["weights_mb"] + found["activations_mb"]
        name = _TITLES.get(found["name"], found["name"])
        lines.append(
            f"| {name} | {found['kernels']} | {found['calls']} | {size:.0f} MB | {found['time']:.1f} | "
            f"{found['wall']:.1f} | {found['memory']:.1f} ({found['peak_mb']:.0f} MB) |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL[=INPUTS.npz]",
        help="files, or names of benchmarks/onnx_models (default: some that are made here, and some of those)",
    )  # fmt: skip
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    check_docs(parser, options.docs, _MARK)
    if options.measure:
        print(json.dumps(measure(*options.measure)), flush=True)
        return 0
    good, records = True, []
    with tempfile.TemporaryDirectory() as folder:
        for path, inputs in _models(Path(folder), options.models):
            found = _measured(path, inputs)
            if isinstance(found, int):
                print(json.dumps({"name": Path(path).stem, "ok": False, "ended": found}), flush=True)
                good = False
                continue
            targets = missed(found)
            good = good and not targets
            print(json.dumps({**found, "missed": targets, "ok": not targets}), flush=True)
            records.append(found)
    if options.docs:
        between(options.docs, _MARK, _table(records))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
