"""Fat bundles: what each variant requires, which are kept, in which order, under which file names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from helpers import compiled_anew
from tapml.compilers.tvm import compile as compiling
from tapml.compilers.tvm.compile import TVM
from tapml.compilers.tvm.subgroups import same_in_wgsl, without_idle_enable
from tapml.errors import InputError
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Lowered, lower
from tapml.lowering.operator import Operator

Shape = tuple[int, ...]


def lowered_call(operator: Callable[..., object], *arguments: tuple[Shape, str]) -> Lowered:
    """One operator call on arguments of these shapes and dtypes."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(f"x{n}", relax.TensorType(*argument)) for n, argument in enumerate(arguments)]
    with builder.function("main", variables):
        with builder.dataflow():
            out = builder.emit_output(operator(*variables))
        builder.emit_func_output(out)
    return lower(builder.finalize(), len(variables))


def elementwise() -> Lowered:
    """Of 2048 elements: dlight gives a workgroup as many invocations as it may."""
    return lowered_call(lambda x: relax.op.add(x, x), ((16, 128), "float32"))


def softmax() -> Lowered:
    return lowered_call(lambda x: relax.op.nn.softmax(x, -1), ((16, 128), "float32"))


def compiled(lowered: Lowered, *variants: str) -> CompiledKernel:
    return compiled_anew(lowered.operators[0], variants)


def names(kernel: CompiledKernel) -> list[str]:
    return [variant["name"] for variant in kernel.document["variants"]]


def limits(kernel: CompiledKernel, limit: str) -> list[Any]:
    return [variant["requires"]["limits"].get(limit) for variant in kernel.document["variants"]]


def test_a_kernel_of_more_than_256_invocations_says_so_and_has_a_smaller_sibling() -> None:
    kernel = compiled(elementwise(), "256", "1024")
    assert names(kernel) == ["1024", "256"]
    assert limits(kernel, "maxComputeInvocationsPerWorkgroup") == [1024, 256]
    assert limits(kernel, "maxComputeWorkgroupSizeX") == [1024, 256]
    assert [file.name for file in kernel.files] == ["add@1024.wgsl", "add.wgsl"]
    for variant, file in zip(kernel.document["variants"], kernel.files, strict=True):
        (entry_point,) = variant["entry_points"]
        assert entry_point["file"] == file.name
        assert entry_point["generated_sha256"] == sha256(file.text)
    assert kernel.document["format"] == "tapml.kernel/4"
    assert kernel.document["compiler"]["targets"]["1024"] == {"kind": "webgpu", "max_num_threads": 1024}


def test_only_what_the_device_of_a_variant_lacks_is_asked() -> None:
    assert limits(compiled(elementwise(), "1024"), "maxComputeInvocationsPerWorkgroup") == [1024]


@pytest.mark.parametrize("asked", [["64", "1024", "256"], ["256", "64", "1024", "256"]])
def test_the_most_demanding_comes_first_whatever_the_order_asked(asked: list[str]) -> None:
    assert names(compiled(elementwise(), *asked)) == ["1024", "256", "64"]


def test_a_kernel_that_needs_no_more_has_one_variant() -> None:
    kernel = compiled(softmax(), "1024", "256")
    assert names(kernel) == ["256"]
    assert [file.name for file in kernel.files] == ["softmax.wgsl"]
    assert kernel.document["compiler"]["left_out"] == {"1024": "requires the same as 256"}
    assert kernel.files == compiled(softmax(), "256").files


def test_a_binding_over_128_mib_is_required() -> None:
    rows = 130 * 2**20 // (128 * 4)
    table = ((rows, 128), "float32")
    gather = lowered_call(lambda t, i: relax.op.take(t, i, axis=0), table, ((4,), "int32"))
    kernel = compiled(gather, "1024", "256")
    assert set(limits(kernel, "maxStorageBufferBindingSize")) == {130 * 2**20}


def test_subgroups_are_required_with_the_size_that_the_code_counts_on() -> None:
    kernel = compiled(softmax(), "256", "256+subgroups")
    assert names(kernel) == ["256+subgroups", "256"]
    first, last = kernel.document["variants"]
    assert first["requires"]["features"] == ["subgroups"]
    assert last["requires"]["features"] == []
    assert limits(kernel, "subgroupMinSize") == [32, None]
    assert [file.name for file in kernel.files] == ["softmax@256+subgroups.wgsl", "softmax.wgsl"]
    assert kernel.files[0].text.startswith("enable subgroups;")
    assert "subgroup" not in kernel.files[1].text


def test_a_kernel_without_use_for_subgroups_does_not_require_them() -> None:
    kernel = compiled(elementwise(), "256+subgroups")
    assert kernel.document["variants"][0]["requires"]["features"] == []
    assert "enable" not in kernel.files[0].text
    assert names(compiled(elementwise(), "256+subgroups", "256")) == ["256"]


def test_shuffles_that_wgsl_reads_otherwise_are_refused() -> None:
    assert same_in_wgsl("x = subgroupShuffleDown(a[0i], u32(16i)); y = subgroupShuffle(a[0i], u32(0i));")
    assert not same_in_wgsl("x = subgroupShuffle(a[0i], u32((i32(threadIdx.y) * 32i)));")
    assert not same_in_wgsl("x = subgroupAdd(a[0i]);")
    assert without_idle_enable("enable subgroups;\n\nfn k() {}") == "fn k() {}"


def test_what_cannot_be_generated_is_unsupported_in_every_variant() -> None:
    wide = lowered_call(lambda x: relax.op.add(x, x), ((4, 8), "int64"))
    kernel = compiled(wide, "1024", "256")
    assert kernel.document["variants"] == []
    assert kernel.files == []
    assert "WebGPU code generator cannot compile" in kernel.document["unsupported"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("256+f16", ["by hand", "docs/suite-format.md"]), ("2048", ["2048", "1024"]), ("100", ["100"]),
        ("", ["most invocations"]), ("fast", ["fast"]), ("256+magic", ["256+magic", "+subgroups"]),
    ],
)  # fmt: skip
def test_another_spec_is_refused(spec: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        compiled(elementwise(), "256", spec)
    for word in words:
        assert word in str(caught.value)


def test_each_variant_is_cached_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    lowered = elementwise()
    made: list[str] = []
    real = compiling.compile_variant

    def note(operator: Operator, spec: Any) -> CompiledKernel:
        made.append(spec.name)
        return real(operator, spec)

    monkeypatch.setattr(compiling, "compile_variant", note)
    first = TVM.compile(lowered.operators)
    fat = TVM.compile(lowered.operators, ["1024", "256"])
    assert made == ["256", "1024"]
    assert TVM.compile(lowered.operators) == first
    assert TVM.compile(lowered.operators, ["256", "1024"]) == fat
    assert fat["add"].files[-1] == first["add"].files[0]
    assert made == ["256", "1024"]
