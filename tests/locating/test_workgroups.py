"""Which workgroup computes an element: what is measured is what kernels say that write their own workgroup's number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.devices.messages import KernelMessages
from tapml.importing.assemble import assemble
from tapml.importing.inputs import RawStep
from tapml.kernels.bundle import bindings, workgroup_size
from tapml.locating.cut_launch import cut
from tapml.locating.examine import Examiner
from tapml.locating.workgroups import NOBODY, SEVERAL, Workgroups, workgroups_of
from tapml.npy import opening
from tapml.server import Server
from tapml.server.local import create_app
from tapml.sharing.arrays_file import read_arrays
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext

ROWS, COLUMNS = 40, 48


@pytest.fixture(scope="module")
def carved_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Suite]:
    """A model of several kinds of kernels as a compiler makes them, each with several workgroups."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, COLUMNS), "float32"))
    y = relax.Var("y", relax.TensorType((COLUMNS, ROWS), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, y))
            likely = builder.emit(relax.op.nn.softmax(product, axis=-1))
            turned = builder.emit(relax.op.permute_dims(likely, [1, 0]))
            summed = builder.emit(relax.op.sum(relax.op.matmul(turned, x), axis=[0], keepdims=True))
            out = builder.emit_output(relax.op.add(summed, relax.op.permute_dims(y, [1, 0])))
        builder.emit_func_output(out)
    module = builder.finalize()
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((ROWS, COLUMNS), (COLUMNS, ROWS)))
    wide, tall = a.astype(np.float64), b.astype(np.float64)
    powers = np.exp(wide @ tall - (wide @ tall).max(-1, keepdims=True))
    likely = powers / powers.sum(-1, keepdims=True)
    expected = ((likely.T @ wide).sum(0, keepdims=True) + tall.T).astype(np.float32)
    model = assemble(
        module,
        tensors=[],
        steps=[RawStep("once", {"x": a, "y": b}, synthetic=True)],
        expected=[[expected]],
        outputs=["out"],
        oracle="numpy",
        oracle_missing=None,
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "title": "test"},
    )

    def made(compiler: str) -> Suite:
        path = tmp_path_factory.mktemp(compiler) / "several.suite"
        return carve(model, path, name=f"several-{compiler}", compilers=CHOICES[compiler])

    return made


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def measured(server: Server, suite: Suite, test: CarvedTest) -> dict[int, Workgroups]:
    context = JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)
    return workgroups_of(context, suite.bundle(test.kernel), suite.kernel_files(test.kernel), test)


def written(suite: Suite, wgsl: str, grid: list[int]) -> CarvedTest:
    """A kernel of two inputs and one output, 6 x 16, which is this now: its test."""
    test = next(test for test in suite.tests if [ref.type.shape for ref in test.outputs] == [(6, 16)])
    assert len(test.inputs) == 2
    path = suite.path / "kernels" / f"{test.kernel}.json"
    document = json.loads(path.read_text())
    (variant,) = document["variants"]
    (entry,), (launch,) = variant["entry_points"], variant["launches"]
    (path.parent / entry["file"]).write_text(wgsl)
    entry |= {"name": "main", "bindings": bindings(wgsl), "workgroup_size": workgroup_size(wgsl)}
    launch |= {"entry_point": "main", "operands": [{"argument": n} for n in range(3)], "uniforms": [], "grid": grid}
    variant["launches"] = [launch]
    path.write_text(json.dumps(document))
    return test


def marking(bundle: dict[str, Any], text: str) -> str | None:
    """The kernel, writing its workgroup's number instead of what it computed; None where its stores are not plain."""
    (variant,) = bundle["variants"]
    (entry,), (launch,) = variant["entry_points"], variant["launches"]
    begins = re.search(rf"fn {entry['name']}\([^{{]*@builtin\(workgroup_id\)\s*(\w+)\s*:[^{{]*{{", text)
    if begins is None:
        return None
    width, height, _ = launch["grid"]
    own = f"tapml_own = {begins[1]}.x + {width}u * ({begins[1]}.y + {height}u * {begins[1]}.z);"
    text = text[: begins.end()] + own + text[begins.end() :] + "\nvar<private> tapml_own : u32;\n"
    number = "bitcast<f32>(tapml_own)"
    for binding in entry["bindings"]:
        if binding["access"] != "read_write":
            continue
        vector = re.fullmatch(r"array<vec(\d)<f32>>", binding["type"])
        if not vector and binding["type"] != "array<f32>":
            return None
        value = f"vec{vector[1]}<f32>({number})" if vector else number
        text, stores = re.subn(rf"(\b{binding['name']}\[[^;={{}}]*\]) = [^;]*;", rf"\1 = {value};", text)
        if not stores or len(re.findall(rf"\b{binding['name']}\[", text)) != stores:
            return None
    return text


def marked(server: Server, suite: Suite, test: CarvedTest) -> list[np.ndarray] | None:
    """The numbers as the kernel itself writes them, 0xFFFFFFFF where it writes nothing."""
    (file,) = suite.kernel_files(test.kernel)[-1:]
    text = marking(suite.bundle(test.kernel), file.text)
    if text is None:
        return None
    path = suite.path / "kernels" / file.name
    before = path.read_text()
    path.write_text(text)
    try:
        context = JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)
        with KernelMessages(suite, server.state.blobs, [test.kernel]) as messages:
            found = Examiner(context, messages).once(test)
    finally:
        path.write_text(before)
    return [array.view(np.uint32) for array in found]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["tvm", "native"])
def test_what_is_measured_is_what_kernels_write_of_themselves(
    server: Server, carved_by: Callable[[str], Suite], compiler: str
) -> None:
    suite = carved_by(compiler)
    server.state.suites.add(suite.path)
    grids = set()
    for test in suite.tests:
        truth = marked(server, suite, test)
        if truth is None:
            continue
        found = measured(server, suite, test)
        assert sorted(found) == list(range(len(truth)))
        for output, array in enumerate(truth):
            np.testing.assert_array_equal(found[output].numbers, array)
            grids.add(found[output].grid)
    assert len(grids) >= 3


BINDINGS = """
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read> y : array<f32>;
@group(0) @binding(2) var<storage, read_write> out : array<f32>;
"""
TILED = """
struct Place { @builtin(local_invocation_id) own : vec3<u32>, @builtin(workgroup_id) tile : vec3<u32> }
/* fn main( is not here, /* nor here */ */
@compute @workgroup_size(4, 2) fn main(at : Place) {
  let row = at.tile.y * 2u + at.own.y; let column = at.tile.x * 4u + at.own.x;
  workgroupBarrier();
  out[row * 16u + column] = y[row];
}
"""
ASKS_NOTHING = """
@compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id : vec3<u32>) { out[id.x] = x[id.x]; }
"""
STRIDED = """
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id : vec3<u32>, @builtin(num_workgroups) all : vec3<u32>) {
  for (var i = id.x; i < 96u; i += 4u * all.x) { out[i] = 0.0; }
}
"""
SHARED = """
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) id : vec3<u32>) {
  for (var i = 0u; i < 32u; i++) { if (id.z * 16u + i < 80u) { out[id.z * 16u + i] = 1.0; } }
}
"""
ALONE = """
@compute @workgroup_size(1) fn main() { for (var i = 0; i < 96; i++) { out[i] = 0.0; } }
"""
FLAT = np.arange(96).reshape(6, 16)
ROW, COLUMN = FLAT // 16, FLAT % 16


@pytest.mark.parametrize(
    ("wgsl", "grid", "truth"),
    [
        (TILED, [4, 3, 1], ROW // 2 * 4 + COLUMN // 4),
        (ASKS_NOTHING, [12, 1, 1], FLAT // 8),
        (STRIDED, [5, 1, 1], FLAT // 4 % 5),
        # Each writes its row and the next one, and none the last.
        (SHARED, [1, 1, 5], np.where(ROW == 0, 0, np.where(ROW == 5, NOBODY, SEVERAL))),
        (ALONE, [1, 1, 1], FLAT * 0),
        (ALONE, [2, 1, 1], FLAT * 0 + SEVERAL),
    ],
)
def test_any_grid_and_any_way_through_the_elements(
    server: Server, suite: Suite, wgsl: str, grid: list[int], truth: np.ndarray
) -> None:
    server.state.suites.add(suite.path)
    test = written(suite, BINDINGS + wgsl, grid)
    found = measured(server, suite, test)
    assert list(found) == [0]
    assert found[0].grid == tuple(grid)
    np.testing.assert_array_equal(found[0].numbers, truth.astype(np.uint32))


def test_what_is_not_understood_is_not_guessed(server: Server, suite: Suite) -> None:
    server.state.suites.add(suite.path)
    for wgsl in (
        "/* no end",
        "fn other() {}",
        "fn main(",
        "fn main(a : u32) -> u32 { return a; }",
        "var tapml_cut = 1;",
    ):
        assert cut(wgsl, "main", 3) is None
    # Each of two launches writes all of it: whose work an element is depends on the second one.
    test = written(suite, BINDINGS + ASKS_NOTHING, [12, 1, 1])
    path = suite.path / "kernels" / f"{test.kernel}.json"
    document = json.loads(path.read_text())
    document["variants"][0]["launches"] *= 2
    path.write_text(json.dumps(document))
    assert measured(server, Suite(suite.path), test) == {}


def test_a_page_is_given_the_numbers_and_the_grid(server: Server, suite: Suite, tmp_path: Path) -> None:
    suite_id = server.state.suites.add(suite.path)
    test = written(suite, BINDINGS + TILED, [4, 3, 1])
    client = create_app(server.state).test_client()
    asked = f"/api/suites/{suite_id}/tests/{test.id}/workgroups"
    job = client.post(asked, json={"device": "node-dawn"}, headers={"X-Tapml": "1"}).json["job"]
    running = server.state.jobs.get(job)
    assert running is not None
    assert running.done.wait(180)
    file = tmp_path / "workgroups.safetensors"
    file.write_bytes(client.get(f"/api/jobs/{job}/outputs").data)
    text, arrays = read_arrays("the workgroups", opening(file))
    assert json.loads(text) == {"grids": {"0": [4, 3, 1]}}
    assert list(arrays) == ["0"]
    np.testing.assert_array_equal(arrays["0"], ROW // 2 * 4 + COLUMN // 4)
