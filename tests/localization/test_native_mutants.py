"""Each mutation operator on WGSL as tapml's own compiler writes it, and on the kernels of a carved model."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from benchmarks.localization import models
from benchmarks.localization.baseline import Baseline
from benchmarks.localization.cases import Bug, Mutable
from benchmarks.localization.expressions import Reader
from benchmarks.localization.mutate import OPERATORS, Mutant, mutants
from benchmarks.localization.native_text import read

from tapml.devices.messages import kernel_message
from tapml.protocol import methods
from tapml.server import Server
from tapml.suite import Suite

HEAD = """\
// made: 8 invocations a row, 8 rows a workgroup.
@group(0) @binding(0) var<storage, read> x : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> w : array<f32>;
@group(0) @binding(2) var<storage, read> half : array<u32>;
@group(0) @binding(3) var<storage, read_write> y : array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> rank : array<i32>;
var<workgroup> partial : array<f32, 64>;

fn left4(row : i32, k : i32) -> vec4<f32> {
  return x[k];
}

fn half_read(at : u32) -> f32 {
  return f32(half[0]);
}

@compute @workgroup_size(64)
fn made_kernel(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_index) local : u32) {
  let lane = i32(local) % 8;
  let row = i32(group.x) * 8 + i32(local) / 8;
"""


def _mutated(operator: str, body: str) -> list[str]:
    """What the body's changed lines become, an entry a mutant."""
    text = f"{HEAD}{body}\n}}\n"
    found = [mutant for mutant in mutants(text) if mutant.operator == operator]
    return ["\n".join(_changed(text, mutant)) for mutant in found if mutant.line > HEAD.count("\n")]


def _changed(text: str, mutant: Mutant) -> list[str]:
    lines = difflib.ndiff(text.splitlines(), mutant.text.splitlines())
    return [line[2:].strip() for line in lines if line.startswith("+ ")]


CASES = [
    ("index off by one", "  y[0] = x[row * 8 + lane];", ["y[0] = x[(row * 8 + lane + 1)];"]),
    ("index off by one", "  let a = half_read(u32(lane));", ["let a = half_read((u32(lane) + 1));"]),
    (
        "swapped operands",
        "  y[0] = x[0] - x[1] - x[2];",
        ["y[0] = (x[1] - x[0]) - x[2];", "y[0] = (x[2] - (x[0] - x[1]));"],
    ),
    ("swapped operands", "  y[0] = fma(x[0], x[1], x[2]);", ["y[0] = fma(x[0], x[2], x[1]);"]),
    ("dropped barrier", "  workgroupBarrier();\n  let total = partial[0];", [""]),
    (
        "wrong epsilon",
        "  let r = inverseSqrt((w[0] / 8.0f) + 1.0e-12f);",
        ["let r = inverseSqrt((w[0] / 8.0f) + 0.000000e+00f);", "let r = inverseSqrt((w[0] / 8.0f) + 1.000000e-03f);"],
    ),
    (
        "other epsilon",
        "  let r = sqrt(w[0] + 1.0e-05f);",
        ["let r = sqrt(w[0] + 1.000000e-06f);", "let r = sqrt(w[0] + 1.000000e-04f);"],
    ),
    ("wrong constant", "  y[0] = x[0] * 0.5f;", ["y[0] = x[0] * 5.500000e-01f;"]),
    ("wrong constant", "  var sum = 0.5;", ["var sum = 5.500000e-01f;"]),
    ("rounded constant", "  y[0] = x[0] * 0.044715f;", ["y[0] = x[0] * 4.470000e-02f;"]),
    ("sign", "  let at = row * 8 + lane;\n  y[at] = x[at] + w[at];", ["y[at] = x[at] - w[at];"]),
    ("sign", "  y[0] = fma(x[0], x[1], x[2]);", ["y[0] = fma(-(x[0]), x[1], x[2]);"]),
    ("dropped guard", "  if (row < 9) {\n    y[0] = x[0];\n  }", ["if (true) {"]),
    ("dropped guard", "  if (row >= 9 || lane > 2) {\n    return;\n  }\n  y[0] = x[0];", ["if (false) {"]),
    ("inverted guard", "  if (row >= 9) {\n    return;\n  }\n  y[0] = x[0];", ["if (!(row >= 9)) {"]),
    ("mask off by one", "  if (row >= 9) {\n    return;\n  }", ["if (row > 9) {"]),
    ("mask off by one", "  if (lane < 4) {\n    partial[local] = partial[local + 4u];\n  }", []),
    ("mask off by one", "  for (var n = 0; n < 3; n++) {\n    y[n] = x[n];\n  }", []),
    (
        "dtype conversion",
        "  y[0] = x[1];",
        [
            "y[0] = vec4<f32>(vec4<i32>(x[1]));",
            "y[0] = vec4<f32>(unpack2x16float(pack2x16float((x[1]).xy)), unpack2x16float(pack2x16float((x[1]).zw)));",
            "y[0] = bitcast<vec4<f32>>(bitcast<vec4<u32>>(x[1]) & vec4<u32>(4294901760u));",
        ],
    ),
    (
        "dtype conversion",
        "  rank[0] = lane;",
        ["rank[0] = (lane & 255i);", "rank[0] = i32(f32(lane) * 0.00390625) * 256i;"],
    ),
    ("dtype conversion", "  let index = lane + 1;\n  let two = 2.0f;", []),
    (
        "saturated value",
        "  y[0] = x[0];",
        [
            "y[0] = clamp(x[0], vec4<f32>(-1.000000e+00f), vec4<f32>(1.000000e+00f));",
            "y[0] = clamp(x[0], vec4<f32>(-6.000000e+00f), vec4<f32>(6.000000e+00f));",
            "y[0] = clamp(x[0], vec4<f32>(0.000000e+00f), vec4<f32>(6.000000e+00f));",
        ],
    ),
    (
        "wrong accumulation start",
        "  var sum = vec4<f32>();\n  var found = vec4<f32>();\n  sum = fma(x[0], x[1], sum);\n  found[lane] = w[0];",
        ["var sum = vec4<f32>(1.0f);"],
    ),
    (
        "wrong accumulation start",
        "  var top = -3.4028234e+38f;\n  top = max(top, w[0]);",
        ["var top = 0.0f;"],
    ),
    ("swapped axes", "  y[0] = x[row * 8 + lane];", ["y[0] = x[((lane * 8) + row)];"]),
    (
        "mirrored index",
        "  y[0] = x[row * 64 + lane * 8 + 2];",
        ["y[0] = x[((row * 64) + ((64 - 1) - (lane * 8 + 2)))];"],
    ),
    ("swapped pairs", "  y[0] = x[lane];", ["y[0] = x[lane].yxwz;"]),
    (
        "swapped pairs",
        "  let a = w[row * 8 + lane / 4];",
        ["let a = w[((row * 8 + lane / 4) ^ 1)];", "let a = w[row * 8 + ((lane / 4) ^ 4)];"],
    ),
    (
        "stale rows",
        "  y[row * 8 + lane] = x[(row + 1) * 4 + lane];",
        [
            "y[row * 8 + lane] = x[((row + 1) - select(0, 1, (((row + 1) & 3) == 3))) * 4 + lane];",
            "if ((row & 3) != 3) { y[row * 8 + lane] = x[(row + 1) * 4 + lane]; }",
        ],
    ),
    (
        "tile column",
        "  y[row] = x[row * 8 + lane];",
        [
            "y[row] = x[row * 8 + min(lane, 6)];",
            "y[row] = x[(row - select(0, 1, (row & 7) == 7)) * 8 + lane];",
            "y[row] = x[(row & -9) * 8 + lane];",
        ],
    ),
    (
        "tile column",
        "  let a = left4(0, lane * 2);",
        ["let a = left4(0, min(lane, 6) * 2);"],
    ),
    ("missing last tile", "  if (row >= 20) {\n    return;\n  }", ["if (row >= 16) {"]),
    ("missing last tile", "  if (row < 16) {\n    y[0] = x[0];\n  }", ["if (row < 8) {"]),
    ("missing last tile", "  if (row < 8) {\n    y[0] = x[0];\n  }", []),
    ("removed max-subtraction", "  y[0] = exp(x[0] - w[0]);", ["y[0] = exp(x[0]);"]),
    (
        "wrong reduction bound",
        "  for (var n = 0; n < 3; n++) {\n    y[n] = x[n];\n  }",
        ["for (var n = 0; n < 2; n++) {", "for (var n = 1; n < 3; n++) {"],
    ),
    (
        "wrong reduction bound",
        "  for (var k = -16; k < 64; k += 16) {\n    y[0] = x[lane];\n  }",
        ["for (var k = -16; k < 48; k += 16) {", "for (var k = 0; k < 64; k += 16) {"],
    ),
    (
        "wrong reduction bound",
        "  for (var k = lane * 4; k < 64; k += 32) {\n    y[0] = x[lane];\n  }",
        ["for (var k = lane * 4; k < 60; k += 32) {", "for (var k = lane * 4 + 4; k < 64; k += 32) {"],
    ),
    ("wrong reduction bound", "  if (lane < 4) {\n    partial[local] = partial[local + 4u];\n  }", ["if (lane < 3) {"]),
]


@pytest.mark.parametrize(("operator", "body", "expected"), CASES)
def test_operator_on_native(operator: str, body: str, expected: list[str]) -> None:
    assert _mutated(operator, body) == expected


def test_every_operator_is_tested_on_native() -> None:
    assert {operator for operator, _, _ in CASES} | {"narrow arithmetic"} == set(OPERATORS)


def test_narrow_arithmetic_on_native() -> None:
    """Vectors and numbers, each by a function of its own."""
    text = f"{HEAD}  let a = x[0] * w[lane];\n  y[0] = a;\n}}\n"
    found = [mutant for mutant in mutants(text) if mutant.operator == "narrow arithmetic"]
    inputs, throughout, *_ = [_changed(text, mutant) for mutant in found]
    assert inputs[:2] == ["return narrowed4(x[k]);", "let a = narrowed4(x[0]) * narrowed(w[lane]);"]
    assert throughout[:2] == ["let a = narrowed4(x[0] * w[lane]);", "y[0] = narrowed4(a);"]
    functions = ("fn narrowed(x : f32)", "fn narrowed4(x : vec4<f32>)")
    assert all(function in mutant.text for mutant in found for function in functions)
    assert len(found) == 5


def test_types_of_expressions() -> None:
    body = "  let a = x[lane] * 2.0f;\n  let b = a.x + w[row];\n  let c = row / 2 + lane;\n  let d = a < vec4<f32>(b);"
    reader = Reader(f"{HEAD}{body}\n}}\n")
    types = {value.target: value.expression.type for value in reader.values}
    assert types == {"lane": "i32", "row": "i32", "a": "vec4<f32>", "b": "f32", "c": "i32", "d": "vec4<bool>"}


def test_statements_go_to_the_entry_point() -> None:
    text = f"{HEAD}  y[0] = x[0];\n}}\n"
    code = read(text)
    assert text[code.body :].startswith("\n  let lane")
    assert [code[access.whole] for access in code.accesses if access.stores] == ["y[0]"]


@pytest.mark.slow
def test_random_inputs_are_stored_as_kernels_read_them(tmp_path: Path) -> None:
    """Weights that are kept as float16: the baseline accuses no kernel that nobody changed."""
    suite = models.suite("quantised", "native")
    kept = {test.kernel for test in suite.tests if any(ref.encoding == "float16" for ref in test.inputs)}
    assert kept
    baseline = Baseline(suite, "node-dawn", tmp_path)
    with Server() as server:
        baseline.run((), server.state.device("node-dawn"), server.state.blobs, lambda _: None)
    assert baseline.accused((), 1e-3) == set()


@pytest.fixture(scope="module")
def carved_natively() -> Suite:
    return models.suite("mixture", "native")


@pytest.mark.slow
def test_each_kind_applies_to_a_carved_model_and_compiles(carved_natively: Suite) -> None:
    """Mutants of each kind, of up to four kernels each."""
    suite = carved_natively
    by_kind: dict[str, list[Bug]] = {}
    for kinds in Mutable(suite).bugs.values():
        for kind, bugs in kinds.items():
            by_kind.setdefault(kind, []).append(bugs[len(bugs) // 2])
    assert set(by_kind) == set(OPERATORS)
    found = [bug for bugs in by_kind.values() for bug in bugs[:: -(-len(bugs) // 4)]]
    with Server() as server:
        device, blobs = server.state.device("node-dawn"), server.state.blobs
        for bug in found:
            files = suite.kernel_files(bug.kernel)
            texts = [bug.mutant.text if file.name == bug.file else file.text for file in files]
            with blobs.holding(text.encode() for text in texts) as code:
                kernel = kernel_message(suite.bundle(bug.kernel), code)
                loaded = methods.LoadCommand(library="mutant/", kernels=[kernel])
                device.execute([loaded, methods.UnloadCommand(library="mutant/")], [])
