"""Models that are quantised as they are imported: what becomes integers, what stays, and what is refused."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from quantised_models import INNER, WIDTH, WORDS, language_model, normal, saved, tokens
from tapml.cli.arguments import QUANTISED
from tapml.cli.parser import command_parser
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model, import_unweighted
from tapml.importing.quantise import MODES, Q4F16, Q8, pack
from tapml.lowering.lower import lower


def imported(folder: Path, mode: str = "q4f16") -> ImportedModel:
    return import_model(str(language_model(folder / "lm.onnx")), input_files=tokens(folder, 5), quantise=mode)


def product(folder: Path, weight: np.ndarray, dtype: int = TensorProto.FLOAT) -> Path:
    """x times a weight."""
    nodes = [helper.make_node("MatMul", ["x", "layer.weight"], ["y"])]
    inputs: dict[str, Any] = {"x": (dtype, (2, weight.shape[0]))}
    return saved(folder / "product.onnx", nodes, inputs, ["y"], {"layer.weight": weight}, dtype)


@pytest.mark.parametrize("mode", ["q4f16", "q4f32", "q8"])
def test_it_gives_what_the_oracle_gives_of_dequantised_weights(
    tmp_path: Path, mode: str, matches: Callable[..., None]
) -> None:
    model = imported(tmp_path, mode)
    matches(model)
    plain = import_model(str(tmp_path / "lm.onnx"), input_files=tokens(tmp_path, 5))
    (before,), (after,) = plain.steps[0].expected or (), model.steps[0].expected or ()
    quantised = model.quantised
    assert quantised is not None
    assert quantised.cost is not None
    found = quantised.cost["outputs"]["logits"]
    assert found["max_abs_difference"] == pytest.approx(float(np.abs(before - after).max()), rel=1e-6)
    assert found["max_abs_difference"] > 1e-4
    assert found["cosine"] > (0.999 if mode == "q8" else 0.95)


def test_weights_become_words_and_scales_and_a_tied_table_does_once(tmp_path: Path) -> None:
    model = imported(tmp_path)
    shapes = {name: (array.dtype.name, array.shape) for name, array in model.parameters}
    assert shapes == {
        "table.words": ("uint32", (WORDS, 6)),
        "table.scales": ("float32", (WORDS, 2)),
        "up.words": ("uint32", (INNER, 6)),
        "up.scales": ("float32", (INNER, 2)),
        "down.words": ("uint32", (WIDTH, 9)),
        "down.scales": ("float32", (WIDTH, 3)),
        "down.bias": ("float32", (WIDTH,)),
        "small": ("float32", (WIDTH, 8)),
        "small.up": ("float32", (8, WIDTH)),
        "read": ("float32", (WIDTH, WIDTH)),
    }
    arrays = dict(model.parameters)
    packed = pack(np.ascontiguousarray(normal(WIDTH, INNER, seed=1).T), Q4F16, "up")
    np.testing.assert_array_equal(arrays["up.words"], packed.words)
    np.testing.assert_array_equal(arrays["up.scales"], packed.scales)


def test_it_is_said_what_became_of_each(tmp_path: Path) -> None:
    model = imported(tmp_path)
    notes = model.provenance["notes"]
    assert isinstance(notes, list)
    said = "\n".join(notes)
    assert "weights of products and embeddings quantised (q4f16): " in said
    assert "against the model before it was quantised: logits differs by up to" in said
    assert "not quantised, for it is small: small, small.up" in said
    assert "not quantised, for something else than a product reads it, too: read" in said
    document: Any = model.provenance["quantised"]
    assert {weight["name"]: weight["kind"] for weight in document["weights"]} == dict.fromkeys(
        ("table", "up", "down"), "q4f16"
    )
    assert document["weights"][0]["bytes"] == Q4F16.nbytes(WORDS, WIDTH)
    assert model.provenance["source"] == "lm.onnx"
    plain = import_model(str(tmp_path / "lm.onnx"), input_files=tokens(tmp_path, 5))
    assert model.provenance["sha256"] == plain.provenance["sha256"]
    assert plain.quantised is None


def test_the_oracle_may_be_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is a copy, which is there as long as that may happen."""
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    model = imported(tmp_path)
    assert model.again is not None
    assert model.intermediates is not None
    (expected,) = model.again()
    np.testing.assert_array_equal(expected[0], (model.steps[0].expected or [None])[0])
    assert len([*model.intermediates(False)]) > 6
    del model
    gc.collect()
    assert not [*copies.glob("*/lm.onnx")]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_refused_by_name(tmp_path: Path, bad: float) -> None:
    weight = normal(64, 48)
    weight[7, 3] = bad
    with pytest.raises(InputError, match=r"the weight layer\.weight has 1 element that is NaN or infinite"):
        import_model(str(product(tmp_path, weight)), random_inputs=True, quantise="q8")


def test_models_with_nothing_to_quantise_are_refused_with_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"product\.onnx: there is nothing to quantise.*of layer\.weight, it is small"):
        import_model(str(product(tmp_path, normal(64, 16))), random_inputs=True, quantise="q8")
    path = saved(
        tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": (TensorProto.FLOAT, (4,))}, ["y"], {}
    )
    with pytest.raises(InputError, match=r"relu\.onnx: there is nothing to quantise.*leave out --quantise"):
        import_model(str(path), random_inputs=True, quantise="q8")


def test_modes_that_there_are_not_or_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = str(product(tmp_path, normal(64, 48)))
    with pytest.raises(InputError, match="there is no --quantise q4f64, did you mean q4f16"):
        import_model(path, random_inputs=True, quantise="q4f64")
    with pytest.raises(InputError, match="the names of its weights do not tell these apart: take q4f16 or q8"):
        import_model(path, random_inputs=True, quantise="q844")


def test_a_computed_weight_stays(tmp_path: Path, matches: Callable[..., None]) -> None:
    """It is none of the file's tensors, so that no oracle would compute with what it is quantised to."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("MatMul", ["x", "sum"], ["h"]),
        helper.make_node("MatMul", ["h", "plain"], ["y"]),
    ]
    weights = {"a": normal(40, 40), "b": normal(40, 40, seed=1), "plain": normal(40, 36, seed=2)}
    path = saved(tmp_path / "sum.onnx", nodes, {"x": (TensorProto.FLOAT, (3, 40))}, ["y"], weights)
    model = import_model(str(path), random_inputs=True, quantise="q4f32")
    matches(model)
    assert [name for name, _ in model.parameters] == ["computed", "plain.words", "plain.scales"]
    assert model.quantised is not None
    assert model.quantised.left == {"computed": "it is computed from other weights"}


def test_vectors_times_a_weight(tmp_path: Path, matches: Callable[..., None]) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = saved(tmp_path / "v.onnx", nodes, {"x": (TensorProto.FLOAT, (64,))}, ["y"], {"w": normal(64, 48)})
    matches(import_model(str(path), random_inputs=True, quantise="q4f16"))


@pytest.mark.parametrize("mode", ["q4f16", "q8"])
def test_weights_of_float16_stay_float16_to_the_product(
    tmp_path: Path, matches: Callable[..., None], mode: str
) -> None:
    weight = normal(64, 48).astype(np.float16)
    model = import_model(str(product(tmp_path, weight, TensorProto.FLOAT16)), random_inputs=True, quantise=mode)
    matches(model, atol=1e-2)
    shapes = {name: (array.dtype.name, array.shape) for name, array in model.parameters}
    words, groups = (8, 2) if mode == "q4f16" else (16, 1)
    assert shapes == {
        "layer.weight.words": ("uint32", (48, words)),
        "layer.weight.scales": ("float32", (48, groups)),
    }
    assert any("in place of 6.1 kB of float16" in str(note) for note in model.provenance["notes"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["q4f16", "q8"])
def test_products_that_are_float16_add_up_in_float32(tmp_path: Path, matches: Callable[..., None], mode: str) -> None:
    """A sum of ones in float16 is never more than 2048; beside 4096 its next number is 4 away."""
    path = product(tmp_path, np.ones((4096, 48), np.float16), TensorProto.FLOAT16)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 4096), np.float16))
    matches(import_model(str(path), input_files=[tmp_path / "x.npz"], quantise=mode), atol=4.0)


def test_a_weight_that_float16_would_not_hold_is_refused_by_name(tmp_path: Path) -> None:
    weight = normal(64, 48).astype(np.float16)
    weight[3, 5] = 65504
    with pytest.raises(InputError, match=r"the weight layer\.weight is float16, and with elements up to 65504"):
        import_model(str(product(tmp_path, weight, TensorProto.FLOAT16)), random_inputs=True, quantise="q4f16")


@pytest.mark.torch
@pytest.mark.parametrize(("dtype", "atol"), [("float32", 3e-5), ("float16", 0.1)])
def test_a_program_of_pytorch(tmp_path: Path, matches: Callable[..., None], dtype: str, atol: float) -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(40, 36)
            self.up, self.down = torch.nn.Linear(36, 72), torch.nn.Linear(72, 36, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.table(ids)
            return (x + self.down(torch.nn.functional.silu(self.up(x)))) @ self.table.weight.T

    torch.manual_seed(0)
    ids = torch.randint(0, 40, (1, 6))
    made = Model().to(getattr(torch, dtype)).eval()
    torch.export.save(torch.export.export(made, (ids,)), tmp_path / "model.pt2")
    model = import_model(str(tmp_path / "model.pt2"), random_inputs=True, quantise="q8")
    matches(model, atol=atol)
    names = [name for name, _ in model.parameters]
    assert names == [
        *("table.weight.words", "table.weight.scales", "up.weight.words", "up.weight.scales", "up.bias"),
        *("down.weight.words", "down.weight.scales"),
    ]
    assert model.again is not None
    again = model.again()[0][0]
    np.testing.assert_allclose(again, (model.steps[0].expected or [again + 1])[0], atol=atol)


@pytest.mark.torch
def test_what_follows_a_product_is_part_of_its_kernel(tmp_path: Path, matches: Callable[..., None]) -> None:
    """PyTorch takes an axis of one element away before a product, and adds it behind."""
    import torch

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up, self.down = (torch.nn.Linear(36, 36, bias=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))

    torch.manual_seed(0)
    sizes = {"x": {1: torch.export.Dim("tokens", max=64)}}
    program = torch.export.export(Layer(), (torch.zeros(1, 5, 36),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "model.pt2")
    np.savez(tmp_path / "x.npz", x=normal(1, 5, 36))
    model = import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "x.npz"], quantise="q8")
    matches(model, atol=3e-5)
    names = [operator.name for operator in lower(model.module, 1, model.symbols).operators]
    assert all("q8_matmul" in name for name in names)
    assert sum(name.endswith("add") for name in names) == 1


@pytest.mark.torch
def test_sizes_of_two_axes_that_a_product_takes_as_one(tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    layer = torch.nn.Linear(36, 40)
    sizes = {"input": {0: torch.export.Dim("images", max=8), 1: torch.export.Dim("places", max=64)}}
    program = torch.export.export(layer, (torch.zeros(2, 5, 36),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "model.pt2")
    given = [tmp_path / "first.npz", tmp_path / "second.npz"]
    for path, shape in zip(given, [(2, 5, 36), (3, 4, 36)], strict=True):
        np.savez(path, input=normal(*shape))
    model = import_model(str(tmp_path / "model.pt2"), input_files=given, quantise="q8")
    lowered = lower(model.module, 1, model.symbols)
    (operator,) = [found for found in lowered.operators if "q8_matmul" in found.name]
    assert [symbol.name for symbol in operator.symbols] == ["input_0", "input_1"]
    model = import_model(str(tmp_path / "model.pt2"), input_files=given[:1], quantise="q8")
    matches(model, atol=3e-5)


@pytest.mark.torch
def test_without_weights_shapes_say_what_is_packed(tmp_path: Path) -> None:
    from decoders import decoder

    config = decoder("grouped queries", tmp_path)
    plain, model = import_unweighted(config), import_unweighted(config, quantise="q844")
    assert model.quantised is not None
    kinds = {weight.name: weight.kind for weight in model.quantised.weights}
    attention = {name for name in kinds if "self_attn" in name}
    assert attention
    assert all(kinds[name] == (Q8.name if name in attention else Q4F16.name) for name in kinds)
    assert model.quantised.cost is None
    types = dict(model.parameters)
    for weight in model.quantised.weights:
        assert types[f"{weight.name}.words"].strides == (0, 0)  # no memory
    assert len(model.parameters) == len(plain.parameters) + len(kinds)
    with pytest.raises(InputError, match="there is no --quantise q5"):
        import_unweighted(config, quantise="q5")


def test_the_command_line_takes_the_modes_that_there_are() -> None:
    assert tuple(MODES) == QUANTISED
    for command in ("carve", "build"):
        for mode in MODES:
            given = command_parser().parse_args([command, "minilm", "-o", "x", "--quantise", mode])
            assert given.quantise == mode


def dequantised(folder: Path) -> Path:
    """Products with weights that are integers in the file, each of another kind."""
    random = np.random.default_rng(0)
    weights = {
        "x.scale": np.float32([0.02]),
        "channels": random.integers(-128, 128, (64, 48)).astype(np.int8),
        "channels.scale": (0.01 * random.random(48) + 0.001).astype(np.float32),
        "tensor": random.integers(0, 256, (40, 48)).astype(np.uint8),
        "tensor.scale": np.float32(0.003),
        "tensor.zero": np.uint8(131),
        "blocks": random.integers(0, 16, (40, 36)).astype(ml_dtypes.uint4),
        "blocks.scale": (0.01 * random.random((3, 36)) + 0.001).astype(np.float32),
        "blocks.zero": random.integers(5, 11, (3, 36)).astype(ml_dtypes.uint4),
        "across": random.integers(-8, 8, (36, 33)).astype(ml_dtypes.int4),
        "across.scale": (0.01 * random.random(36) + 0.001).astype(np.float32),
    }
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["channels", "channels.scale"], ["a"], axis=1),
        node("MatMul", ["x", "a"], ["first"]),
        node("DequantizeLinear", ["tensor", "tensor.scale", "tensor.zero"], ["b"]),
        node("Gemm", ["first", "b"], ["second"], transB=1),
        node("DequantizeLinear", ["blocks", "blocks.scale", "blocks.zero"], ["c"], axis=0, block_size=16),
        node("MatMul", ["second", "c"], ["third"]),
        node("DequantizeLinear", ["across", "across.scale"], ["d"], axis=0),
        node("MatMul", ["third", "d"], ["y"]),
    ]
    return saved(folder / "qdq.onnx", nodes, {"x": (TensorProto.FLOAT, (5, 64))}, ["y"], weights)


def test_integers_of_a_file_stay_what_they_are(tmp_path: Path, matches: Callable[..., None]) -> None:
    model = import_model(str(dequantised(tmp_path)), random_inputs=True)
    matches(model, atol=2e-5)
    shapes = {name: (array.dtype.name, array.shape) for name, array in model.parameters}
    assert shapes == {
        "channels.words": ("uint32", (48, 16)),
        "channels.scales": ("float32", (48, 1)),
        "tensor.words": ("uint32", (40, 12)),
        "tensor.scales": ("float32", (40, 1)),
        "blocks.words": ("uint32", (36, 5)),
        "blocks.scales": ("float32", (36, 3)),
        "blocks.zeros": ("float32", (36, 3)),
        "computed.3": ("float32", (36, 33)),  # its scales are along the axis that is summed over
    }
    notes: Any = model.provenance["notes"]
    assert any("3 weights of products and embeddings are integers in the file, and stay such" in note for note in notes)
    document: Any = model.provenance["quantised"]
    assert [weight["kind"] for weight in document["weights"]] == ["int8", "uint8", "uint4"]


def products_of_few_bits(folder: Path) -> Path:
    """MatMulNBits of each form, the last of one that tapml does not read."""
    random = np.random.default_rng(0)

    def codes(*shape: int) -> np.ndarray:
        return random.integers(0, 256, shape, np.uint8)

    def scales(*shape: int) -> np.ndarray:
        return (0.01 * random.random(shape) + 0.001).astype(np.float32)

    weights = {
        "four": codes(48, 4, 8),
        "four.scale": scales(48 * 4),
        "zeros": codes(40, 3, 8),
        "zeros.scale": scales(40, 3),
        "zeros.zero": codes(40 * 2),
        "eight": codes(36, 2, 32),
        "eight.scale": scales(36 * 2),
        "bias": random.normal(size=36).astype(np.float32),
        "mixed": codes(33, 3, 8),
        "mixed.scale": scales(33 * 3),
        "mixed.order": np.repeat(np.arange(3, dtype=np.int32), 16)[:36],
    }

    def node(names: list[str], output: str, **attributes: int) -> Any:
        return helper.make_node("MatMulNBits", names, [output], domain="com.microsoft", **attributes)

    nodes = [
        node(["x", "four", "four.scale"], "a", K=64, N=48, bits=4, block_size=16, accuracy_level=4),
        node(["a", "zeros", "zeros.scale", "zeros.zero"], "b", K=48, N=40, bits=4, block_size=16),
        node(["b", "eight", "eight.scale", "", "", "bias"], "c", K=40, N=36, bits=8, block_size=32),
        node(["c", "mixed", "mixed.scale", "", "mixed.order"], "y", K=36, N=33, bits=4, block_size=16),
    ]
    return saved(folder / "nbits.onnx", nodes, {"x": (TensorProto.FLOAT, (5, 64))}, ["y"], weights)


def test_products_of_few_bits_read_the_integers_of_the_file(tmp_path: Path, matches: Callable[..., None]) -> None:
    model = import_model(str(products_of_few_bits(tmp_path)), random_inputs=True)
    matches(model, atol=2e-5)
    shapes = {name: (array.dtype.name, array.shape) for name, array in model.parameters}
    assert shapes == {
        "four.words": ("uint32", (48, 8)),
        "four.scales": ("float32", (48, 4)),
        "zeros.words": ("uint32", (40, 6)),
        "zeros.scales": ("float32", (40, 3)),
        "zeros.zeros": ("float32", (40, 3)),
        "eight.words": ("uint32", (36, 10)),
        "eight.scales": ("float32", (36, 2)),
        "bias": ("float32", (36,)),
        "mixed": ("int32", (33, 3, 8)),
        "mixed.scale": ("float32", (99,)),
        "mixed.order": ("int32", (36,)),
    }
    notes: Any = model.provenance["notes"]
    assert any("3 weights of products and embeddings are integers in the file, and stay such" in note for note in notes)


def test_products_of_few_bits_in_float16(tmp_path: Path, matches: Callable[..., None]) -> None:
    random = np.random.default_rng(0)
    weights = {
        "four": random.integers(0, 256, (48, 2, 16), np.uint8),
        "scale": (0.01 * random.random(48 * 2) + 0.001).astype(np.float16),
        "zero": random.integers(0, 256, 48, np.uint8),
    }
    names = ["x", "four", "scale", "zero"]
    attributes = {"K": 64, "N": 48, "bits": 4, "block_size": 32}
    nodes = [helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **attributes)]
    inputs: dict[str, Any] = {"x": (TensorProto.FLOAT16, (5, 64))}
    path = saved(tmp_path / "nbits.onnx", nodes, inputs, ["y"], weights, TensorProto.FLOAT16)
    model = import_model(str(path), random_inputs=True)
    matches(model, atol=1e-2)
    assert [name for name, _ in model.parameters] == ["four.words", "four.scales", "four.zeros"]
    assert model.quantised is not None
    assert model.quantised.halves == ["four.scales"]


def test_what_a_file_leaves_as_numbers_is_quantised_beside_its_integers(
    tmp_path: Path, matches: Callable[..., None]
) -> None:
    weights = {
        "w": np.random.default_rng(1).integers(-128, 128, (48, 40)).astype(np.int8),
        "scale": np.float32(0.01),
        "plain": normal(40, 36),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["h"]),
        helper.make_node("MatMul", ["h", "plain"], ["y"]),
    ]
    path = saved(tmp_path / "both.onnx", nodes, {"x": (TensorProto.FLOAT, (3, 48))}, ["y"], weights)
    model = import_model(str(path), random_inputs=True, quantise="q4f16")
    matches(model, atol=2e-5)
    assert model.quantised is not None
    assert {weight.name: weight.kind for weight in model.quantised.weights} == {"w": "int8", "plain": "q4f16"}


@pytest.mark.parametrize(
    ("scale", "attributes"),
    [(np.ones(3, np.float32), {"axis": 1}), (np.ones((2, 40), np.float32), {"axis": 0, "block_size": 7})],
    ids=["too few", "too few blocks"],
)
def test_scales_that_are_too_few_are_one_sentence(
    tmp_path: Path, scale: np.ndarray, attributes: dict[str, int]
) -> None:
    weights = {"w": np.ones((48, 40), np.int8), "scale": scale}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], **attributes),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    path = saved(tmp_path / "few.onnx", nodes, {"x": (TensorProto.FLOAT, (3, 48))}, ["y"], weights)
    with pytest.raises(InputError, match="DequantizeLinear"):
        import_model(str(path), random_inputs=True)
