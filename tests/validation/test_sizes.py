"""A kernel by hand that serves several sizes, called at two of them on a real device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.program.program import Program
from tapml.server import Server
from tapml.sharing.files import export, load_repro
from tapml.sharing.imports import add_to_suite
from tapml.sharing.repro import of_suite
from tapml.suite import CarvedTest, Suite, SuiteWriter, Tolerance
from tapml.suite.suite import IMPORTED, write_kernel
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

ROWS = (3, 70_001)
WGSL = """\
@group(0) @binding(1) var<storage, read_write> scratch : array<f32>;
@group(0) @binding(2) var<storage, read> x : array<f32>;
@group(0) @binding(3) var<storage, read_write> y : array<f32>;
@group(0) @binding(0) var<uniform> n : u32;
@compute @workgroup_size(2)
fn negate(@builtin(workgroup_id) group : vec3u, @builtin(num_workgroups) grid : vec3u,
          @builtin(local_invocation_index) column : u32) {
  let row = group.z * grid.x + group.x;
  if (row >= n) { return; }
  scratch[2 * row + column] = -x[2 * row + column];
  y[2 * row + column] = scratch[2 * row + column];
}
"""


def document() -> dict[str, Any]:
    """Of two columns and n rows; a row is a workgroup, and what is more than a dimension may have is folded."""
    folds = ["ceildiv", "n", 65_535]
    operands = [{"temporary": 0}, {"argument": 0}, {"argument": 1}]
    accesses = ("uniform", "read_write", "read", "read_write")
    return {
        "format": "tapml.kernel/3",
        "kernel": "negate",
        "compiler": {"name": "external", "version": "1"},
        "symbols": [{"name": "n", "minimum": 1, "maximum": 100_000}],
        "arguments": [{"name": name, "dtype": "float32", "shape": ["n", 2], "role": role} for name, role in ROLES],
        "numerics": {"accumulation_length": 1, "builtins": [], "operations": 0},
        "variants": [
            {
                "name": "by-hand",
                "requires": {"features": [], "limits": {}},
                "entry_points": [
                    {
                        "name": "negate",
                        "file": "negate.wgsl",
                        "workgroup_size": [2, 1, 1],
                        "bindings": [{"binding": n, "access": access} for n, access in enumerate(accesses)],
                    }
                ],
                "launches": [
                    {
                        "entry_point": "negate",
                        "operands": operands,
                        "uniforms": [{"name": "n", "dtype": "uint32", "value": "n"}],
                        "grid": [["ceildiv", "n", folds], 1, folds],
                    }
                ],
                "temporaries": [["mul", "n", 8]],
            }
        ],
        "unsupported": None,
    }


ROLES = (("x", "input"), ("y", "output"))


@pytest.fixture
def negated(tmp_path: Path) -> Suite:
    """Two nodes that call the kernel, each at its number of rows."""
    values: dict[str, Value] = {}
    nodes, tests = [], []
    with SuiteWriter(tmp_path / "negate.suite") as writer:
        write_kernel(writer.folder, document(), {"negate.wgsl": WGSL})
        for number, rows in enumerate(ROWS):
            names = (f"x{number}", f"y{number}")
            for name, kind in zip(names, (ValueKind.INPUT, ValueKind.INTERMEDIATE), strict=True):
                values[name] = Value(name, name, TensorType((rows, 2), "float32"), kind)
            nodes.append(Node(f"n{number}", NodeKind.KERNEL, "negate", names[:1], names[1:]))
            x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
            refs = [writer.tensors.put(array) for array in (x, -x)]
            tolerance = Tolerance(0.0, 0.0, ("exact",))
            name = f"n{number}.s0"
            tests.append(CarvedTest(name, f"n{number}", "negate", 0, (refs[0],), (refs[1],), (tolerance,), {"n": rows}))
        manifest = {
            "name": "negate", "created": "2026-11-22T00:00:00+00:00", "synthetic": True, "parameters": {},
            "model": {"kind": IMPORTED, "source": "by hand", "sha256": "0" * 64},
            "reference": {"platform": "cpu", "device": "numpy"}, "generator": {"version": "1"}, "arguments": [],
            "steps": [], "oracle": None,
        }  # fmt: skip
        graph = Graph(values, nodes, tuple(node.inputs[0] for node in nodes), tuple(n.outputs[0] for n in nodes))
        return writer.finish(manifest, Program.of(graph), tests, {})


def verdicts(suite: Suite) -> list[tuple[str, str]]:
    with Server() as server:
        run = OperatorRun(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    return [(test["verdict"], test["message"]) for test in run["tests"]]


def test_one_kernel_runs_at_two_sizes(negated: Suite) -> None:
    assert verdicts(negated) == [("pass", ""), ("pass", "")]


def test_a_wrong_size_in_the_kernel_fails(negated: Suite) -> None:
    """The grid of one row too few leaves the last one unwritten, at each size."""
    path = negated.path / "kernels/negate.json"
    changed = document()
    changed["variants"][0]["launches"][0]["uniforms"][0]["value"] = ["sub", "n", 1]
    path.write_text(json.dumps(changed))
    found = verdicts(Suite(negated.path))
    assert [verdict for verdict, _ in found] == ["fail", "fail"]
    assert "2 of 6" in found[0][1]
    assert "2 of 140002" in found[1][1]


@pytest.mark.parametrize("form", ["html", "safetensors"])
def test_an_exported_test_keeps_its_sizes(negated: Suite, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"negate.{form}"
    export(of_suite(negated, "n0.s0"), form, file)
    repro = load_repro(file)
    assert dict(repro.document.test.sizes) == {"n": 3}
    assert add_to_suite(repro, negated) == "n0.s0", "the same test of the same kernel"
