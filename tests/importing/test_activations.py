"""Activations that are rounded to 8-bit integers: what that gives, and decoders whose linear layers do it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax

from tapml.errors import InputError
from tapml.importing import import_decoder, import_unweighted
from tapml.importing.activations import LEAST, packed_rows, product, rounded, rounded_product
from tapml.importing.kernel_calls import call
from tapml.importing.onnx_rounded import round_products
from tapml.importing.onnx_run import OnnxRuntime
from tapml.importing.quantise import INT8, Q4F16, Q4F32, Kind, Packed, pack


def computed(function: object, *arrays: np.ndarray) -> list[np.ndarray]:
    builder = relax.BlockBuilder()
    given = [relax.Var(f"x{n}", relax.TensorType(one.shape, str(one.dtype))) for n, one in enumerate(arrays)]
    with builder.function("main", given):
        with builder.dataflow():
            result = builder.emit_output(call(builder, function, given, name="made", alone=True))
        builder.emit_func_output(result)
    tensors = map(tvm.runtime.tensor, arrays)
    found = relax.VirtualMachine(tvm.compile(builder.finalize(), "llvm"), tvm.cpu())["main"](*tensors)
    return [tensor.numpy() for tensor in (found if hasattr(found, "__len__") else [found])]


@pytest.mark.parametrize("inner", [1, 4, 37, 64])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_number_is_the_nearest_there_is(inner: int, dtype: str) -> None:
    data = (np.random.default_rng(0).standard_normal((2, 5, inner)) * 3).astype(dtype)
    data[0, 1] = 0
    data[1, 2, 0] = 300
    words, scales = computed(packed_rows, data)
    assert words.shape == (2, 5, -(-inner // 4))
    assert scales.shape == (2, 5, 1)
    found = Packed(INT8, (10, inner), words.reshape(10, -1), scales.reshape(10, 1)).array().reshape(data.shape)
    wide = data.astype(np.float32)
    assert (np.abs(found - wide) <= 0.5001 * scales).all()
    greatest = np.abs(wide).max(-1, keepdims=True)
    np.testing.assert_allclose(scales, np.maximum(greatest, LEAST) / 127, rtol=1e-6)
    assert (found[0, 1] == 0).all()
    (same,) = computed(rounded, data)
    np.testing.assert_allclose(same, found.astype(dtype), rtol=1e-6 if dtype == "float32" else 1e-3)


@pytest.mark.parametrize("kind", [INT8, Q4F16, Q4F32], ids=lambda kind: kind.name)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_product_that_rounds_its_rows_gives_what_one_of_rounded_rows_does(dtype: str, kind: Kind) -> None:
    random = np.random.default_rng(0)
    data, weight = ((random.standard_normal(shape) * 3).astype(dtype) for shape in ((2, 3, 45), (40, 45)))
    data[0, 1] = 0
    packed = pack(weight, kind, "w")
    (found,) = computed(lambda *given: rounded_product(*given, kind), data, packed.words, packed.scales)
    words, scales = computed(packed_rows, data)
    (same,) = computed(lambda *given: product(*given, 45, dtype, kind), words, scales, packed.words, packed.scales)
    assert str(found.dtype) == dtype
    np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize("inner", [32, 33, 45, 64, 100, 129])
@pytest.mark.parametrize("kind", [Q4F16, Q4F32], ids=lambda kind: kind.name)
def test_sums_of_groups_are_whole_numbers(kind: Kind, inner: int) -> None:
    """Their sum is off from that by what as many additions of float32 are, and by no more."""
    random = np.random.default_rng(0)
    weight = (random.standard_normal((40, inner)) * 3).astype(np.float32)
    packed = pack(weight, kind, "w")
    codes = random.integers(-127, 128, (3, inner))
    words = (codes + 128).astype(np.uint8)
    words = np.pad(words, ((0, 0), (0, -inner % 4)), constant_values=128).view(np.uint32)
    scales = random.uniform(0.5, 1, (3, 1)).astype(np.float32)
    (found,) = computed(
        lambda *given: product(*given, inner, "float32", kind), words, scales, packed.words, packed.scales
    )
    groups = -(-inner // 32)
    integers = (packed.words[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(40, -1)[:, :inner]
    numbers = [np.pad(one, ((0, 0), (0, 32 * groups - inner))) for one in (codes, integers.astype(np.int64) - 7)]
    left, right = (one.reshape(len(one), groups, 32) for one in numbers)
    terms = np.einsum("rgk,cgk->rcg", left, right) * packed.scales.astype(np.float64)
    wanted = terms.sum(-1) * scales
    size = np.abs(terms).sum(-1) * scales
    assert (np.abs(found - wanted) <= (groups + 1) * 2.0**-24 * size).all()


def test_what_is_left_of_a_word_stands_for_zeros() -> None:
    words, _ = computed(packed_rows, np.full((1, 5), -2, np.float32))
    assert [hex(word) for word in words[0]] == ["0x1010101", "0x80808001"]


def test_of_two_integers_that_are_as_near_it_is_the_upper_one() -> None:
    words, _ = computed(packed_rows, np.float32([[127, 0.5, 1.5, -0.5]]))
    assert [*words.view(np.uint8)[0]] == [255, 129, 130, 128]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("opset", [8, 13, 18])
def test_onnxs_operators_give_the_same_numbers(dtype: str, opset: int) -> None:
    data = (np.random.default_rng(1).standard_normal((3, 7, 37)) * 3).astype(dtype)
    data[0, 1] = 0
    weight = numpy_helper.from_array(np.ones((37, 32), dtype), "w")
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    given = helper.make_tensor_value_info("x", kind, data.shape)
    made = [helper.make_tensor_value_info(name, kind, [3, 7, size]) for name, size in (("y", 32), ("x.rounded", 37))]
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([product], "product", [given], made[:1], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found = round_products(model, lambda _: True, Path("x.onnx"))
    assert found.data == {"x.rounded": "x"}
    model.graph.output.append(made[1])
    onnx.checker.check_model(model)
    (ours,) = computed(rounded, data)
    (theirs,) = OnnxRuntime(model.SerializeToString()).run(["x.rounded"], {"x": data})
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_pytorchs_operator_gives_the_same_numbers(dtype: str) -> None:
    import torch

    from tapml.importing.torch_rounded import int8_rounded

    data = (np.random.default_rng(2).standard_normal((3, 7, 37)) * 3).astype(dtype)
    data[0, 1] = 0
    (ours,) = computed(rounded, data)
    np.testing.assert_array_equal(ours, int8_rounded(torch.from_numpy(data)).numpy())


def test_weights_are_the_same_numbers_as_others_of_8_bits() -> None:
    weight = np.random.default_rng(0).standard_normal((40, 45)).astype(np.float32)
    packed = pack(weight, INT8, "w")
    codes = packed.words.view(np.uint8)[:, :45].astype(int)
    assert {codes.min(), codes.max()} == {1, 255}
    assert np.abs(packed.array() - weight).max() <= packed.scales.max() / 2 * 1.001


@pytest.mark.torch
@pytest.mark.slow
def test_a_decoder(tmp_path: Path) -> None:
    from decoders import decoder
    from tapml.carving.carve import carve

    config = decoder("grouped queries", tmp_path)
    given = {"prompt": [3, 17, 42, 99, 7], "steps": 1, "capacity": 32, "chunk": 4}
    model = import_decoder(config, **given, quantise="q8", activations="int8")
    assert model.quantised is not None
    assert model.quantised.cost is not None
    found = model.quantised.cost["logits"]
    weights = import_decoder(config, **given, quantise="q8").quantised
    assert weights is not None
    assert weights.cost is not None
    assert 0.5 * weights.cost["logits"]["kl_divergence"] < found["kl_divergence"] < 1
    notes = model.provenance["notes"]
    assert isinstance(notes, list)
    assert any("with these activations are rounded to integers of 8 bits (int8)" in note for note in notes)
    suite = carve(model, tmp_path / "decoder.suite", name="decoder")
    assert suite.manifest["oracle"]["agrees"]
    assert suite.manifest["oracle"]["operators"]["held"] == suite.manifest["oracle"]["operators"]["of"]
    assert suite.manifest["model"]["quantised"]["activations"] == "int8"
    assert {weight["kind"] for weight in suite.manifest["model"]["quantised"]["weights"]} == {"q8"}
    called = Counter(name.rstrip("0123456789") for name in suite.kernels)
    assert called["int8_rows"]
    assert called["int8_matmul"]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("quantise", ["q8", "q4f16"])
def test_a_token_is_rounded_where_it_is_multiplied(
    quantise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By native kernels: a call of many tokens rounds them as ever, one of a single token has no dispatch for it, and
    the text is the same."""
    from decoders import decoder
    from tapml.building.build import build
    from tapml.carving.carve import carve
    from tapml.compiled.files import CompiledFiles
    from tapml.compilers.choose import CHOICES
    from tapml.generation.asked import Asked, begun
    from tapml.generation.on_cpu import written_on_cpu
    from tapml.generation.on_device import chosen_on_device
    from tapml.generation.sampling import Sampling
    from tapml.generation.writing import written_together
    from tapml.server import Server

    given = {"prompt": [3, 17, 42, 99, 7], "steps": 2, "capacity": 32, "chunk": 4}
    model = import_decoder(decoder("grouped queries", tmp_path), **given, quantise=quantise, activations="int8")
    texts = {}
    for compiler in ("tvm", "native"):
        suite = carve(model, tmp_path / f"{compiler}.suite", name="decoder", compilers=CHOICES[compiler])
        assert suite.manifest["oracle"]["agrees"]
        called = {name: [node.kernel for node in found.nodes] for name, found in suite.program.functions.items()}
        rows = {name: sum("int8_rows" in kernel for kernel in kernels) for name, kernels in called.items()}
        within = sum("of_one_row" in kernel for kernel in called["decode"])
        assert rows["prefill"] > 0
        assert (rows["decode"] == 0) == (within > 0) == (compiler == "native")
        build(suite, tmp_path / f"{compiler}.tapml")
        files = CompiledFiles(tmp_path / f"{compiler}.tapml")
        texts[compiler] = begun(files, given["prompt"], Asked(Sampling(greedy=True), 12))
    with written_on_cpu([texts["tvm"]]) as writing:
        wanted = [piece.id for _, piece in writing]
    assert len(wanted) == 12
    monkeypatch.undo()  # the PATH without a compiler has no node either
    with Server() as server:
        source = chosen_on_device(server.state.device("node-dawn"), server.state.blobs, [texts["native"]])
        with written_together([texts["native"]], source) as writing:
            assert [piece.id for _, piece in writing] == wanted


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("quantise", ["q8", "q4f16"])
def test_a_decoder_without_weights(quantise: str, tmp_path: Path) -> None:
    """Products that have the same input share its rows: 4 in a layer, and those before the logits."""
    from decoders import decoder

    config = decoder("grouped queries", tmp_path)
    model = import_unweighted(config, quantise=quantise, activations="int8")
    assert model.quantised is not None
    layers = sum(weight.name.endswith("q_proj.weight") for weight in model.quantised.weights)
    values = [binding.value for block in model.module["main"].body.blocks for binding in block.bindings]
    names = [str(value.args[0].name_hint) for value in values if hasattr(value, "args") and "call_tir" in str(value.op)]
    rows = sum(name.startswith("int8_rows") for name in names)
    products = sum(name.startswith({"q8": "int8_matmul", "q4f16": "int8_q4_matmul"}[quantise]) for name in names)
    assert rows == 4 * layers + 1
    assert products == 7 * layers + 1 == model.quantised.products


@pytest.mark.torch
def test_what_has_no_products_of_integers_is_refused(tmp_path: Path) -> None:
    from decoders import decoder

    config = decoder("grouped queries", tmp_path)
    with pytest.raises(InputError, match="give --quantise q8, q844, q4f16 or q4f32, too"):
        import_unweighted(config, activations="int8")
    with pytest.raises(InputError, match="there is no --activations int4, did you mean int8"):
        import_decoder(config, quantise="q8", activations="int4")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("quantise", "least", "most"), [("q8", 68, 0.005), ("q844", 60, 0.08), ("q4f16", 60, 0.1)])
def test_the_model_that_comes_with_tapml(
    quantise: str, least: int, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of real weights: what it costs, and that all its kernels are right on a device."""
    from tapml.carving.carve import carve
    from tapml.cli.generate_command import folder_of
    from tapml.compilers.choose import CHOICES
    from tapml.jobs.job import JobSpecification, run_job
    from tapml.server import Server
    from tapml.validation.context import JobContext

    given = {"prompt": "It was a dark and stormy night", "steps": 1, "quantise": quantise, "activations": "int8"}
    model = import_decoder(folder_of("tiny"), **given)
    suite = carve(model, tmp_path / "tiny.suite", name="tiny", compilers=CHOICES["native"])
    assert suite.manifest["oracle"]["agrees"]
    found = suite.manifest["model"]["quantised"]["cost"]["logits"]
    assert found["tokens"] == 70
    assert found["agree"] >= least
    assert found["kl_divergence"] < most
    assert not any("q4_matmul" in name and "int8" not in name for name in suite.kernels)
    dots = [name for name in suite.kernels if suite.bundle(name)["variants"][0]["name"] == "256+dots"]
    assert len(dots) >= 8
    monkeypatch.undo()  # the PATH without a compiler has no node either
    with Server() as server:
        context = JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)
        document = run_job(
            JobSpecification(kind="validation", devices=["node-dawn"], save=False, record=False), context
        )
    assert {test["verdict"] for test in document["tests"]} == {"pass"}


@pytest.mark.torch
@pytest.mark.slow
def test_the_oracle_may_round_what_sums_of_integers_do_not(tmp_path: Path) -> None:
    """A product whose result is small beside what it sums was taken for another one."""
    from tapml.carving.carve import carve
    from tapml.cli.generate_command import folder_of

    given = {"prompt": "It was a dark and stormy night", "steps": 2, "quantise": "q8", "activations": "int8"}
    suite = carve(import_decoder(folder_of("tiny"), **given), tmp_path / "tiny.suite", name="tiny")
    assert suite.manifest["oracle"]["agrees"]
