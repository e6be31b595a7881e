"""Products of `.onnx` and `.pt2` files whose activations are rounded to 8-bit integers: which are, and what is
refused."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantised_models import INNER, OUT, WIDTH, normal, saved
from tapml.carving.judge import checked
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.importing.activations import MOST_TERMS
from tapml.importing.relax_ir import operator_name

INT8 = {"quantise": "q8", "activations": "int8"}
ROWS = (5, WIDTH)


def product(path: Path, **attributes: Any) -> Path:
    """x [5, WIDTH] times a weight, by Gemm."""
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], **attributes)]
    shape = (WIDTH, 5) if attributes.get("transA") else ROWS
    return saved(path, nodes, {"x": (TensorProto.FLOAT, shape)}, ["y"], {"w": normal(WIDTH, OUT)})


def called(model: ImportedModel) -> Counter[str]:
    """Calls of kernels in its module."""
    values = [binding.value for block in model.module["main"].body.blocks for binding in block.bindings]
    calls = [value for value in values if hasattr(value, "args") and operator_name(value) == "relax.call_tir"]
    return Counter(str(call.args[0].name_hint).rstrip("0123456789") for call in calls)


def branches(path: Path) -> Path:
    """A product in each branch of an If, with a weight of the graph around it and with one of its own: both are
    computed, of the same rows."""

    def branch(name: str, weight: str, *own: Any) -> Any:
        result = helper.make_tensor_value_info(f"{name}.y", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("MatMul", ["x", weight], [f"{name}.y"])], name, [], [result], own)

    inner = numpy_helper.from_array(normal(WIDTH, OUT, seed=1), "own")
    chosen = {"then_branch": branch("then", "w"), "else_branch": branch("else", "own", inner)}
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], **chosen),
    ]
    weights = {"w": normal(WIDTH, OUT), "zero": np.float32(0)}
    return saved(path, nodes, {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)


def turns(path: Path) -> Path:
    """A product in each of three turns of a loop."""
    value = helper.make_tensor_value_info
    flag = [value(name, TensorProto.BOOL, ()) for name in ("before", "after")]
    state = [value(name, TensorProto.FLOAT, ROWS) for name in ("given", "left")]
    nodes = [
        helper.make_node("MatMul", ["given", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["left"]),
        helper.make_node("Identity", ["before"], ["after"]),
    ]
    number = value("turn", TensorProto.INT64, ())
    body = helper.make_graph(nodes, "body", [number, flag[0], state[0]], [flag[1], state[1]])
    loop = helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)
    weights = {"w": normal(WIDTH, WIDTH), "turns": np.int64(3)}
    return saved(path, [loop], {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)


def fused(path: Path) -> Path:
    """ONNX Runtime's own products, in float16."""
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["h"], domain="com.microsoft", alpha=0.5),
        helper.make_node("FusedGemm", ["h", "v", "b"], ["y"], domain="com.microsoft", activation="Relu", transB=1),
    ]
    weights = {"w": normal(WIDTH, INNER), "v": normal(OUT, INNER, seed=1), "b": normal(OUT)}
    return saved(path, nodes, {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)


def halves(path: Path) -> Path:
    """Of float16: a vector, and a weight that is a constant node behind an Identity."""
    weight = numpy_helper.from_array(normal(WIDTH, OUT).astype(np.float16))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("Identity", ["w"], ["same"]),
        helper.make_node("MatMul", ["x", "same"], ["y"]),
    ]
    return saved(path, nodes, {"x": (TensorProto.FLOAT16, (WIDTH,))}, ["y"], {}, TensorProto.FLOAT16)


def counted(path: Path) -> Path:
    """Of as many rows as have a positive sum."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["sums"], keepdims=0),
        helper.make_node("Greater", ["sums", "zero"], ["positive"]),
        helper.make_node("Compress", ["x", "positive"], ["rows"], axis=0),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    weights = {"w": normal(WIDTH, OUT), "zero": np.float32(0), "axis": np.array([1], np.int64)}
    return saved(path, nodes, {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)


@pytest.mark.parametrize(
    ("made", "products", "rows"),
    [(branches, 2, 1), (turns, 3, 3), (fused, 2, 2), (halves, 1, 1), (counted, 1, 1)],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_products_of_an_onnx_file(
    made: Callable[[Path], Path], products: int, rows: int, tmp_path: Path, matches: Callable[..., None]
) -> None:
    model = import_model(str(made(tmp_path / "model.onnx")), random_inputs=True, **INT8)
    found = called(model)
    assert (found["int8_matmul"], found["int8_rows"], found["int8_rounded"]) == (products, rows, 0)
    matches(model, atol=2e-2 if made is halves else 1e-5)


def test_what_is_multiplied_otherwise_stays(tmp_path: Path, matches: Callable[..., None]) -> None:
    """Gemm's columns, and what it multiplies by a number first."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["a"], transA=1),
        helper.make_node("Gemm", ["a", "v"], ["b"], alpha=0.5),
        helper.make_node("MatMul", ["b", "u"], ["y"]),
    ]
    weights = {"w": normal(WIDTH, INNER), "v": normal(INNER, OUT, seed=1), "u": normal(OUT, WIDTH, seed=2)}
    path = saved(tmp_path / "gemm.onnx", nodes, {"x": (TensorProto.FLOAT, (WIDTH, 5))}, ["y"], weights)
    model = import_model(str(path), random_inputs=True, **INT8)
    found = called(model)
    assert (found["int8_matmul"], found["q8_matmul"]) == (1, 2)
    matches(model, atol=1e-5)


@pytest.mark.parametrize(("quantise", "of_8", "of_4"), [("q844", 1, 1), ("q4f16", 0, 2), ("q4f32", 0, 2)])
def test_weights_of_4_bits(quantise: str, of_8: int, of_4: int, tmp_path: Path, matches: Callable[..., None]) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "attention.w"], ["h"]),
        helper.make_node("MatMul", ["h", "up.w"], ["y"]),
    ]
    weights = {"attention.w": normal(WIDTH, INNER), "up.w": normal(INNER, OUT, seed=1)}
    path = saved(tmp_path / "mixed.onnx", nodes, {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)
    model = import_model(str(path), random_inputs=True, quantise=quantise, activations="int8")
    found = called(model)
    assert (found["int8_matmul"], found["int8_q4_matmul"], found["q4_matmul"]) == (of_8, of_4, 0)
    assert model.quantised is not None
    assert model.quantised.products == 2
    matches(model, atol=1e-5)


def test_a_computed_weight_stays(tmp_path: Path, matches: Callable[..., None]) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("MatMul", ["x", "sum"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    weights = {"a": normal(WIDTH, INNER), "b": normal(WIDTH, INNER, seed=1), "w": normal(INNER, OUT, seed=2)}
    path = saved(tmp_path / "sum.onnx", nodes, {"x": (TensorProto.FLOAT, ROWS)}, ["y"], weights)
    model = import_model(str(path), random_inputs=True, **INT8)
    assert called(model)["int8_matmul"] == 1
    assert model.quantised is not None
    assert model.quantised.left == {"computed": "it is computed from other weights"}
    matches(model, atol=1e-5)


def test_what_cannot_be_rounded_is_refused(tmp_path: Path) -> None:
    path = str(product(tmp_path / "x.onnx"))
    with pytest.raises(InputError, match="give --quantise q8, q844, q4f16 or q4f32, too"):
        import_model(path, random_inputs=True, activations="int8")
    with pytest.raises(InputError, match="there is no --activations int4, did you mean int8"):
        import_model(path, random_inputs=True, quantise="q8", activations="int4")
    columns = str(product(tmp_path / "columns.onnx", transA=1))
    with pytest.raises(InputError, match="no linear layer multiplies by a quantised weight: leave out --activations"):
        import_model(columns, random_inputs=True, **INT8)
    with pytest.raises(InputError, match="give --quantise q8, q844, q4f16 or q4f32, too"):
        import_model("minilm", activations="int8")


def test_a_file_whose_operators_cannot_say_it_is_refused(tmp_path: Path) -> None:
    model = onnx.load(product(tmp_path / "x.onnx"))
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 7))
    model.graph.node[0].op_type = "MatMul"
    onnx.save(model, tmp_path / "old.onnx")
    with pytest.raises(InputError, match=r"old\.onnx: --activations needs opset 8 or later, and this is of opset 7"):
        import_model(str(tmp_path / "old.onnx"), random_inputs=True, **INT8)


@pytest.mark.torch
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_of_an_exported_program(decomposed: bool, dtype: str, tmp_path: Path) -> None:
    """Linear layers, with a bias and without, and a product with a tied table, of images and places of which there may
    be any number."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(40, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.table(ids)
            return (x + self.down(torch.nn.functional.silu(self.up(x)))) @ self.table.weight.T

    torch.manual_seed(0)
    sizes = {"ids": {1: torch.export.Dim("places", max=64)}}
    made = Model().to(getattr(torch, dtype)).eval()
    program = torch.export.export(made, (torch.zeros(2, 5, dtype=torch.long),), dynamic_shapes=sizes)
    if decomposed:
        with warnings.catch_warnings():  # of PyTorch's own
            warnings.simplefilter("ignore")
            program = program.run_decompositions()
    torch.export.save(program, tmp_path / "model.pt2")
    model = import_model(str(tmp_path / "model.pt2"), random_inputs=True, **INT8)
    found = called(model)
    assert (found["int8_matmul"], found["int8_rows"], found["int8_rounded"]) == (3, 3, 0)
    assert model.quantised is not None
    assert {weight.name for weight in model.quantised.weights} == {"table.weight", "up.weight", "down.weight"}
    assert checked(model) == []


def test_sums_that_no_int32_holds_for_sure_are_refused(tmp_path: Path) -> None:
    inner = MOST_TERMS + 1
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": normal(inner, 32)}
    path = str(saved(tmp_path / "long.onnx", nodes, {"x": (TensorProto.FLOAT, (1, inner))}, ["y"], weights))
    with pytest.raises(InputError, match=r"long\.onnx: .* \(w\) are sums of more than 131,072 terms"):
        import_model(path, random_inputs=True, **INT8)
