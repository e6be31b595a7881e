"""Each mutation operator on a piece of WGSL as TVM writes it."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import pytest
from benchmarks.localization.mutate import FURTHER, OPERATORS, POSITIONS, Mutant, mutants

from tapml.compilers.cache.append import append
from tapml.compilers.cache.attention import attention
from tapml.lowering.by_hand import MadeWith
from tapml.lowering.operator import Operator
from tapml.suite import Suite

HEAD = """\
@group(0) @binding(0) var<storage, read_write> out_ptr : array<f32>;
@group(0) @binding(1) var<storage, read> x_ptr : array<f32>;
@group(0) @binding(2) var<storage, read_write> where_ptr : array<i32>;

struct PODArgs {
  packGridDimX: u32
}
@group(0) @binding(3) var<uniform> podArgs : PODArgs;

var<workgroup> red_buf0 : array<f32, 64>;
@compute @workgroup_size(64, 1, 1)
fn made_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
  @builtin(num_workgroups) gridDim : vec3<u32>,
  @builtin(local_invocation_id) threadIdx : vec3<u32>
) {
  if (blockIdx.z * gridDim.x + blockIdx.x > podArgs.packGridDimX) { return; }
"""


@pytest.fixture
def mutated() -> Callable[[str, str], list[str]]:
    """mutated(operator, body): what the body's changed lines become by an operator, one entry a mutant."""

    def change(operator: str, body: str) -> list[str]:
        text = f"{HEAD}{body}\n}}\n"
        return ["\n".join(_changed(text, mutant)) for mutant in mutants(text) if mutant.operator == operator]

    return change


def _changed(text: str, mutant: Mutant) -> list[str]:
    lines = difflib.ndiff(text.splitlines(), mutant.text.splitlines())
    return [line[2:].strip() for line in lines if line.startswith("+ ")]


CASES = [
    ("index off by one", "  out_ptr[0i] = x_ptr[i32(threadIdx.x)];", ["out_ptr[0i] = x_ptr[(i32(threadIdx.x) + 1i)];"]),
    (
        "swapped operands",
        "  out_ptr[0i] = (x_ptr[0i] - x_ptr[1i]);",
        ["out_ptr[0i] = (x_ptr[1i] - x_ptr[0i]);"],
    ),
    (
        "swapped operands",
        "  out_ptr[0i] = fma(x_ptr[0i], 2.000000e+00f, x_ptr[1i]);",
        ["out_ptr[0i] = fma(x_ptr[0i], x_ptr[1i], 2.000000e+00f);"],
    ),
    ("swapped operands", "  where_ptr[0i] = select(0i, 3i, true);", ["where_ptr[0i] = select(3i, 0i, true);"]),
    ("dropped barrier", "  workgroupBarrier();\n  out_ptr[0i] = red_buf0[0i];", [""]),
    ("wrong constant", "  out_ptr[0i] = (x_ptr[0i] * 5.000000e-01f);", ["out_ptr[0i] = (x_ptr[0i] * 5.500000e-01f);"]),
    ("sign", "  out_ptr[0i] = (x_ptr[0i] + x_ptr[(v_1 + 2i)]);", ["out_ptr[0i] = (x_ptr[0i] - x_ptr[(v_1 + 2i)]);"]),
    (
        "sign",
        "  out_ptr[0i] = fma(x_ptr[0i], x_ptr[1i], x_ptr[2i]);",
        ["out_ptr[0i] = fma(-(x_ptr[0i]), x_ptr[1i], x_ptr[2i]);"],
    ),
    (
        "dropped guard",
        "  if (i32(threadIdx.x) < 9i) {\n    out_ptr[0i] = x_ptr[0i];\n  }",
        ["if (true) {"],
    ),
    (
        "inverted guard",
        "  if (i32(threadIdx.x) < 9i) {\n    out_ptr[0i] = x_ptr[0i];\n  }",
        ["if (!(i32(threadIdx.x) < 9i)) {"],
    ),
    (
        "dtype conversion",
        "  out_ptr[0i] = x_ptr[1i];",
        [
            "out_ptr[0i] = f32(i32(x_ptr[1i]));",
            "out_ptr[0i] = unpack2x16float(pack2x16float(vec2<f32>(x_ptr[1i], 0.0))).x;",
            "out_ptr[0i] = bitcast<f32>(bitcast<u32>(x_ptr[1i]) & 4294901760u);",
        ],
    ),
    (
        "dtype conversion",
        "  where_ptr[0i] = 1i;\n  out_ptr[0i] = x_ptr[(v_1>>4u)];",
        [
            "out_ptr[0i] = f32(i32(x_ptr[(v_1>>4u)]));",
            "out_ptr[0i] = unpack2x16float(pack2x16float(vec2<f32>(x_ptr[(v_1>>4u)], 0.0))).x;",
            "out_ptr[0i] = bitcast<f32>(bitcast<u32>(x_ptr[(v_1>>4u)]) & 4294901760u);",
            "out_ptr[0i] = x_ptr[i32(u32(v_1)>>4u)];",
        ],
    ),
    ("wrong accumulation start", "  red_buf0[0i] = 0.000000e+00f;", ["red_buf0[0i] = 1.000000e+00f;"]),
    ("wrong accumulation start", "  red_buf0[0i] = -3.402823e+38f;", ["red_buf0[0i] = 0.000000e+00f;"]),
    (
        "swapped axes",
        "  out_ptr[((i32(threadIdx.y) * 8i) + i32(threadIdx.x))] = 1.000000e+00f;",
        [
            "out_ptr[((i32(threadIdx.x) * 8i) + i32(threadIdx.y))] = 1.000000e+00f;",
        ],
    ),
    (
        "swapped axes",
        "  out_ptr[((v_1 * 8i) + v_2)] = 1.000000e+00f;",
        ["out_ptr[((v_2 * 8i) + v_1)] = 1.000000e+00f;"],
    ),
    (
        "removed max-subtraction",
        "  out_ptr[0i] = exp((x_ptr[0i] - red_buf0[0i]));",
        ["out_ptr[0i] = exp(x_ptr[0i]);"],
    ),
    (
        "wrong epsilon",
        "  out_ptr[0i] = sqrt((x_ptr[0i] + 1.000000e-05f));",
        ["out_ptr[0i] = sqrt((x_ptr[0i] + 0.000000e+00f));", "out_ptr[0i] = sqrt((x_ptr[0i] + 1.000000e-03f));"],
    ),
    (
        "other epsilon",
        "  out_ptr[0i] = sqrt((x_ptr[0i] + 1.000000e-05f));",
        ["out_ptr[0i] = sqrt((x_ptr[0i] + 1.000000e-06f));", "out_ptr[0i] = sqrt((x_ptr[0i] + 1.000000e-04f));"],
    ),
    (
        "rounded constant",
        "  out_ptr[0i] = (x_ptr[0i] * 4.4714998e-02f);",
        ["out_ptr[0i] = (x_ptr[0i] * 4.470000e-02f);"],
    ),
    (
        "saturated value",
        "  out_ptr[0i] = x_ptr[0i];",
        [
            "out_ptr[0i] = clamp(x_ptr[0i], -1.000000e+00f, 1.000000e+00f);",
            "out_ptr[0i] = clamp(x_ptr[0i], -6.000000e+00f, 6.000000e+00f);",
            "out_ptr[0i] = clamp(x_ptr[0i], 0.000000e+00f, 6.000000e+00f);",
        ],
    ),
    (
        "mask off by one",
        "  out_ptr[0i] = select(0.000000e+00f, x_ptr[0i], (v_1 <= v_2));",
        ["out_ptr[0i] = select(0.000000e+00f, x_ptr[0i], (v_1 < v_2));"],
    ),
    ("mask off by one", "  if (i32(threadIdx.x) < 4i) {\n    red_buf0[0i] = red_buf0[4i];\n  }", []),
    (
        "mirrored index",
        "  out_ptr[0i] = x_ptr[((v_1 * 8i) + v_2)];",
        ["out_ptr[0i] = x_ptr[((v_1 * 8i) + ((8i - 1i) - v_2))];"],
    ),
    (
        "swapped pairs",
        "  out_ptr[0i] = (x_ptr[((v_1 * 8i) + v_2)] * sin(x_ptr[0i]));",
        [
            "out_ptr[0i] = (x_ptr[(((v_1 * 8i) + v_2) ^ 1i)] * sin(x_ptr[0i]));",
            "out_ptr[0i] = (x_ptr[((v_1 * 8i) + (v_2 ^ 4i))] * sin(x_ptr[0i]));",
            "out_ptr[0i] = (x_ptr[((v_1 * 8i) + v_2)] * cos(x_ptr[0i]));",
        ],
    ),
    (
        "stale rows",
        "  out_ptr[((v_1 * 8i) + v_2)] = x_ptr[((v_3 * 4i) + v_4)];",
        [
            "out_ptr[((v_1 * 8i) + v_2)] = x_ptr[(((v_3 - select(0i, 1i, ((v_3 & 3i) == 3i))) * 4i) + v_4)];",
            "if ((v_1 & 3i) != 3i) { out_ptr[((v_1 * 8i) + v_2)] = x_ptr[((v_3 * 4i) + v_4)]; }",
        ],
    ),
    (
        "tile column",
        "  let v__1 : i32 = i32(blockIdx.z * gridDim.x + blockIdx.x);\n"
        "  out_ptr[v__1] = x_ptr[((v__1 * 64i) + i32(threadIdx.x))];",
        [
            "out_ptr[v__1] = x_ptr[((v__1 * 64i) + min(i32(threadIdx.x), 62i))];",
            "out_ptr[v__1] = x_ptr[(((v__1 & -2i) * 64i) + i32(threadIdx.x))];",
        ],
    ),
    (
        "missing last tile",
        "  if (((i32(blockIdx.y) * 64i) + i32(threadIdx.x)) < 100i) {\n    out_ptr[0i] = x_ptr[0i];\n  }",
        [
            "if (blockIdx.z * gridDim.x + blockIdx.x + 1u > podArgs.packGridDimX) { return; }",
            "if (gridDim.y > 1u && blockIdx.y + 1u == gridDim.y) { return; }",
            "if (((i32(blockIdx.y) * 64i) + i32(threadIdx.x)) < 64i) {",
        ],
    ),
    (
        "wrong reduction bound",
        "  for (var k : i32 = 0i; k < 8i; k++) {\n    out_ptr[0i] = x_ptr[k];\n  }",
        ["for (var k : i32 = 0i; k < 7i; k++) {", "for (var k : i32 = 1i; k < 8i; k++) {"],
    ),
    (
        "wrong reduction bound",
        "  if (i32(threadIdx.x) < 4i) {\n    red_buf0[0i] = red_buf0[4i];\n  }",
        ["if (i32(threadIdx.x) < 3i) {"],
    ),
]


@pytest.mark.parametrize(("operator", "body", "expected"), CASES)
def test_operator(mutated: Callable[[str, str], list[str]], operator: str, body: str, expected: list[str]) -> None:
    assert mutated(operator, body) == expected


NARROW = """\
  var sum : array<f32, 1>;
  sum[0i] = 0.000000e+00f;
  sum[0i] = fma(x_ptr[0i], x_ptr[1i], sum[0i]);
  where_ptr[0i] = 1i;
  out_ptr[0i] = sum[0i];"""
INPUTS = "sum[0i] = fma(narrowed(x_ptr[0i]), narrowed(x_ptr[1i]), sum[0i]);"
THROUGHOUT = "sum[0i] = narrowed(fma(x_ptr[0i], x_ptr[1i], sum[0i]));", "out_ptr[0i] = narrowed(sum[0i]);"


def test_narrow_arithmetic(mutated: Callable[[str, str], list[str]]) -> None:
    """Several places of one text: the inputs, or all that is stored; and the function that rounds."""
    found = [text.splitlines() for text in mutated("narrow arithmetic", NARROW)]
    kept = [[line for line in lines if "narrowed(" in line and "fn" not in line] for lines in found]
    assert kept == [[INPUTS], [*THROUGHOUT], [INPUTS], [*THROUGHOUT], [INPUTS]]
    functions = ["\n".join(line for line in lines if line not in of) for lines, of in zip(found, kept, strict=True)]
    assert all(function.strip().startswith("fn narrowed(x : f32) -> f32 {") for function in functions)
    assert len(set(functions)) == 3


def test_every_operator_is_tested() -> None:
    assert {operator for operator, _, _ in CASES} | {"narrow arithmetic"} == set(OPERATORS)


def test_what_nothing_reads_is_left_alone(mutated: Callable[[str, str], list[str]]) -> None:
    body = "  let cse_v1 : i32 = where_ptr[v_1];\n  out_ptr[0i] = x_ptr[v_1];"
    assert mutated("index off by one", body) == ["out_ptr[0i] = x_ptr[(v_1 + 1i)];"]


def test_what_was_read_is_changed(mutated: Callable[[str, str], list[str]]) -> None:
    body = "  let place : i32 = where_ptr[v_1];\n  out_ptr[0i] = x_ptr[place];"
    assert mutated("index off by one", body) == [
        "let place : i32 = where_ptr[(v_1 + 1i)];",
        "out_ptr[0i] = x_ptr[(place + 1i)];",
    ]


def test_a_barrier_stays_out_of_branches(mutated: Callable[[str, str], list[str]]) -> None:
    body = "  if (v_1 < 2i) {\n    workgroupBarrier();\n  }"
    assert mutated("dropped guard", body) == []


def test_real_kernels(suite: Suite) -> None:
    """Of each kernel there are mutants; each changes its text, no two alike, and they are the same every time."""
    for kernel in suite.kernels:
        for file in suite.kernel_files(kernel):
            found = mutants(file.text)
            texts = [mutant.text for mutant in found]
            assert file.text not in texts
            assert len(set(texts)) == len(texts) > 10
            assert texts == [mutant.text for mutant in mutants(file.text)]
            lines = file.text.splitlines()
            for mutant in found:
                assert mutant.text.splitlines()[: mutant.line - 1] == lines[: mutant.line - 1]


def test_further_operators_change_real_kernels(suite: Suite) -> None:
    """Nearly all have a place; each mutant is another text, in which every bracket closes."""
    placed = set()
    for kernel in ("softmax", "matmul1"):
        for file in suite.kernel_files(kernel):
            found = mutants(file.text, FURTHER)
            texts = [mutant.text for mutant in found]
            assert file.text not in texts
            assert all(text.count(left) == text.count(right) for text in texts for left, right in ("()", "[]", "{}"))
            placed |= {mutant.operator for mutant in found}
    assert len(placed) >= 0.8 * len(FURTHER)


def test_faults_of_positions_change_the_kernels_of_a_cache() -> None:
    """The kinds that apply to attention, with and without a window, and to appending; each is another text."""

    def operator(*arguments: tuple[str, tuple[int, ...]]) -> Operator:
        described = [{"name": "", "dtype": dtype, "shape": list(shape)} for dtype, shape in arguments]
        return Operator("made", [], described, None, {})

    query, cache, positions = ("float32", (4, 1, 16)), ("float32", (2, 96, 16)), ("int32", (1,))
    of_attention = operator(query, cache, cache, positions, query)
    of_append = operator(cache, ("float32", (2, 1, 16)), positions, cache)
    texts = {
        window: attention(of_attention, MadeWith((), {"scaling": 0.25, "window": window, "softcap": 0.0}))
        for window in (0, 32)
    }
    appended = append(of_append, MadeWith((), {}))
    assert appended is not None
    assert _kinds(texts[0]) == {"window", "position modulo", "position limited", "stale row", "wrong head"}
    assert _kinds(texts[32]) == _kinds(texts[0])
    assert _kinds(appended) == {"position modulo", "position limited", "row not written"}
    assert any("a window is one place less than 32" in one.description for one in mutants(texts[32] or "", POSITIONS))


def _kinds(text: str | None) -> set[str]:
    assert text is not None
    found = mutants(text, POSITIONS)
    made = [mutant.text for mutant in found]
    assert text not in made
    assert len(set(made)) == len(made)
    return {mutant.operator for mutant in found}
