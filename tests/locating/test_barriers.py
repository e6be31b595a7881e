"""Workgroup memory that is written and read with no barrier between is named by its lines, and nothing else is."""

from __future__ import annotations

import re

import pytest

from tapml.locating.barriers import unordered

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
        (TREE, 1, "red", 10, 14),
        (TILES, 0, "tile", 9, 12),  # of the turn before
        (TILES, 1, "tile", 9, 12),
    ],
)
def test_a_barrier_that_is_missing(text: str, number: int, array: str, written: int, read: int) -> None:
    found = unordered(dropped(text, number))
    assert found is not None
    assert (found.array, found.written, found.read) == (array, written, read)
    assert f"writes workgroup memory {array} in line {written}" in found.words()


def test_what_is_stored_on_a_condition_is_not_read() -> None:
    line = "    tile[id.x] = x[8u * k + id.x];"
    assert line in TILES
    assert unordered(TILES.replace(line, "    if (k == 0u) { tile[id.x] = x[id.x]; tile[id.x ^ 1u] = 0.0; }")) is None


def test_what_is_no_array_of_a_workgroup() -> None:
    assert unordered("fn f() { y[0] = x[1]; }") is None
    assert unordered(TREE.replace("var<workgroup> red", "var<private> red")) is None


def test_a_text_of_many_loops_ends() -> None:
    loops = "for (;;) {\n" * 60
    assert unordered(f"var<workgroup> a : array<f32, 4>;\n{loops}workgroupBarrier();\n{'}' * 60}") is None
