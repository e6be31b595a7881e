"""Models of files and minilm whose activations are 8-bit integers, carved: products of integers, right on a device."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from quantised_models import INNER, OUT, WIDTH, normal, saved
from tapml.carving import by_operator
from tapml.carving.carve import carve
from tapml.carving.judge import checked
from tapml.compilers.choose import CHOICES
from tapml.importing import ImportedModel, import_model
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

ROWS = 3
INT8 = {"quantise": "q8", "activations": "int8"}


def gated(path: Path) -> Path:
    """`x` [2, ROWS, WIDTH] to `y`: two products of one input, one of what these give, with a bias, and a vector of each
    image by Gemm."""
    weights = {
        "gate": normal(WIDTH, INNER),
        "up": normal(WIDTH, INNER, seed=1),
        "down": normal(INNER, WIDTH, seed=2),
        "down.bias": normal(WIDTH, seed=3),
        "head": normal(OUT, WIDTH, seed=4),
        "head.bias": normal(OUT, seed=5),
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "gate"], ["gated"]),
        node("MatMul", ["x", "up"], ["wide"]),
        node("Gelu", ["gated"], ["gelu"]),
        node("Mul", ["gelu", "wide"], ["inner"]),
        node("MatMul", ["inner", "down"], ["narrow"]),
        node("Add", ["narrow", "down.bias"], ["biased"]),
        node("ReduceMax", ["biased", "axis"], ["pooled"], keepdims=0),
        node("Gemm", ["pooled", "head", "head.bias"], ["y"], transB=1),
    ]
    weights["axis"] = np.array([1], np.int64)
    return saved(path, nodes, {"x": (TensorProto.FLOAT, (2, ROWS, WIDTH))}, ["y"], weights)


def program(path: Path) -> Path:
    """Of PyTorch, the same but for the last product, and a small layer that stays."""
    import torch

    class Gated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(WIDTH, INNER, bias=False)
            self.down, self.head = torch.nn.Linear(INNER, WIDTH), torch.nn.Parameter(torch.randn(WIDTH, OUT))
            self.small = torch.nn.Linear(WIDTH, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            narrow = self.down(torch.nn.functional.gelu(self.gate(x)) * self.up(x)).amax(1)
            # Written in place between two products that read it.
            small = self.small(narrow)
            return narrow.relu_() @ self.head, small

    torch.manual_seed(0)
    torch.export.save(torch.export.export(Gated().eval(), (torch.randn(2, ROWS, WIDTH),)), path)
    return path


def file_of(kind: str, folder: Path) -> Path:
    return gated(folder / "gated.onnx") if kind == "onnx" else program(folder / "gated.pt2")


def pass_on_a_device(suite: Suite) -> None:
    with Server() as server:
        device = server.state.device("node-dawn")
        run = OperatorRun(JobContext(suite, [device], server.state.blobs)).run()
    assert {test["verdict"] for test in run["tests"]} == {"pass"}
    assert len(run["tests"]) == len(suite.tests)


def called(suite: Suite) -> Counter[str]:
    """Calls of kernels, by what they compute first."""
    names = (node.kernel for node in suite.graph.kernel_nodes)
    parts = ("int8_rows", "int8_matmul", "int8_q4_matmul", "q8_", "q4_")
    return Counter(next((part for part in parts if part in name), "") for name in names)


@pytest.mark.parametrize("compiler", ["native", pytest.param("tvm", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["onnx", pytest.param("pt2", marks=pytest.mark.torch)])
@pytest.mark.parametrize(("quantise", "operator"), [("q8", "int8_matmul"), ("q4f16", "int8_q4_matmul")])
def test_a_file(quantise: str, operator: str, kind: str, compiler: str, tmp_path: Path) -> None:
    """Products that read the same rows share what these are rounded to; the oracle computes with that, too."""
    path = str(file_of(kind, tmp_path))
    model = import_model(path, random_inputs=True, quantise=quantise, activations="int8")
    unrounded = import_model(path, random_inputs=True, quantise=quantise)
    assert model.quantised is not None
    assert model.quantised.products == 4
    for cost in (model.quantised.cost or {})["outputs"].values():
        assert cost["cosine"] > (0.999 if quantise == "q8" else 0.95)
    suite = carve(model, tmp_path / "x.suite", name="x", compilers=CHOICES[compiler])
    oracle = suite.manifest["oracle"]
    assert oracle["agrees"]
    assert oracle["operators"]["held"] == oracle["operators"]["of"]
    (rounded, *_), (numbers, *_) = (found.steps[0].expected or [] for found in (model, unrounded))
    assert oracle["max_abs_error"] < 1e-5 < 1e-3 < np.abs(rounded - numbers).max()
    assert suite.manifest["model"]["quantised"]["activations"] == "int8"
    found = called(suite)
    assert (found["int8_rows"], found[operator], found["q8_"] + found["q4_"]) == (3, 4, 0)
    pass_on_a_device(suite)


@pytest.mark.parametrize("kind", ["onnx", pytest.param("pt2", marks=pytest.mark.torch)])
def test_a_model_in_detail_has_what_is_rounded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for where an oracle's value may be hidden by what follows, and has to give the words of rows, too."""
    asked: list[ImportedModel] = []
    monkeypatch.setattr(by_operator, "_unclear", lambda *_: True)
    model = import_model(str(file_of(kind, tmp_path)), random_inputs=True, **INT8)
    in_detail = model.in_detail
    assert in_detail is not None

    def found() -> ImportedModel:
        asked.append(in_detail())
        return asked[-1]

    assert checked(dataclasses.replace(model, in_detail=found)) == []
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantise", "cosine", "products"),
    [("q8", 0.98, {"int8_matmul": 36}), ("q844", 0.94, {"int8_matmul": 24, "int8_q4_matmul": 12})],
    ids=["q8", "q844"],
)
def test_minilm(quantise: str, cosine: float, products: dict[str, int], tmp_path: Path) -> None:
    """Four roundings in each of six layers: queries, keys and values have the same rows."""
    texts = ["A quick brown fox jumps over the lazy dog near the river bank.", "Good morning"]
    model = import_model("minilm", texts=texts, one_by_one=True, quantise=quantise, activations="int8")
    assert model.quantised is not None
    assert model.quantised.products == 36
    assert (model.quantised.cost or {})["outputs"]["embedding"]["cosine"] > cosine
    suite = carve(model, tmp_path / "minilm.suite", name="minilm", compilers=CHOICES["native"])
    oracle = suite.manifest["oracle"]
    assert oracle["agrees"]
    assert oracle["operators"]["held"] == oracle["operators"]["of"]
    assert oracle["max_abs_error"] < 1e-5
    found = called(suite)
    assert {name: found[name] for name in ("int8_rows", *products)} == {"int8_rows": 24, **products}
    pass_on_a_device(suite)
