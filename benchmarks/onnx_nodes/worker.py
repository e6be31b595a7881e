"""Carves cases that it is told on standard input, one name a line, and answers with a JSON line each."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_nodes.cases import Case, cases
from tapml.carving.carve import carve
from tapml.errors import TapmlError
from tapml.importing import import_model
from tapml.jobs.job import JobSpecification, run_job
from tapml.server import Server
from tapml.suite import Suite, TensorRef
from tapml.validation.context import JobContext


class Worker:
    """Carves cases and validates them on devices, which stay started."""

    def __init__(self, server: Server, devices: Sequence[str]) -> None:
        self._state = server.state
        self._devices = devices

    def run(self, name: str, folder: Path) -> dict[str, Any]:
        """What became of a case: `outcome` is right, wrong, refused or traceback; `why` says more."""
        try:
            return self._judged(name, folder)
        except TapmlError as error:
            return {"outcome": "refused", "why": str(error).replace(str(folder), "").lstrip("/")}
        except Exception:
            return {"outcome": "traceback", "why": traceback.format_exc()[-3000:]}

    def _judged(self, name: str, folder: Path) -> dict[str, Any]:
        case = cases()[name]
        suite, outputs = carved(case, folder)
        problem = difference(suite, case, outputs)
        oracle = suite.manifest["oracle"]
        return {
            "outcome": "wrong" if problem else "right",
            "why": problem,
            "noticed": bool(problem and oracle and not oracle["agrees"]),
            "compilers": sorted({suite.bundle(kernel)["compiler"]["name"] for kernel in suite.kernels}),
            "verdicts": {device: self._verdicts(suite, device) for device in self._devices},
        }

    def _verdicts(self, suite: Suite, name: str) -> list[str]:
        """Those of the suite's tests on a device, each once, with what the first that is no pass says."""
        context = JobContext(suite, [self._state.device(name)], self._state.blobs, hang_seconds=10)
        document = run_job(JobSpecification(kind="validation", devices=[name], save=False, record=False), context)
        tests = [test for test in document["tests"] if test["verdict"] != "pass"]
        return list(dict.fromkeys(f"{test['verdict']}: {test.get('message')}" for test in tests))


def carved(case: Case, folder: Path) -> tuple[Suite, list[str]]:
    """The suite, and the names of its outputs. Raises TapmlError where it is refused."""
    import onnx

    model = folder / "model.onnx"
    onnx.save(case.test.model, model)
    names = [value.name for value in case.test.model.graph.input]
    arrays = {name: np.asarray(array) for name, array in zip(names, case.inputs, strict=False)}
    np.savez(folder / "inputs.npz", **arrays)
    imported = import_model(str(model), input_files=[folder / "inputs.npz"])
    return carve(imported, folder / "case.suite", name=case.name, keep_disagreeing=True), imported.outputs


def difference(suite: Suite, case: Case, outputs: Sequence[str]) -> str:
    """Between what the reference platform gave and what the case expects: within the case's tolerance, or what the
    model's may move by rounding; empty where there is none.
    """
    refs = [TensorRef.from_json(ref) for ref in suite.manifest["steps"][0]["outputs"]]
    found = {name: suite.tensors.get(ref) for name, ref in zip(outputs, refs, strict=True)}
    names = [name for name in outputs if not name.endswith(".count")]
    if len(names) != len(case.expected):
        return f"{len(names)} outputs, expected {len(case.expected)}"
    for place, (name, value) in enumerate(zip(names, case.expected, strict=True)):
        got, expected = found[name], np.asarray(value)
        if f"{name}.count" in found:
            # As long as it could be: what counts comes first, and the rest is zeros.
            (axis, *_) = [a for a in range(got.ndim) if got.shape[a] != expected.shape[a]] or [0]
            count = int(found[f"{name}.count"].item())
            got, rest = np.split(got, [count], axis=axis)
            if rest.any():
                return f"output {place} is not 0 behind its count"
        if got.shape != expected.shape:
            return f"output {place} is {list(got.shape)}, expected {list(expected.shape)}"
        if expected.dtype.kind in "biu":
            wrong = int(np.sum(got.astype(np.int64) != expected.astype(np.int64)))
        else:
            # ONNX rounds to bfloat16 at each step, tapml nowhere: two of its units.
            relative = max(case.test.rtol, 2.0**-6 if expected.dtype.name == "bfloat16" else 0.0)
            got, expected = got.astype(np.float64), expected.astype(np.float64)
            absolute = max(case.test.atol, float(suite.manifest["model_tolerance"]["max_abs_error"]))
            close = np.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)
            wrong = int(np.sum(~close))
        if wrong:
            return f"output {place}: {wrong} of {expected.size} elements are wrong"
    return ""


def serve(devices: Sequence[str], make: type[Worker]) -> None:
    """Answer each line of standard input, on devices that are started before."""
    with Server() as server:
        for name in devices:
            server.state.device(name)
        worker = make(server, devices)
        print("ready", flush=True)
        for line in sys.stdin:
            name, began = line.rstrip("\n"), time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="tapml-benchmark-") as folder:
                answer = worker.run(name, Path(folder))
            print(json.dumps({"name": name, "seconds": time.perf_counter() - began, **answer}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1:], Worker)
