"""Carves cases that it is told on standard input (`benchmarks.workers`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_nodes.cases import Case, cases
from benchmarks.workers import Worker, compilers, serve
from tapml.carving.carve import carve
from tapml.importing import import_model
from tapml.suite import Suite, TensorRef


class NodeTests(Worker):
    """Of the ONNX backend's node tests, which know what is expected."""

    def judged(self, name: str, folder: Path) -> dict[str, Any]:
        case = cases()[name]
        suite, outputs = carved(case, folder)
        problem = difference(suite, case, outputs)
        oracle = suite.manifest["oracle"]
        return {
            "outcome": "wrong" if problem else "right",
            "why": problem,
            "noticed": bool(problem and oracle and not oracle["agrees"]),
            "compilers": sorted({suite.bundle(kernel)["compiler"]["name"] for kernel in suite.kernels}),
            "verdicts": self.verdicts(suite),
            "built": self.built(suite),
        }


def carved(case: Case, folder: Path) -> tuple[Suite, list[str]]:
    """The suite, and the names of its outputs. Raises TapmlError where it is refused."""
    import onnx

    model = folder / "model.onnx"
    onnx.save(case.test.model, model)
    names = [value.name for value in case.test.model.graph.input]
    arrays = {name: np.asarray(array) for name, array in zip(names, case.inputs, strict=False)}
    np.savez(folder / "inputs.npz", **arrays)
    imported = import_model(str(model), input_files=[folder / "inputs.npz"])
    suite = carve(imported, folder / "case.suite", name=case.name, compilers=compilers(), keep_disagreeing=True)
    return suite, imported.outputs


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


if __name__ == "__main__":
    serve(sys.argv[1:], NodeTests)
