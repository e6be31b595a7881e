"""Small kernels that do not need each other are one dispatch, which gives what they give."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joined import carved_of, dispatches
from rich.console import Console

import tapml as tml
from everywhere import carved_inputs, check_everywhere
from tapml.building.merged_text import merged
from tapml.building.parts import Part
from tapml.building.uniforms import without_fixed
from tapml.devices.compiled import run_compiled
from tapml.kernels.choice import all_limits
from tapml.kernels.wgsl_module import Module, NotUnderstood
from tapml.protocol.methods import CaptureOptions
from tapml.reports.compiled import model_document, show_kernels
from tapml.server import Server
from tapml.suite import Suite


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is handed on (test_handed_on.py)."""
    monkeypatch.setattr("tapml.building.handed_on.MOST_HANDED_BYTES", 0)


BESIDE = "a = MatMul(x, w) c = MatMul(w, x) b = MatMul(a, a) y = Softmax(b)"


def small(body: str, folder: Path, outputs: str = "float[4, 4] y") -> Suite:
    main = f"main (float[4, 4] x, float[4, 4] w) => ({outputs}) {{ {body} }}"
    return carved_of(main, dict.fromkeys(("x", "w"), (4, 4)), folder)


def test_two_that_do_not_need_each_other_are_one_dispatch(server: Server, tmp_path: Path) -> None:
    suite = small(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
    _, found = dispatches(suite, tmp_path)
    nodes = [node.id for node in suite.program.main.nodes]
    together = [[part.node for part in one.parts] for one in found if one.parts]
    assert len(found) < len(nodes)
    assert [len(one) for one in together] == [2]
    assert sorted(node or "" for one in found for node in [part.node for part in one.each]) == nodes
    check_everywhere(suite, server)


def test_what_is_shown_of_each_kernel_adds_up(tmp_path: Path) -> None:
    files, found = dispatches(small(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y"), tmp_path)
    kernels = model_document(files.model, "made.tapml", 1)["kernels"]
    assert sum(kernel["dispatches"].get("main", 0) for kernel in kernels) == len(found)
    told = {kernel["kernel"]: (kernel["dispatches"], kernel["parts"]) for kernel in kernels}
    assert told["matmul"] == ({"main": 1}, {"main": 2})
    assert told["softmax"] == ({"main": 1}, {})
    out = io.StringIO()
    show_kernels(Console(file=out, width=300), files.model)
    head, *rows = out.getvalue().split("\n")[1:-1]
    assert head.split() == ["kernel", "dispatches", "parts", "variants", "validated"]
    assert sum(int(row.split()[1]) for row in rows) == len(found)
    assert sum(int(row.split()[2]) for row in rows) == 2


def test_a_capture_has_each_of_them(server: Server, tmp_path: Path) -> None:
    suite = small(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
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


def test_what_needs_another_stays_behind_it(tmp_path: Path) -> None:
    suite = small("a = MatMul(x, w) b = MatMul(a, w) c = MatMul(b, x) y = Softmax(c)", tmp_path)
    _, found = dispatches(suite, tmp_path)
    assert not any(one.parts for one in found)


@pytest.mark.parametrize("most", ["MOST_WORKGROUPS", "MOST_BINDINGS", "MAX_WGSL_BYTES"])
def test_what_is_too_large_together_stays_apart(most: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = small(BESIDE, tmp_path, "float[4, 4] a, float[4, 4] c, float[4, 4] y")
    monkeypatch.setattr(f"tapml.building.groups.{most}", 1)
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
    assert (list(found.operands), found.workgroups, list(found.memory)) == ([0, 1, 2], 3, [1, 0])
    assert found.wgsl.count("var<workgroup>") == 1
    assert "// let x = y;" in found.wgsl
    assert "part_1_y[lane] = part_0_sums[63u - lane] + f32(group.x);" in found.wgsl


SMALL = COUNTED.replace("(64)", "(4, 2)")


def test_workgroups_of_several_sizes_are_those_of_the_largest() -> None:
    fixed = launch(FIRST, SECOND, grid=(9, 1, 1))
    parts = [Part(SMALL, entry(size=(4, 2, 1), uniform=True), fixed), Part(PLAIN, entry(), launch(grid=(2, 1, 1)))]
    found = merged(parts, [[0, 1], [0, 2]], ["small", "plain"])
    # Eight of the small ones are one: the ninth is the first of a second one.
    assert (list(found.size), found.workgroups) == ([64, 1, 1], 4)
    lines = [" ".join(line.split()) for line in found.wgsl.splitlines()]
    assert "let whole_lane = whole_local_invocation_index % 8u;" in lines
    assert "let whole_part = whole_number * 8u + whole_local_invocation_index / 8u;" in lines
    inside = "vec3<u32>(whole_lane % 4u, whole_lane / 4u % 2u, whole_lane / 8u)"
    given = f"vec3<u32>(whole_part, 0u, 0u) * vec3<u32>(4u, 2u, 1u) + {inside}, vec3<u32>(9u, 1u, 1u)"
    assert f"if (whole_part < 9u) {{ part_0_main({given}); }}" in lines


@pytest.mark.parametrize(
    "text",
    [
        # What waits for others of its workgroup, or shares memory with them.
        PLAIN.replace("(64)", "(8)"),
        COUNTED.replace("(64)", "(8)").replace("if (id", "storageBarrier(); if (id"),
        # Not several in one of 64.
        COUNTED.replace("(64)", "(12)"),
        # Whose number in a subgroup it knows.
        "enable subgroups;\n" + COUNTED.replace("(64)", "(8)"),
    ],
)
def test_what_is_not_several_of_a_workgroup_stays_apart(text: str) -> None:
    size, uniform = (12 if "(12)" in text else 8, 1, 1), "counts" in text
    uniforms = [FIRST, SECOND] if uniform else []
    parts = [Part(text, entry(size=size, uniform=uniform), launch(*uniforms)), Part(PLAIN, entry(), launch())]
    with pytest.raises(NotUnderstood):
        merged(parts, [[0, 1], [0, 2]], ["small", "plain"])


def test_a_workgroup_of_another_shape_waits_as_it_does_alone() -> None:
    square = PLAIN.replace("(64)", "(8, 8)")
    parts = [Part(square, entry(size=(8, 8, 1)), launch(grid=(3, 1, 1))), Part(PLAIN, entry(), launch())]
    found = merged(parts, [[0, 1], [0, 2]], ["square", "plain"])
    assert (list(found.size), found.workgroups) == ([8, 8, 1], 4)
    assert "part_1_main(vec3<u32>(0u, 0u, 0u), whole_lane);" in found.wgsl


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


def test_of_limits_what_all_of_them_ask_for_is_asked() -> None:
    one = {"subgroupMaxSize": 32, "minStorageBufferOffsetAlignment": 256, "maxComputeWorkgroupSizeX": 64}
    other = {"subgroupMaxSize": 64, "minStorageBufferOffsetAlignment": 32, "maxBufferSize": 4}
    assert all_limits([one, other]) == {
        "subgroupMaxSize": 32, "minStorageBufferOffsetAlignment": 32, "maxComputeWorkgroupSizeX": 64,
        "maxBufferSize": 4,
    }  # fmt: skip
