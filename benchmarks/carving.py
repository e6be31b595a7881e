"""What a carve costs, as ratios: its time to that of compiling its kernels, its memory to weights and activations.

Each model is carved in a process of its own with an empty cache of kernels (`make bench-carving`). Time is that of the
whole carve: import, oracle, reference run, kernels, tolerances, writing. Memory is the most that the process held at
once, less what it holds before it reads the model (Python, TVM, ONNX Runtime: that is told as well); what a carve needs
at least are the model's weights and every value that one call of it computes. Prints one JSON line a model, exits with
1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks import carving_models

TIME = MEMORY = 3.0
_SLACK_SECONDS, _SLACK_MB, _KERNEL_MB = 5.0, 150.0, 3.0
"""For what does not grow with a model's tensors, compilers and what they make: a target counts beyond these."""


def measure(model: str, inputs: str) -> dict[str, object]:
    """In a process of its own."""
    import onnxruntime

    from tapml.carving.carve import carve
    from tapml.importing import import_model
    from tapml.suite.suite import TensorRef

    assert onnxruntime  # part of what the process holds before it begins
    process = psutil.Process()
    before = process.memory_info().rss
    watch = _Watch(process)
    started = time.perf_counter()
    given = {"input_files": [Path(inputs)]} if inputs else {"random_inputs": model != "minilm"}
    imported = import_model(model, **given)  # type: ignore[arg-type]
    seconds = {"import": time.perf_counter() - started}
    after_import = watch.peak()
    with tempfile.TemporaryDirectory() as folder:
        suite = carve(imported, Path(folder) / "x.suite", name="x")
        total = time.perf_counter() - started
        peak = watch.peak()
        seconds |= suite.manifest["seconds"]
        graph = suite.model_graph
        weights = sum(TensorRef.from_json(ref).type.nbytes for ref in suite.manifest["parameters"].values())
        values = sum(value.type.nbytes for value in graph.values.values()) - weights
        kernels = len(suite.kernels)
    return {
        "name": Path(model).stem, "kernels": kernels, "seconds": round(total, 1),
        "time": round(total / seconds["kernels"], 2), "memory": round((peak - before) / (weights + values), 2),
        "weights_mb": round(weights / 1e6, 1), "activations_mb": round(values / 1e6, 1),
        "before_mb": round(before / 1e6, 1), "import_mb": round((after_import - before) / 1e6, 1),
        "peak_mb": round((peak - before) / 1e6, 1),
        "phases": {name: round(value, 2) for name, value in seconds.items()},
    }  # fmt: skip


class _Watch:
    """The most resident memory so far, of the process alone: what compiles beside it is a fork, which shares most."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._peak = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._peak = max(self._peak, self._process.memory_info().rss)
            time.sleep(0.005)

    def peak(self) -> int:
        return max(self._peak, self._process.memory_info().rss)


def missed(found: dict[str, object]) -> list[str]:
    """Targets that a model misses."""
    seconds, kernels = float(str(found["seconds"])), float(str(found["kernels"]))
    needed = float(str(found["weights_mb"])) + float(str(found["activations_mb"]))
    limits = {
        "time": (seconds, TIME * seconds / float(str(found["time"])) + _SLACK_SECONDS),
        "memory": (float(str(found["peak_mb"])), MEMORY * needed + _SLACK_MB + _KERNEL_MB * kernels),
    }
    return [name for name, (value, most) in limits.items() if value > most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL[=INPUTS.npz]", help="default: some that are made here")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)), flush=True)
        return 0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        models = options.models or carving_models.made(Path(folder))
        for model in models:
            path, _, inputs = model.partition("=")
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
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
