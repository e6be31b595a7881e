"""A suite whose tests have bounds and ties made by hand, and what a right device must say of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.carving.carve import carve
from tapml.importing import ImportedModel, Step
from tapml.suite import Suite

SHAPE = (4, 8)
COUNT = 8

X = np.arange(32, dtype=np.float32).reshape(SHAPE)
INDICES = np.arange(10, 10 + COUNT, dtype=np.int32)

# Two groups: elements 0 and 1 may be 11, 12 or 13, element 5 may be 16 or 20.
TIES = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 11], [0, 1, 12], [0, 1, 13], [1, 0, 5], [1, 1, 16], [1, 1, 20]], np.int32)

EXPECTED: dict[str, dict[str, Any]] = {
    "wide": {"verdict": "pass", "mismatched": 0, "unbounded": 0, "tied": 0},
    "narrow": {"verdict": "fail", "mismatched": 1, "unbounded": 0, "tied": 0},
    "open": {"verdict": "unbounded", "mismatched": 0, "unbounded": 2, "tied": 0},
    "open and narrow": {"verdict": "fail", "mismatched": 1, "unbounded": 2, "tied": 0},
    "ties": {"verdict": "pass", "mismatched": 0, "unbounded": 0, "tied": 2},
    "no tie": {"verdict": "fail", "mismatched": 1, "unbounded": 0, "tied": 1},
}
"""Case -> what a device must report of its test."""


def _module() -> tvm.IRModule:
    """main(x, i) = (x * 2, i + 1)"""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    i = relax.Var("i", relax.TensorType((COUNT,), "int32"))
    with builder.function("main", [x, i]):
        with builder.dataflow():
            doubled = builder.emit_output(relax.op.multiply(x, relax.const(2.0, "float32")))
            counted = builder.emit_output(relax.op.add(i, relax.const(1, "int32")))
        builder.emit_func_output(relax.Tuple([doubled, counted]))
    return builder.finalize()


def bounded_suite(path: Path) -> tuple[Suite, dict[str, str]]:
    """Carve it; gives the suite, and the test of each case of EXPECTED."""
    outputs = [X * 2, INDICES + 1]
    model = ImportedModel(
        module=_module(),
        input_names=["x", "i"],
        parameters=[],
        steps=[Step(f"step {n}", {"x": X, "i": INDICES}, False, list(outputs)) for n in range(4)],
        provenance={"kind": "test", "source": "tests/bounded.py", "sha256": "0" * 64, "title": "bounded", "notes": []},
        outputs=["doubled", "counted"],
    )
    carve(model, path, name="bounded")
    suite = Suite(path)
    document = json.loads((path / "tests.json").read_text())
    floats = iter([test for test in document["tests"] if test["outputs"][0]["dtype"] == "float32"])
    integers = iter([test for test in document["tests"] if test["outputs"][0]["dtype"] == "int32"])
    cases: dict[str, str] = {}

    def change(case: str, test: dict[str, Any], expected: np.ndarray, **tensors: np.ndarray) -> None:
        test["outputs"] = [suite.tensors.put(expected).to_json()]
        refs = {name: suite.tensors.put(array).to_json() for name, array in tensors.items()}
        reasons = ["made by hand"]
        test["tolerances"] = [{"absolute": 0.5 if "bound" in refs else 0, "relative": 0, "reasons": reasons, **refs}]
        cases[case] = test["id"]

    for case in ("wide", "narrow", "open", "open and narrow"):
        bound = np.full(SHAPE, 0.5, np.float32)
        if "narrow" in case:
            bound[2, 3] = 0.125
        if "open" in case:
            bound[0, 1] = bound[3, 7] = np.inf
        # The kernel is right, what is expected of it is a quarter off.
        change(case, next(floats), X * 2 + np.float32(0.25), bound=bound)
    expected = INDICES + 1
    expected[[0, 1]] = expected[[1, 0]]
    change("ties", next(integers), expected, ties=TIES)
    # Element 5 may be another one, element 4 is of no group.
    change("no tie", next(integers), INDICES + np.array([1, 1, 1, 1, 2, 5, 1, 1], np.int32), ties=TIES)
    used = set(cases.values())
    document["tests"] = [test for test in document["tests"] if test["id"] in used]
    (path / "tests.json").write_text(json.dumps(document))
    return Suite(path), cases
