"""What a kernel does is counted in its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapml.compilers.auto.cost import Cost, cost
from tapml.compilers.auto.counting import Counts
from tapml.compilers.auto.integers import value_of
from tapml.compilers.auto.kept import Uniforms, kept
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, workgroup_size

HEAD = """
@group(0) @binding(0) var<storage, read> x : array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;
struct Size { n : i32 }
@group(0) @binding(2) var<uniform> size : Size;
var<workgroup> sums : array<f32, 64>;
fn twice(at : i32) -> vec4<f32> {
  return x[at] + x[at]; // a comment, with [ in it
}
"""


def counted(body: str, size: int = 64, groups: Any = 2, sizes: dict[str, int] | None = None, head: str = HEAD) -> Cost:
    text = (
        f"{head}@compute @workgroup_size({size})\nfn main(@builtin(workgroup_id) group : vec3<u32>, "
        f"@builtin(local_invocation_index) local : u32) {{\n{body}\n}}"
    )
    point = {"name": "main", "file": "k.wgsl", "workgroup_size": workgroup_size(text), "bindings": bindings(text)}
    launch = {
        "entry_point": "main", "operands": [], "grid": [groups, 1, 1],
        "uniforms": [{"name": "n", "dtype": "int32", "value": "n"}] if sizes else [],
    }  # fmt: skip
    variant = {"entry_points": [point], "launches": [launch]}
    found = cost(CompiledKernel({}, [WgslFile("k.wgsl", text)]), variant, sizes or {})
    assert found is not None
    return found


def test_a_loop_counts_as_often_as_it_goes_round() -> None:
    once, often = counted("y[0] = x[0].x;"), counted("for (var i = 0; i < 10; i++) {\n y[i] = x[i].x;\n}")
    assert once.reads == 2 * 64 * 2
    assert often.reads == 10 * once.reads
    assert often.bytes == 10 * once.bytes == 10 * 2 * 64 * (16 + 4)


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        ("var k = 4; k < 20; k += 4", 4),
        ("var half = 32; half > 0; half /= 2", 6),
        ("var i : i32 = 0i; i < 16i; i++", 16),
        ("var i = 9; i >= 0; i--", 10),
        ("var k = i32(local) * 4; k < (17 + 3) * 2; k += 8", 5),
    ],
)
def test_ends_of_loops_are_worked_out(loop: str, turns: int) -> None:
    assert counted(f"for ({loop}) {{ workgroupBarrier(); }}", groups=1).barriers == 64 * turns


def test_sizes_that_a_call_gives_are_known() -> None:
    found = counted("for (var i = 0; i < size.n; i++) { y[i] = 0.0; }", groups="n", sizes={"n": 5})
    assert found.workgroups == 5
    assert found.reads == 5 * 64 * 5


def test_what_a_function_does_counts_where_it_is_called() -> None:
    assert counted("y[0] = twice(0).x;").reads == 2 * 64 * 3


def test_operations_on_vectors_are_of_each_element() -> None:
    scalar = counted("let a = f32(local);\n let b = a * a;").operations
    vector = counted("let a = x[0];\n let b = a * a;").operations
    assert vector == 4 * scalar


def test_workgroup_memory_and_waiting_are_told_apart() -> None:
    found = counted("sums[local] = 0.0;\n workgroupBarrier();\n y[0] = sums[0];", size=32, groups=3)
    assert (found.shared, found.barriers, found.suspended) == (2 * 96, 96, 96)
    assert counted("y[0] = 1.0;").suspended == 0


def test_what_only_ends_an_invocation_costs_nothing() -> None:
    left = counted("if (local >= 3u) { return; }\n y[0] = 1.0;")
    assert left.reads == counted("y[0] = 1.0;").reads


def test_what_arrays_are_called_does_not_matter() -> None:
    """Long names are put short, also where one ends as another does, and where something else has one in its name."""
    body = "sums[local] = x[0].x;\n workgroupBarrier();\n if (local < 8u) {\n  y[local] = sums[local] + twice(1).y;\n }"
    short = counted(body)
    renamed = {"x :": "of_the_encoder_ptr :", "x[": "of_the_encoder_ptr[", "y :": "out_of_the_encoder_ptr :",
               "sums :": "sums_of_the_encoder_shared :"}  # fmt: skip
    long = HEAD
    for old, new in renamed.items():
        assert old in long
        long = long.replace(old, new)
    body = body.replace("x[", "of_the_encoder_ptr[").replace("y[", "out_of_the_encoder_ptr[")
    assert counted(body.replace("sums[", "sums_of_the_encoder_shared["), head=long) == short


def test_braces_in_comments_are_none_of_the_text() -> None:
    plain = counted("for (var i = 0; i < 10; i++) {\n y[i] = x[i].x;\n}")
    said = counted("for (var i = 0; i < 10; i++) { // of {a}, {b\n y[i] = x[i].x; // }\n}")
    assert said == plain
    assert counted("/* { */ for (var i = 0; i < 10; i++) {\n y[i] = /* } */ x[i].x;\n}") == plain


def test_statements_alike_are_of_vectors_where_a_text_has_vectors() -> None:
    """The same piece of two texts, read once: what its names are is another thing in each."""
    piece = "{ a = fma(b, c, a);\n a = max(a, c); }"
    numbers = counted(f"var a : f32; var b : f32; var c : f32; {piece}").operations
    vectors = counted(f"var a : vec4<f32>; var b : vec4<f32>; var c : vec4<f32>; {piece}").operations
    assert vectors == 4 * numbers > 0


def test_expressions_that_differ_in_numbers_are_computed_each() -> None:
    same = counted("y[(local * 4) + 1] = y[(local * 4) + 1];").operations
    others = counted("y[(local * 4) + 1] = y[(local * 8) + 1];").operations
    assert others - same == 2 * 64 * 2


def test_a_declaration_of_a_vector_that_is_taken_apart_is_one_of_a_number() -> None:
    whole, part = counted("let a = x[0];\n let b = a * a;"), counted("let a = x[0].x;\n let b = a * a;")
    assert (whole.reads, whole.operations) == (part.reads, 4 * part.operations)


def test_what_stands_in_brackets_twice_is_computed_once() -> None:
    once = counted("y[0] = f32((local + 3u) * 7u);").operations
    assert counted("y[0] = f32((local + 3u) * 7u);\n y[1] = f32((local + 3u) * 7u);").operations == once
    # But for what is read: that may have changed.
    assert counted("y[0] = (x[0].x + 1.0) * 2.0;\n y[1] = (x[0].x + 1.0) * 2.0;").reads == 2 * 64 * 4


def test_statements_go_on_behind_blocks_in_them() -> None:
    """As the ways of a `switch` do, which have no keyword that begins a block."""
    body = "switch (local) { case 0u: { y[0] = x[0].x; } default: { y[1] = x[1].x; } }\n y[2] = x[2].x;"
    assert counted(body).reads == 2 * 64 * 6


def test_a_text_that_is_none_has_no_cost() -> None:
    variant = {
        "entry_points": [{"name": "main", "file": "k.wgsl", "workgroup_size": [1, 1, 1]}],
        "launches": [{"entry_point": "main", "grid": [1, 1, 1], "uniforms": []}],
    }
    for text in ("fn main() {", "", "fn other() {}"):
        assert cost(CompiledKernel({}, [WgslFile("k.wgsl", text)]), variant, {}) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("( 1 + 2 ) * 3", 9), ("- 7 / 2", -3), ("7 % 4", 3), ("min ( 3 , n )", 3),
        ("i32 ( 8u )", 8), ("size . n - 1", 4), ("20 - 5 - 5", 10), ("1 / 0", None), ("m", None), ("1 +", None),
        ("min ( 1 )", None), ("( 1", None), ("1 2", None), ("max ( )", None), ("", None), (". n", None),
    ],
)  # fmt: skip
def test_integers_are_worked_out_where_they_are_known(text: str, value: float | None) -> None:
    assert value_of(text.split(), {"n": 5.0}) == value


def test_what_was_kept_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    texts = []

    def count(text: str, entry_point: str, uniforms: Uniforms) -> Counts:
        texts.append(text)
        return Counts(1.0, 2.0, 0.1 + 0.2)

    assert {kept(count)("a", "main", (("n", n),)) == Counts(1.0, 2.0, 0.1 + 0.2) for n in (1, 2, 1)} == {True}
    assert texts == ["a", "a"]
    for file in tmp_path.rglob("*.json"):
        file.write_text("[1.0, 2.0]")
    assert kept(count)("a", "main", (("n", 1),)) == Counts(1.0, 2.0, 0.1 + 0.2)
    assert texts == ["a"] * 3
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path / "file"))
    assert [kept(count)("b", "main", ()).operations for _ in range(2)] == [1.0, 1.0]
