"""Operators to WGSL: launch metadata, limits, cache, and what cannot be generated."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tvm
from tvm import relax

from helpers import compiled_anew, small_module
from tapml.compilers.tvm import compile as compiling
from tapml.compilers.tvm.compile import TVM
from tapml.errors import InputError
from tapml.expressions import ExpressionError, evaluate, symbols_of
from tapml.files import sha256
from tapml.kernels.bundle import bindings, requirements, workgroup_size, workgroup_storage
from tapml.lowering.lower import Lowered, lower
from tapml.lowering.operator import Operator
from tapml.lowering.sizes import expression_of

WGSL = """\
enable f16;
@group(0) @binding(1) var<storage, read> a_ptr : array<f16>;
@group(0) @binding(0) var<storage, read_write> out_ptr : array<vec4<f32>>;
struct PODArgs { packGridDimX: u32 }
@group(0) @binding(2) var<uniform> podArgs : PODArgs;
var<workgroup> one : array<f32, 65>;
var<workgroup> two : array<vec3<f16>, 4>;
var<workgroup> three : array<array<vec4<f32>, 5>, 3>;
@compute @workgroup_size(16, 4) fn k() {}
"""


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return lower(small_module(), 1)


def test_metadata_is_read_off_the_wgsl() -> None:
    assert [(b["binding"], b["access"], b["type"]) for b in bindings(WGSL)] == [
        (0, "read_write", "array<vec4<f32>>"), (1, "read", "array<f16>"), (2, "uniform", "PODArgs"),
    ]  # fmt: skip
    assert workgroup_size(WGSL) == [16, 4, 1]
    # 65 floats are 260 bytes, rounded to 272; a vec3<f16> takes 8 bytes, four of them 32; a vec4<f32> takes 16.
    assert workgroup_storage(WGSL) == 272 + 32 + 16 * 15
    needed = requirements([WGSL], 1000)
    assert needed["features"] == ["shader-f16"]
    assert needed["limits"]["maxComputeInvocationsPerWorkgroup"] == 64
    assert needed["limits"]["maxStorageBuffersPerShaderStage"] == 2
    assert needed["limits"]["maxStorageBufferBindingSize"] == 1000


def test_every_kernel_has_wgsl_and_a_dispatch(lowered: Lowered) -> None:
    for operator in lowered.operators:
        name, kernel = operator.name, compiled_anew(operator)
        document = kernel.document
        assert document["unsupported"] is None
        assert kernel.files[0].name == f"{name}.wgsl"
        (variant,) = document["variants"]
        assert variant["name"] == "256"
        for entry_point, file in zip(variant["entry_points"], kernel.files, strict=True):
            assert f"fn {entry_point['name']}(" in file.text
            assert sha256(file.text) == entry_point["generated_sha256"]
        storage = [b["access"] for b in variant["entry_points"][0]["bindings"] if b["access"] != "uniform"]
        written = set()
        for launch in variant["launches"]:
            assert math.prod(launch["grid"]) >= 1
            assert launch["uniforms"] == [{"name": "packGridDimX", "dtype": "uint32", "value": launch["grid"][0]}]
            operands = zip(launch["operands"], storage, strict=True)
            written |= {operand["argument"] for operand, access in operands if access == "read_write"}
        roles = [argument["role"] for argument in document["arguments"]]
        assert {i for i, role in enumerate(roles) if role == "output"} <= written


def test_no_workgroup_after_the_last_one_runs(lowered: Lowered) -> None:
    """TVM's own guard compares with > and lets one run where a grid is folded."""
    for kernel in TVM.compile(lowered.operators).values():
        for file in kernel.files:
            assert file.text.count(">= podArgs.packGridDimX) { return; }") == file.text.count("packGridDimX) {") == 1


def test_compilation_is_cached_by_content(lowered: Lowered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    first = TVM.compile(lowered.operators)

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiling, "compile_variant", refuse)
    assert TVM.compile(lowered.operators) == first
    with pytest.raises(AssertionError, match="compiled again"):
        TVM.compile(lowered.operators, ["1024", "256"])


def test_a_damaged_cache_entry_is_made_again(lowered: Lowered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    first = TVM.compile(lowered.operators)
    for path in tmp_path.rglob("*.json"):
        path.write_text(path.read_text()[:100])
    assert TVM.compile(lowered.operators) == first


def test_progress_counts_to_the_end(lowered: Lowered) -> None:
    seen: list[tuple[int, int]] = []
    TVM.compile(lowered.operators, progress=lambda done, total: seen.append((done, total)))
    total = len(lowered.operators)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_numerics_of_the_small_model(lowered: Lowered) -> None:
    found = {operator.name: operator.numerics for operator in lowered.operators}
    softmax = next(value for name, value in found.items() if name.startswith("softmax"))
    assert softmax.builtins == ("exp",)
    assert softmax.accumulation_length == 16
    assert not any(value.exact for value in found.values())


def unary(operator: object, dtype: str = "float32") -> Lowered:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(operator(x))  # type: ignore[operator]
        builder.emit_func_output(out)
    return lower(builder.finalize(), 1)


def test_moving_values_is_exact() -> None:
    moved = unary(lambda x: relax.op.permute_dims(x))
    assert moved.operators[0].numerics.exact
    largest = unary(lambda x: relax.op.max(x, axis=1))
    assert largest.operators[0].numerics.exact


def test_what_wgsl_lacks_is_unsupported_and_named() -> None:
    wide = unary(lambda x: relax.op.add(x, x), "int64")
    kernel = compiled_anew(wide.operators[0])
    assert kernel.files == []
    assert "WebGPU code generator cannot compile" in kernel.document["unsupported"]


def test_a_reshape_that_is_not_fused_is_a_view() -> None:
    viewed = unary(lambda x: relax.op.matmul(relax.op.reshape(x, (8, 4)), x))
    nodes = viewed.model.main.nodes
    assert [(str(node.kind), node.kernel) for node in nodes] == [("view", "reshape"), ("kernel", "matmul")]


def test_a_launch_of_a_symbolic_shape_is_expressions() -> None:
    """TVM itself sizes the grid and passes what its code needs of n; large grids fold by their own expressions."""
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(out)
    module = relax.transform.LegalizeOps()(builder.finalize())
    (prim_func,) = (found for found in module.functions.values() if isinstance(found, tvm.tirx.PrimFunc))
    plan = compiling._generate(Operator("exp", (), (), prim_func, {n: "n"}), compiling.BASE).plan
    (launch,) = plan.launches
    assert all(symbols_of(uniform["value"]) == ["n"] for uniform in launch["uniforms"])
    for rows, grid in ((1, [1, 1, 1]), (100, [4, 1, 1]), (32 * 65_535, [65_535, 1, 1]), (3_000_000, [46_875, 1, 2])):
        assert [evaluate(extent, {"n": rows}) for extent in launch["grid"]] == grid
        uniforms = {uniform["name"]: evaluate(uniform["value"], {"n": rows}) for uniform in launch["uniforms"]}
        assert uniforms.pop("packGridDimX") == -(-rows * 8 // 256)
        assert set(uniforms.values()) == {rows, rows * 8}


def test_a_grid_that_depends_on_data_is_refused() -> None:
    n, other = (tvm.tirx.Var(name, "int64") for name in ("n", "other"))
    load = tvm.tirx.Cast("int64", tvm.tirx.BufferLoad(tvm.tirx.decl_buffer((4,), "int32"), [0]))
    sizes = {n: ["mul", "rows", 2]}
    assert expression_of(n + 1, sizes.get) == ["add", ["mul", "rows", 2], 1]
    for value in (load + 1, n + load):
        with pytest.raises(ExpressionError, match="is no operation of sizes"):
            expression_of(value, sizes.get)
    with pytest.raises(ExpressionError, match="other is no size of the model's inputs"):
        expression_of(n + other, sizes.get)


def test_unknown_shapes_are_refused() -> None:
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(out)
    with pytest.raises(InputError, match="the inputs have a size n, which is not known"):
        lower(builder.finalize(), 1)


def test_buffers_that_wgsl_has_not_are_said() -> None:
    """TVM writes array<i8> for the result of a comparison."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.less(x, relax.const(0.5)))
        builder.emit_func_output(result)
    (operator,) = lower(builder.finalize(), 1).operators
    document = compiled_anew(operator).document
    assert document["variants"] == []
    assert "buffers of 8-bit numbers or bools, which WGSL has not" in document["unsupported"]
