"""Small kernels that do not need each other are one dispatch, which gives what they give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tapml as tml
from everywhere import carved_inputs, check_everywhere
from tapml.building.build import build
from tapml.building.merged_text import Part, merged
from tapml.building.uniforms import without_fixed
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.compiled.instructions import Dispatch
from tapml.devices.compiled import run_compiled
from tapml.importing import import_model
from tapml.kernels.wgsl_module import Module, NotUnderstood
from tapml.protocol.methods import CaptureOptions
from tapml.server import Server
from tapml.suite import Suite


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


BESIDE = "a = MatMul(x, w) c = MatMul(w, x) b = MatMul(a, a) y = Softmax(b)"


def carved_of(body: str, folder: Path, outputs: str = "float[4, 4] y") -> Suite:
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    main (float[4, 4] x, float[4, 4] w) => ({outputs}) {{ {body} }}"""
    random = np.random.default_rng(5)
    inputs = {name: random.standard_normal((4, 4)).astype(np.float32) for name in ("x", "w")}
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    np.savez(folder / "in.npz", **inputs)  # type: ignore[arg-type]
    return carve(import_model(str(path), input_files=[folder / "in.npz"]), folder / "made.suite", name="made")


def dispatches(suite: Suite, folder: Path) -> tuple[CompiledFiles, list[Dispatch]]:
    files = CompiledFiles(build(suite, folder / "made.tapml").path)
    code = files.model.functions["main"].code
    return files, [found for found in code if isinstance(found, Dispatch)]


def test_two_that_do_not_need_each_other_are_one_dispatch(server: Server, tmp_path: Path) -> None:
    suite = carved_of(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
    _, found = dispatches(suite, tmp_path)
    nodes = [node.id for node in suite.program.main.nodes]
    together = [[part.node for part in one.parts] for one in found if one.parts]
    assert len(found) < len(nodes)
    assert [len(one) for one in together] == [2]
    assert sorted(node or "" for one in found for node in [part.node for part in one.each]) == nodes
    check_everywhere(suite, server)


def test_a_capture_has_each_of_them(server: Server, tmp_path: Path) -> None:
    suite = carved_of(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
    files, (first, *_) = dispatches(suite, tmp_path)
    assert [files.model.kernels[part.kernel].kernel for part in first.parts] == ["matmul", "matmul"]
    asked = CaptureOptions(nodes=[first.parts[1].node or ""])
    for capture, wanted in ((asked, 1), (CaptureOptions(nodes=["matmul"]), 3), (CaptureOptions(), 4)):
        run = run_compiled(
            server.state.device("node-dawn"), server.state.blobs, files, carved_inputs(suite), capture=capture
        )
        assert run.capture is not None
        path = tmp_path / f"{wanted}.capture"
        path.write_bytes(run.capture)
        calls = tml.import_capture(path, suite.path)
        assert [one.verdict for one in calls] == ["pass"] * wanted
        assert not any(one.notes for one in calls)


def test_what_needs_another_is_behind_it(server: Server, tmp_path: Path) -> None:
    suite = carved_of("a = MatMul(x, w) b = MatMul(a, w) c = MatMul(b, x) y = Softmax(c)", tmp_path)
    _, found = dispatches(suite, tmp_path)
    assert not any(one.parts for one in found)


@pytest.mark.parametrize("most", ["MOST_WORKGROUPS", "MOST_BINDINGS", "MAX_WGSL_BYTES"])
def test_what_is_too_large_together_stays_apart(most: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = carved_of(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
    monkeypatch.setattr(f"tapml.building.side_by_side.{most}", 1)
    _, found = dispatches(suite, tmp_path)
    assert not any(one.parts for one in found)


def launch(*uniforms: Any, grid: tuple[int, int, int] = (1, 1, 1)) -> Any:
    return {"operands": [{"argument": 0}, {"argument": 1}], "uniforms": list(uniforms), "grid": list(grid)}


def entry(name: str = "main", size: tuple[int, int, int] = (64, 1, 1), uniform: bool = False) -> Any:
    bindings = [{"binding": 0, "access": "read"}, {"binding": 1, "access": "read_write"}]
    more = [{"binding": 2, "access": "uniform"}] if uniform else []
    return {"name": name, "workgroup_size": list(size), "bindings": bindings + more}


PLAIN = """@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;
var<workgroup> sums : array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_index) lane : u32) {
  // let x = y;
  sums[lane] = x[lane];
  workgroupBarrier();
  y[lane] = sums[63u - lane] + f32(group.x);
}
"""
COUNTED = """struct Counts { first : u32, second : f32 }
@group(0) @binding(2) var<uniform> counts : Counts;
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id : vec3<u32>, @builtin(num_workgroups) all : vec3<u32>) {
  if (id.x < counts.first) { y[id.x] = x[id.x] * counts.second + f32(all.y); }
}
"""
FIRST = {"name": "first", "dtype": "uint32", "value": 17}
SECOND = {"name": "second", "dtype": "float32", "value": 0.1}


def test_names_are_each_parts_own_and_workgroup_memory_is_shared() -> None:
    parts = [Part(PLAIN, entry(), launch(grid=(2, 1, 1))), Part(PLAIN, entry(), launch())]
    found = merged(parts, [[0, 1], [0, 2]], ["plain", "plain"])
    assert [(one["binding"], one["access"]) for one in found.bindings] == [
        (0, "read"), (1, "read_write"), (2, "read_write"),
    ]  # fmt: skip
    assert (list(found.operands), found.workgroups, list(found.own_memory)) == ([0, 1, 2], 3, [True, False])
    assert found.wgsl.count("var<workgroup>") == 1
    assert "// let x = y;" in found.wgsl
    assert "part_1_y[lane] = part_0_sums[63u - lane] + f32(group.x);" in found.wgsl


def test_numbers_that_are_fixed_are_in_the_text_and_others_in_one_uniform() -> None:
    half = {**SECOND, "value": ["mul", "n", 2]}
    parts = [
        Part(COUNTED, entry(uniform=True), launch(FIRST, SECOND, grid=(3, 2, 1))),
        Part(COUNTED, entry(uniform=True), launch(FIRST, half)),
    ]
    found = merged(parts, [[0, 1], [2, 3]], ["counted", "counted"])
    assert [one["value"] for one in found.uniforms] == [["mul", "n", 2]]
    assert "id.x < 17u" in found.wgsl
    assert f"({float(np.float32(0.1)).hex()}f)" in found.wgsl
    assert "* whole_uniforms.number_0" in found.wgsl
    assert "if (whole_group.x < 6u) {" in found.wgsl
    assert "vec3<u32>(3u, 2u, 1u)" in found.wgsl


def test_a_uniform_that_is_fixed_is_no_binding() -> None:
    text = without_fixed(COUNTED, [FIRST, SECOND])
    assert text is not None
    assert "uniform" not in text
    assert "Counts" not in text
    assert "id.x < 17u" in text
    assert without_fixed(COUNTED, [{**FIRST, "value": "n"}, SECOND]) is None
    # What divides by a constant 0, where it never runs, would be no WGSL.
    assert without_fixed(COUNTED, [{**FIRST, "value": 0}, SECOND]) is None
    assert without_fixed(COUNTED.replace("counts.first", "take(counts)"), [FIRST, SECOND]) is None
    assert without_fixed(COUNTED, [FIRST]) is None


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("fn main", "/* fn main"),
        PLAIN.replace("@builtin(workgroup_id) group : vec3<u32>", "in : Inputs"),
        PLAIN.replace("workgroup_id", "subgroup_id"),
        "override width : u32 = 4u;\n" + PLAIN,
        "requires packed_4x8_integer_dot_product;\n" + PLAIN,
        PLAIN + "@compute @workgroup_size(1) fn other() {}",
        PLAIN.replace("@binding(1)", "@binding(FIRST)"),
        PLAIN.replace("@binding(1)", "@binding(7)"),
        PLAIN + "fn unfinished() {",
        "",
    ],
)
def test_a_text_that_is_not_understood_stays_alone(text: str) -> None:
    with pytest.raises(NotUnderstood):
        Part(text, entry(), launch())


def test_names_that_the_dispatch_of_all_has_are_not_understood() -> None:
    parts = [Part(PLAIN.replace("lane", "whole_group"), entry(), launch()), Part(PLAIN, entry(), launch())]
    with pytest.raises(NotUnderstood):
        merged(parts, [[0, 1], [0, 2]], ["plain", "plain"])


def test_members_and_attributes_keep_their_names() -> None:
    text = """const size = 4u;
struct Pair { size : u32, other : array<u32, size> }
fn of(pair : Pair) -> u32 { let size = pair.size; return size; }
"""
    module = Module(text)
    assert module.names == ["size", "Pair", "of"]
    used = [[module.texts[place] for place in module.uses(declared)] for declared in module.declarations]
    assert used == [["size"], ["Pair", "size"], ["of", "Pair", "size", "size"]]
    assert module.members("Pair") == ["size", "other"]
