"""Workgroup memory that is written and read with no barrier between is named by its lines, and nothing else is."""

from __future__ import annotations

import random
import re
import sys

import pytest
from benchmarks.hostile.mutate import mutate_wgsl
from hypothesis import given, settings
from hypothesis import strategies as st

from tapml.locating.barriers import unordered
from tapml.locating.ordering import Unordered

TREE = """\
@group(0) @binding(0) var<storage, read_write> y : array<f32>;
@group(0) @binding(1) var<storage, read> x : array<f32>;
var<workgroup> red : array<f32, 64>;
@compute @workgroup_size(64)
fn total(@builtin(local_invocation_id) id : vec3<u32>) {
  red[id.x] = x[id.x];
  for (var step = 32u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (id.x < step) {
      red[id.x] = red[id.x] + red[id.x + step];
    }
  }
  workgroupBarrier();
  if (id.x == 0u) { y[0] = red[0]; }
}
"""
TILES = """\
@group(0) @binding(0) var<storage, read_write> y : array<f32>;
@group(0) @binding(1) var<storage, read> x : array<f32>;
var<workgroup> tile : array<f32, 8>;
@compute @workgroup_size(8)
fn sums(@builtin(local_invocation_id) id : vec3<u32>) {
  var total = 0.0;
  for (var k = 0u; k < 4u; k++) {
    workgroupBarrier();
    tile[id.x] = x[8u * k + id.x];
    workgroupBarrier();
    for (var i = 0u; i < 8u; i++) {
      total += tile[i];
    }
  }
  y[id.x] = total;
}
"""


def dropped(text: str, number: int) -> str:
    """Without one of its barriers, but with as many lines."""
    places = [match.span() for match in re.finditer(r"workgroupBarrier\(\);", text)]
    start, end = places[number]
    return text[:start] + text[end:]


@pytest.mark.parametrize("text", [TREE, TILES])
def test_a_kernel_with_its_barriers(text: str) -> None:
    assert unordered(text) is None


@pytest.mark.parametrize(
    ("text", "number", "array", "written", "read"),
    [
        (TREE, 0, "red", 6, 10),  # in the first turn
        (TILES, 0, "tile", 9, 12),  # of the turn before
        (TILES, 1, "tile", 9, 12),
    ],
)
def test_a_barrier_that_is_missing(text: str, number: int, array: str, written: int, read: int) -> None:
    found = unordered(dropped(text, number))
    assert found is not None
    assert (found.variable, found.written, found.read) == (array, written, read)
    assert f"writes workgroup memory {array} in line {written}" in found.words()


def test_a_barrier_that_orders_an_invocation_with_itself_alone() -> None:
    assert unordered(dropped(TREE, 1)) is None, "what the first invocation reads it wrote itself"
    assert unordered(dropped(TREE, 1).replace("y[0] = red[0]", "y[0] = red[1]")) is not None


def test_what_is_stored_on_a_condition_is_not_read() -> None:
    line = "    tile[id.x] = x[8u * k + id.x];"
    assert line in TILES
    assert unordered(TILES.replace(line, "    if (k == 0u) { tile[id.x] = x[id.x]; tile[id.x ^ 1u] = 0.0; }")) is None


def test_what_is_no_array_of_a_workgroup() -> None:
    assert unordered("fn f() { y[0] = x[1]; }") is None
    assert unordered(TREE.replace("var<workgroup> red", "var<private> red")) is None


BODY = """\
var<workgroup> tile : array<f32, 64>;
var<workgroup> sum : f32;
var<workgroup> counts : array<atomic<u32>, 4>;
fn together() {{ workgroupBarrier(); }}
fn meet() {{ together(); }}
@compute @workgroup_size(64)
fn f(@builtin(local_invocation_id) id : vec3<u32>, @builtin(local_invocation_index) i : u32) {{
{}
workgroupBarrier();
}}
"""


@pytest.mark.parametrize(
    "body",
    [
        "tile[i] = 1.0; workgroupBarrier(); y[i] = tile[i ^ 1u];",  # in one line
        "tile[i] = 1.0;\n/* a /* comment */ tile[0] */ workgroupBarrier();\ny[i] = tile[i ^ 1u];",
        "tile[i] = 1.0; let s = workgroupUniformLoad(&sum); y[i] = tile[i ^ 1u];",
        "tile[i] = 1.0; meet(); y[i] = tile[i ^ 1u];",
        "tile[i] = 1.0; y[i] = tile[(i)];",
        "let a = i32(id.x); tile[a + 1i] = 1.0; y[i] = tile[i32(id.x) + 1];",
        "tile[2u * id.x] = 1.0; y[i] = tile[id.x * 2u] + tile[id.x << 1u];",  # spelled otherwise
        "if (i == 0u) { sum = 1.0; sum = sum + 1.0; y[0] = sum; }",
        "if (i < 1u) { tile[i] = 1.0; } if (i == 0u) { y[0] = tile[0]; }",
        "if (n == 0u) { tile[i] = 1.0; } else { y[i] = tile[i + 1u]; }",
        "if (n == 0u) { tile[i] = 1.0; } else if (n == 1u) { y[i] = tile[i + 1u]; } else { y[i] = tile[i + 2u]; }",
        "atomicAdd(&counts[i % 4u], 1u); y[i] = atomicLoad(&counts[0]);",
        "y[i] = foo.tile[i + 1u]; tile[i] = 1.0;",
        "tile[i].x = 1.0; y[i] = tile[i].y;",
        "if (i < 8u) { tile[i + 8u] = 1.0; } y[i] = tile[i & 7u];",
    ],
)
def test_what_is_ordered(body: str) -> None:
    assert unordered(BODY.format(body)) is None


@pytest.mark.parametrize(
    ("body", "array", "written", "read"),
    [
        ("tile[i] = 1.0; y[i] = tile[i ^ 1u];", "tile", 1, 1),
        ("tile[i] = 1.0;\n/* workgroupBarrier();\n*/ y[i] = tile[i ^ 1u];", "tile", 1, 3),
        ("tile[i] = 1.0; // workgroupBarrier();\ny[i] = tile[i ^ 1u];", "tile", 1, 2),
        ("if (i == 0u) { sum = 1.0; }\ny[i] = sum;", "sum", 1, 2),
        ("if (i == 0u) { tile[0] = 1.0; }\ny[i] = tile[0];", "tile", 1, 2),
        ("if (i == 0u) { sum = 1.0; }\nif (i == 1u) { y[i] = sum; }", "sum", 1, 2),
        ("tile[i] += 1.0;\nif (n == 0u) { y[i] = tile[i + 1u]; } else { y[i] = 0.0; }", "tile", 1, 2),
        ("for (var k = 0u; k < 4u; k++) {\ny[i] = tile[k];\nworkgroupBarrier(); tile[i] = 1.0; }", "tile", 3, 2),
        ("while (n > 0u) { loop {\ny[i] = tile[i + 1u];\nmeet(); break; }\ntile[i] = 1.0; }", "tile", 4, 2),
        ("let a = i + 1u; tile[a] = 1.0;\ny[i] = tile[i];", "tile", 1, 2),
        ("storageBarrier(); tile[i] = 1.0; storageBarrier(); y[i] = tile[i ^ 1u];", "tile", 1, 1),
    ],
)
def test_what_is_not_ordered(body: str, array: str, written: int, read: int) -> None:
    begun = BODY[: BODY.index("{}\n")].count("\n")
    assert unordered(BODY.format(body)) == Unordered(array, begun + written, begun + read)


def test_one_invocation_alone() -> None:
    body = BODY.format("tile[i] = 1.0; y[i] = tile[i ^ 1u];")
    assert unordered(body) is not None
    assert unordered(body.replace("workgroup_size(64)", "workgroup_size(1, 1, 1)")) is None


_TEXT = """
tile sum [ ] ( ) { } ; = + - * < & && i 0 2u id . x if else for while loop switch case return let var a fn meet : , @
workgroupBarrier workgroupUniformLoad var<workgroup> // /* */
"""
TOKENS = (*_TEXT.split(), "\n")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=120).map(" ".join) | st.text(max_size=300), st.booleans())
def test_any_text_is_read(text: str, within: bool) -> None:
    """Whatever it holds; and what is said of it are two of its lines that name the variable."""
    whole = BODY.format(text) if within else BODY.format("") + text
    found = unordered(whole)
    if found is not None:
        lines = whole.split("\n")
        assert all(found.variable in lines[number - 1] for number in (found.written, found.read))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_barriers_between_all_statements_order_them(data: st.DataObject) -> None:
    index = st.sampled_from(("i", "i + 1u", "0", "63u - i", "k", "id.x", "i ^ 1u"))
    statement = st.builds("tile[{}] = 1.0;".format, index) | st.builds("y[i] += tile[{}];".format, index)
    block = st.recursive(
        statement,
        lambda inner: st.builds(
            "{} {{ BARRIER {} BARRIER }}".format,
            st.sampled_from(("if (i < n)", "for (var k = 0u; k < 4u; k++)", "loop", "if (i == 0u)")),
            st.lists(inner, max_size=4).map(" BARRIER ".join),
        ),
        max_leaves=12,
    )
    body = BODY.format(" BARRIER ".join(data.draw(st.lists(block, max_size=6))))
    assert unordered(body.replace("BARRIER", "workgroupBarrier();")) is None


@pytest.mark.parametrize("seed", range(24))
def test_hostile_texts_are_read_in_proportion_to_their_length(seed: int) -> None:
    """Those of `make bench-hostile`."""
    text = mutate_wgsl(BODY.format("tile[i] = 1.0;"), random.Random(seed))
    assert _calls(text) < 60 * len(text) + 2_000_000


NAMES = [f"a{number}" for number in range(60)]
SHARED = "".join(f"var<workgroup> {name} : array<f32, 1024>;\n" for name in NAMES)
ENTRY = "@compute @workgroup_size(1024) fn f{}(@builtin(local_invocation_index) i : u32) {{ {} }}\n"
OWN = "".join(f"{name}[i] = {name}[i + 0u]; {name}[i * 1u] = {name}[0u + i];" for name in NAMES)
LOOPS = "loop {" * 110 + OWN + "}" * 110
CHAIN = "let z0 = i;" + "".join(f"let z{place + 1} = z{place};" for place in range(190))
CHAIN += "".join(f"a0[z190 + {k}u - {k}u] = a0[z190 + 0u + {k}u - {k}u];" for k in range(30))


@pytest.mark.parametrize(
    "functions", [[LOOPS * 16], [CHAIN] * 32], ids=["deep loops of many variables", "long chains of names"]
)
def test_what_one_text_takes_is_bounded(functions: list[str]) -> None:
    """Of all its functions and loops together: each by itself is within what a function may take."""
    text = SHARED + "".join(ENTRY.format(number, body) for number, body in enumerate(functions))
    assert unordered(text) is None
    assert _calls(text) < 8_000_000


def _calls(text: str) -> int:
    """Of functions, while it is read."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        unordered(text)
    finally:
        sys.setprofile(None)
    return calls


def test_a_text_of_many_loops_ends() -> None:
    loops = "for (;;) {\n" * 60
    assert unordered(f"var<workgroup> a : array<f32, 4>;\n{loops}workgroupBarrier();\n{'}' * 60}") is None
