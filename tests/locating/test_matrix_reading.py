"""What subgroup matrices take of workgroup memory is read: rectangles that meet what is written with no barrier
between, and others that do not."""

from __future__ import annotations

import random

import pytest
from benchmarks.hostile.mutate import mutate_wgsl

from tapml.locating.barriers import unordered
from tapml.locating.ordering import Unordered

LEFT = "subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>"
BY_COLUMNS = "subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 8>, col_major>"
STORE = "subgroupMatrixStore<row_major>"
BODY = """\
enable chromium_experimental_subgroup_matrix;
var<workgroup> part : array<array<vec4<u32>, 80>, 2>;
var<workgroup> sums : array<vec4<f32>, 256>;
var<workgroup> flat : array<f16, 1024>;
@compute @workgroup_size(64)
fn f(@builtin(local_invocation_index) i : u32, @builtin(subgroup_id) own : u32) {{
var sum = subgroup_matrix_result<f32, 16, 16>();
{}
workgroupBarrier();
}}
"""
_BEGUN = BODY[: BODY.index("{}\n")].count("\n")


@pytest.mark.parametrize(
    "body",
    [
        f"part[0][i] = x; workgroupBarrier(); let a = {LEFT}(&part[own], 0u, 5u);",
        f"part[1][i] = x; let a = {LEFT}(&part[0], 0u, 5u);",  # of another array
        f"part[own][i * 5u + 2u] = x; let a = {LEFT}(&part[own], 0u, 5u);",  # beside its lines
        f"part[own][i * 5u] = x; let a = {LEFT}(&part[own], 2u + 1u, 5u);",
        f"if (i >= 78u) {{ part[own][i] = x; }} let a = {LEFT}(&part[own], 0u, 5u);",  # none is
        f"{STORE}(&sums, 0u, sum, 8u); {STORE}(&sums, 4u, sum, 8u);",  # rows of four vectors
        f"{STORE}(&sums, own * 128u, sum, 8u); y[i] = sums[(1u - i / 32u) * 128u + i % 16u * 8u + 5u];",
        # Sixteen lines of eight numbers: columns, one after the other.
        f"flat[i % 16u * 32u + 8u] = x; let b = {BY_COLUMNS}(&flat, 0u, 32u);",
        f"if (i >= 16u) {{ flat[i * 32u] = x; }} let b = {BY_COLUMNS}(&flat, 0u, 32u);",
    ],
)
def test_what_is_ordered(body: str) -> None:
    assert unordered(BODY.format(body)) is None


@pytest.mark.parametrize(
    ("body", "array", "written", "read"),
    [
        (f"part[0][i] = x;\nlet a = {LEFT}(&part[own], 0u, 5u);", "part", 1, 2),
        (f"part[own][i * 5u + 1u] = x;\nlet a = {LEFT}(&part[own], 0u, 5u);", "part", 1, 2),
        (f"part[own][i] = x;\nlet a = {LEFT}(&part[own], 63u, 1u);", "part", 1, 2),
        (f"for (;;) {{\nlet a = {LEFT}(&part[0], 0u, 5u);\nworkgroupBarrier();\npart[0][i] = x; }}", "part", 4, 2),
        (f"{STORE}(&sums, 0u, sum, 8u);\ny[i] = sums[i][0];", "sums", 1, 2),
        # One of a subgroup may have another one's part to read.
        (f"{STORE}(&sums, own * 128u, sum, 8u);\ny[i] = sums[own * 128u + i % 4u].x;", "sums", 1, 2),
        (f"y[i] = sums[i];\n{STORE}(&sums, 0u, sum, 8u);", "sums", 2, 1),
        (f"flat[i % 16u * 32u + 7u] = x;\nlet b = {BY_COLUMNS}(&flat, 0u, 32u);", "flat", 1, 2),
        # What is not known is told by how it is spelled.
        (f"part[own][n] = x;\nlet a = {LEFT}(&part[own], n, 5u);", "part", 1, 2),
        (f"{STORE}(&sums, 0u, other(), 8u);\ny[i] = sums[i];", "sums", 1, 2),
    ],
)
def test_what_is_not_ordered(body: str, array: str, written: int, read: int) -> None:
    assert unordered(BODY.format(body)) == Unordered(array, _BEGUN + written, _BEGUN + read)


def test_a_rectangle_of_its_own_type() -> None:
    """A matrix of float32 is twice as wide as one of float16."""
    body = f"var half = subgroup_matrix_result<f16, 16, 16>(); {STORE}(&sums, 0u, sum, 8u); y[i] = sums[i * 8u + 3u];"
    assert unordered(BODY.format(body)) is not None
    assert unordered(BODY.format(body.replace("u, sum,", "u, half,"))) is None


@pytest.mark.parametrize("call", ["(&part)", "(&part[own]", "(&part[own],", "(&part[own], 0u)", "<a>(&part[0], , )"])
def test_calls_that_wgsl_does_not_take_are_read(call: str) -> None:
    unordered(BODY.format(f"part[0][i] = x; let a = subgroupMatrixLoad{call}; let b = {LEFT}{call};"))


@pytest.mark.parametrize("seed", range(40))
def test_hostile_texts_are_read(seed: int) -> None:
    body = f"part[0][i] = x; let a = {LEFT}(&part[own], 0u, 5u); {STORE}(&sums, 0u, sum, 8u); y[i] = sums[i];"
    unordered(mutate_wgsl(BODY.format(body), random.Random(seed)))
