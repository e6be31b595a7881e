"""Kernels of which one reads what another writes are one dispatch, which gives what they give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined import carved_of, dispatches

import tapml as tml
from everywhere import carved_inputs, check_everywhere, check_outputs
from tapml.building.merged_text import merged
from tapml.building.parts import Handed, Part, reader
from tapml.building.same_element import hands_on
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.protocol.methods import CaptureOptions
from tapml.server import Server
from tapml.suite import Suite


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


NORMED = """s = Mul(x, x) m = ReduceMean <keepdims = 1> (s, axes) e = Add(m, tiny) r = Sqrt(e) n = Div(x, r)
    a = MatMul(n, w) g = Sigmoid(a) h = Mul(a, g) u = MatMul(n, v) t = Mul(u, h) y = MatMul(t, o)"""
"""A norm of a token, a gated product and another one, as a Llama's."""


def normed(folder: Path, outputs: str = "float[1, 48] y", hidden: int = 80) -> Suite:
    main = f"""main (float[1, 48] x, float[48, {hidden}] w, float[48, {hidden}] v, float[{hidden}, 48] o) => ({outputs})
    <int64[1] axes = {{1}}, float tiny = {{0.00001}}> {{ {NORMED} }}"""
    return carved_of(main, {"x": (1, 48), "w": (48, hidden), "v": (48, hidden), "o": (hidden, 48)}, folder)


@pytest.mark.parametrize("hidden", [80, 96])
def test_a_norm_and_a_gated_product_are_one_dispatch(server: Server, tmp_path: Path, hidden: int) -> None:
    suite = normed(tmp_path, hidden=hidden)
    _, found = dispatches(suite, tmp_path)
    nodes = [node.id for node in suite.program.main.nodes if node.kernel]
    assert [part.node for one in found for part in one.each] == nodes
    assert len(found[0].parts) >= 3
    assert len(found) <= 2
    check_everywhere(suite, server)


def test_what_is_handed_on_is_read_by_others_and_captured(server: Server, tmp_path: Path) -> None:
    suite = normed(tmp_path, "float[1, 48] y, float[1, 48] n, float[1, 80] h")
    files, found = dispatches(suite, tmp_path)
    assert any(one.parts for one in found)
    check_everywhere(suite, server)
    device, blobs = server.state.device("node-dawn"), server.state.blobs
    run = run_compiled(device, blobs, files, carved_inputs(suite), capture=CaptureOptions())
    assert run.capture is not None
    (tmp_path / "all.capture").write_bytes(run.capture)
    calls = tml.import_capture(tmp_path / "all.capture", suite.path)
    assert [one.verdict for one in calls] == ["pass"] * sum(len(one.each) for one in found)
    assert not any(one.notes for one in calls)


@pytest.mark.parametrize("least", ["MOST_HANDED_BYTES", "MOST_READ_BYTES", "_WINDOW"])
def test_what_is_large_is_done_once(least: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = normed(tmp_path)
    monkeypatch.setattr(f"tapml.building.handed_on.{least}", 0)
    _, found = dispatches(suite, tmp_path)
    assert not any("n000" in (part.node for part in one.parts) for one in found)


def test_what_reads_much_is_not_in_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second reads 15,872 bytes: 48 numbers, 48 times 80 weights, and the 80 numbers of the first."""
    together = {}
    for most in (15_872, 15_871):
        monkeypatch.setattr("tapml.building.handed_on.MOST_READ_IN_A_ROW", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        files, found = dispatches(normed(folder), folder)
        names = [[files.model.kernels[part.kernel].kernel for part in one.each] for one in found]
        together[most] = any(sum("matmul" in name for name in of_one) > 1 for of_one in names)
    assert together == {15_872: True, 15_871: False}


def test_more_bindings_than_a_kernel_may_have_are_not_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = normed(tmp_path)
    for most in ("MOST_BINDINGS", "MOST_HANDING_BINDINGS"):
        monkeypatch.setattr(f"tapml.building.groups.{most}", 3)
    _, found = dispatches(suite, tmp_path)
    assert not any(one.parts for one in found)


def text(body: str, *, name: str = "main", before: str = "", kind: str = "f32", access: str = "read_write") -> str:
    return f"""@group(0) @binding(0) var<storage, read> x : array<{kind}>;
@group(0) @binding(1) var<storage, {access}> y : array<f32>;
@group(0) @binding(2) var<storage, read_write> z : array<f32>;
{before}
@compute @workgroup_size(8)
fn {name}(@builtin(workgroup_id) group : vec3<u32>, @builtin(local_invocation_index) lane : u32) {{
  {body}
}}
"""


def part(wgsl: str, *, grid: int = 4, size: int = 8, access: str = "read_write", name: str = "main") -> Part:
    accesses = ("read", access, "read_write")
    bindings = [{"binding": number, "access": found} for number, found in enumerate(accesses)]
    entry = {"name": name, "workgroup_size": [size, 1, 1], "bindings": bindings}
    operands = [{"argument": number} for number in range(3)]
    return Part(wgsl, entry, {"operands": operands, "uniforms": [], "grid": [grid, 1, 1]})


def handed(producer: str, consumer: str, **options: Any) -> bool:
    first = part(text(producer))
    second = part(text(consumer, access="read"), access="read", **options)
    return hands_on(first, first.storage[1][0], second, second.storage[1][0])


WRITES = "let row = group.x * 8u; if (lane < 7u) { y[row + lane] = x[lane]; }"


@pytest.mark.parametrize(
    "reads",
    [
        "let row = group.x * 8u; if (lane < 7u) { z[row + lane] = y[row + lane] * 2.0; }",
        # Others' names, and a condition more.
        "let first = group.x * 8u; if (lane < 7u) { if (group.x > 1u) { z[0] = exp(y[first + lane]); } }",
        "let row = group.x * 8u; if (lane < 7u) { let found = y[row + lane] + y[row + lane]; z[lane] = found; }",
    ],
)
def test_an_invocation_reads_what_it_wrote(reads: str) -> None:
    assert handed(WRITES, reads)


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        # Of another invocation.
        (WRITES, "let row = group.x * 8u; if (lane < 7u) { z[0] = y[row + (lane ^ 1u)]; }"),
        (WRITES, "let row = group.x * 8u; if (lane < 7u) { z[0] = y[row + 7u - lane]; }"),
        (WRITES, "let row = group.x * 4u; if (lane < 7u) { z[0] = y[row + lane]; }"),
        # Where nothing was written.
        (WRITES, "let row = group.x * 8u; z[0] = y[row + lane];"),
        (WRITES, "let row = group.x * 8u; if (lane < 8u) { z[0] = y[row + lane]; }"),
        (WRITES, "let row = group.x * 8u; if (lane < 7u) { } else { z[0] = y[row + lane]; }"),
        (WRITES, "let row = group.x * 8u; if (lane < 3u) { } else if (lane < 7u) { z[0] = y[row + lane]; }"),
        ("if (lane > 3u) { return; } y[lane] = x[lane];", "z[lane] = y[lane];"),
        ("for (var i = 0u; i < 1u; i++) { if (lane > i) { return; } } y[lane] = x[lane];", "z[lane] = y[lane];"),
        # What may change, or is not known.
        ("var at = lane; y[at] = x[0]; at = 3u;", "var at = lane; at = 4u; z[0] = y[at];"),
        ("for (var i = 0u; i < 2u; i++) { y[lane] = x[i]; }", "z[lane] = y[lane];"),
        ("let at = u32(x[lane]); y[at] = 1.0;", "let at = u32(x[lane]); z[0] = y[at];"),
        ("{ let at = lane; y[at] = 1.0; }", "{ let at = lane; } { let at = 7u - lane; z[0] = y[at]; }"),
        # More than elements, or not written whole.
        (WRITES, "let row = group.x * 8u; if (lane < 7u) { z[0] = y[row + lane] + f32(arrayLength(&y)); }"),
        ("y[lane] += x[lane];", "z[lane] = y[lane];"),
        ("y[lane] = x[lane]; z[lane] = y[7u - lane];", "z[lane] = y[lane];"),
    ],
)  # fmt: skip
def test_what_another_invocation_may_have_written_is_not_handed_on(writes: str, reads: str) -> None:
    assert not handed(writes, reads)


FINISH = """fn finish(row : u32, column : u32, found : vec2<f32>) {
  if (column >= 6u) { return; }
  let at = row * 8u + column;
  y[at] = found.x;
}"""
FINISHED = FINISH.replace("y[at] = found.x;", "z[at] = found.x + y[at];")
CALL = "let place = lane; var sum = vec2<f32>(x[place], 1.0); if (lane < 7u) { finish(group.x, place, sum); }"


@pytest.mark.parametrize(
    ("writes", "reads", "finish", "finished", "wanted"),
    [
        (CALL, CALL, FINISH, FINISHED, True),
        # Conditions more.
        (CALL, "if (lane < 7u) { if (group.x > 1u) { let n = lane; finish(group.x, n, vec2<f32>()); } }", FINISH,
         FINISHED, True),
        (CALL, CALL.replace("if (lane", "if (group.x > 1u) { return; } if (lane"), FINISH, FINISHED, True),
        (CALL, CALL, FINISH, FINISHED.replace("column >= 6u", "column >= 7u"), False),
        (CALL, CALL, FINISH, FINISHED.replace("row * 8u", "row * 4u"), False),
        (CALL, CALL.replace("lane < 7u", "lane < 8u"), FINISH, FINISHED, False),
        (CALL, CALL.replace("group.x, place", "group.x, lane ^ 1u"), FINISH, FINISHED, False),
        # Not called at all, or not always; or from a loop; or of what may change.
        ("let place = lane;", CALL, FINISH, FINISHED, False),
        (CALL.replace("finish(", "let none = lane > 9u && finish("), CALL, FINISH, FINISHED, False),
        (CALL.replace("if (lane", "for (var i = 0u; i < 1u; i++) { if (lane").replace("sum); }", "sum); } }"), CALL,
         FINISH, FINISHED, False),
        (CALL.replace("let place", "var place"), CALL.replace("let place", "var place"), FINISH, FINISHED, False),
        # Leaves before it writes.
        (CALL, CALL, FINISH.replace("let at", "if (found.x > 0.0) { return; } let at"), FINISHED, False),
        (CALL, CALL, FINISH.replace("let at", "for (;;) { return; } let at"), FINISHED, False),
        ("if (lane > 2u) { return; } " + CALL, CALL, FINISH, FINISHED, False),
        # In a function that another one calls.
        (CALL.replace("finish(", "other("), CALL,
         FINISH + "fn other(a : u32, b : u32, c : vec2<f32>) { finish(a, b, c); }", FINISHED, False),
    ],
)  # fmt: skip
def test_functions_write_and_read_as_they_are_called(
    writes: str, reads: str, finish: str, finished: str, wanted: bool
) -> None:
    first = part(text(writes, before=finish))
    second = part(text(reads, before=finished, access="read"), access="read")
    assert hands_on(first, first.storage[1][0], second, second.storage[1][0]) == wanted


def test_kernels_of_other_sizes_hand_nothing_on() -> None:
    assert handed("y[lane] = 1.0;", "z[lane] = y[lane];")
    assert not handed("y[lane] = 1.0;", "z[lane] = y[lane];", grid=3)
    assert not handed("y[lane] = 1.0;", "z[lane] = y[lane];", size=16)


def test_an_early_return_of_both_is_one() -> None:
    assert handed("if (lane > 3u) { return; } y[lane] = 1.0;", "if (lane > 3u) { return; } z[lane] = y[lane];")
    assert not handed("if (lane > 3u) { return; } y[lane] = 1.0;", "z[lane] = y[lane]; if (lane > 3u) { return; }")


SUMS = """sums[lane] = x[lane]; workgroupBarrier();
  if (lane == 0u) { for (var i = 1u; i < 8u; i++) { sums[0] += sums[i]; } } workgroupBarrier();
  y[lane] = x[lane] / sums[0];"""
SHARED = "var<workgroup> sums : array<f32, 8>;"


def test_each_copy_of_what_is_done_again_has_memory_of_its_own() -> None:
    small = part(text(SUMS, before=SHARED), grid=1)
    large = part(text("z[lane] = y[lane];", access="read").replace("(8)", "(16)"), size=16, access="read")
    found = merged([small, large], [[0, 1, 2], [3, 1, 4]], ["small", "large"], [(0, 1)], [Handed(0, 1, 32)])
    assert "var<workgroup> part_0_handed : array<array<f32, 8>, 2>;" in found.wgsl
    assert "var<workgroup> part_0_sums : array<array<f32, 8>, 2>;" in found.wgsl
    assert "part_0_handed[whole_copy][lane] = part_0_x[lane] / part_0_sums[whole_copy][0];" in found.wgsl
    assert "part_1_z[lane] = part_0_handed[0][lane];" in found.wgsl
    assert "if (whole_group.x == 0u) { for" in found.wgsl
    assert (found.handed_bytes, list(found.memory), found.workgroups) == (64, [2, 0], 4)


SMALL = text(SUMS, before=SHARED)
READS = text("z[lane] = y[lane];", access="read")
FOURS = READS.replace("y : array<f32>", "y : array<vec4<f32>>").replace("y[lane]", "y[lane / 4u][lane % 4u]")
BY_ADDRESS = text(f"{SUMS} take(&sums);", before=f"{SHARED} fn take(p : ptr<workgroup, array<f32, 8>>) {{}}")


def test_what_is_handed_on_is_read_as_vectors_of_others() -> None:
    """Each element is as where the tensor lies in memory: numbers one behind the other."""
    first, second = part(SMALL, grid=1), part(FOURS, access="read")
    found = merged([first, second], [[0, 1, 2], [3, 1, 4]], ["small", "fours"], [(0, 1)], [Handed(0, 1, 32)])
    assert "part_1_z[lane] = part_1_y(u32(lane / 4u))[lane % 4u];" in found.wgsl
    numbers = ", ".join(f"part_0_handed[0][at * 4u + {place}u]" for place in range(4))
    assert f"fn part_1_y(at : u32) -> vec4<f32> {{\n  return vec4<f32>({numbers});" in found.wgsl
    assert (
        reader("of", "x", "vec4<f32>", "f32") == "fn of(at : u32) -> f32 {\n  return f32(x[(at) / 4u][(at) % 4u]);\n}\n"
    )
    assert reader("of", "x", "vec4<f32>", "u32") is None


@pytest.mark.parametrize(
    ("first", "second", "size"),
    [
        # Other numbers, and a workgroup that is not several of the small one.
        (SMALL, READS.replace("y : array<f32>", "y : array<u32>").replace("y[lane]", "f32(y[lane])"), 8),
        (SMALL, READS, 12),
        # Addresses, and names that hide.
        (SMALL, text("z[lane] = f32(arrayLength(&y));", access="read"), 8),
        (SMALL, text("let found = &y; z[lane] = (*found)[0];", access="read"), 8),
        (SMALL, text("{ let y = lane; z[y] = 0.0; } z[lane] = y[lane];", access="read"), 8),
        (BY_ADDRESS, READS, 8),
    ],
)
def test_texts_that_do_not_go_together_stay_apart(first: str, second: str, size: int) -> None:
    parts = [part(first, grid=1), part(second.replace("(8)", f"({size})"), size=size, access="read")]
    with pytest.raises(NotUnderstood):
        merged(parts, [[0, 1, 2], [3, 1, 4]], ["first", "second"], [(0, 1)], [Handed(0, 1, 32)])


def test_a_device_of_few_bindings_runs_them_in_turn(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tapml.building.groups.MOST_BINDINGS", 5)
    suite = normed(tmp_path)
    dispatches(suite, tmp_path)
    document = json.loads((tmp_path / "made.tapml" / "model.json").read_text())
    kernel = next(found for found in document["kernels"] if len(found["variants"]) == 2)
    first, second = kernel["variants"]
    needs = [one["requires"]["limits"]["maxStorageBuffersPerShaderStage"] for one in (first, second)]
    assert needs[0] > 5 >= needs[1]
    assert (second["name"], len(second["launches"])) == ("256+in_turn", 2)
    # A device that has the first is made one that has not.
    first["requires"]["limits"]["maxStorageBuffersPerShaderStage"] = 1e9
    (tmp_path / "made.tapml" / "model.json").write_text(json.dumps(document))
    edited = CompiledFiles(tmp_path / "made.tapml")
    run = run_compiled(server.state.device("node-dawn"), server.state.blobs, edited, carved_inputs(suite))
    check_outputs(suite, run)
