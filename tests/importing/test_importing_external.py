"""Operators that TVM's importers lack: who computes them, in their own dtypes, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.importing.external import implementation
from tapml.lowering.model import read_model
from tapml.operators.external import External
from tapml.operators.read import read_document
from tapml.platforms.reference import Reference
from tapml.suite import Suite

IO = [("x", "float32", (3, 3))], [("y", "float32", (3, 3))]


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **attributes)


def agrees(model: ImportedModel, tmp_path: Path) -> Suite:
    suite = carve(model, tmp_path / "x.suite", name="x")
    assert suite.manifest["oracle"] is None or suite.manifest["oracle"]["agrees"]
    return suite


def test_an_operator_of_onnx_that_tvm_lacks(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    nodes = [node("Inverse", ["x"], ["i"], domain="com.microsoft"), node("Mul", ["x", "i"], ["y"])]
    path = save_onnx(nodes, *IO, {}, domains=["com.microsoft"])
    suite = agrees(import_model(str(path), random_inputs=True), tmp_path)
    assert suite.kernels == ["Inverse", "multiply"]


def test_an_operator_that_tvm_cannot_convert(
    save_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm.relax.frontend.onnx import onnx_frontend

    def fail(*_: Any) -> None:
        raise ValueError("no conversion of it")

    monkeypatch.setattr(onnx_frontend.Relu, "get_converter", lambda opset: fail)
    path = save_onnx([node("Relu", ["x"], ["y"])], *IO, {})
    suite = agrees(import_model(str(path), random_inputs=True), tmp_path)
    assert suite.kernels == ["Relu"]
    assert suite.manifest["model"]["notes"] == [
        "Relu (at y) is computed elsewhere and has no kernel, for it could not be converted: no conversion of it"
    ]


def test_one_that_onnx_runtime_refuses_is_computed_by_onnx_itself(
    save_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm.relax.frontend.onnx import onnx_frontend

    def fail(*_: Any) -> None:
        raise InputError("an opset that nobody knows")

    monkeypatch.setattr(onnx_frontend.Selu, "get_converter", lambda opset: fail)
    monkeypatch.setattr("tapml.importing.onnx_run.OnnxRuntime.__init__", fail)
    suite = agrees(import_model(str(save_onnx([node("Selu", ["x"], ["y"])], *IO, {})), random_inputs=True), tmp_path)
    assert suite.bundle("Selu")["compiler"]["reference"] == "ONNX's reference implementation (Selu)"
    assert suite.manifest["oracle"]["name"].startswith("onnx.reference ")
    Reference(read_model(Suite(suite.path)))


def test_several_outputs_and_those_that_nobody_reads(
    save_onnx: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.importing.onnx_graph.known", lambda node: node.op_type in ("Add", "Mul"))
    layer = node("SimplifiedLayerNormalization", ["x", "scale"], ["n", "inv"], axis=-1, stash_type=1)
    skipped = node("SkipSimplifiedLayerNormalization", ["n", "x", "scale"], ["a", "", "", "s"], domain="com.microsoft")
    again = node("SkipSimplifiedLayerNormalization", ["s", "x", "scale"], ["b", "", ""], domain="com.microsoft")
    nodes = [layer, skipped, again, node("Add", ["a", "b"], ["t"]), node("Mul", ["t", "inv"], ["y"])]
    path = save_onnx(nodes, *IO, {"scale": np.float32([1, 2, 3])}, domains=["com.microsoft"])
    suite = agrees(import_model(str(path), random_inputs=True), tmp_path)
    counts = [len(node.outputs) for node in suite.graph.nodes if node.kernel.startswith("SkipSimplified")]
    assert counts == [2, 1]


def test_dtypes_that_webgpu_lacks_are_the_implementations_own(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    """Microsoft's Unique gives places and counts in int64."""
    nodes = [node("Unique", ["x"], ["u", "where", "counts"], domain="com.microsoft")]
    outputs = [("u", "float32", (1,)), ("where", "int64", (1,)), ("counts", "int64", (1,))]
    path = save_onnx(nodes, [("x", "float32", (1,))], outputs, {}, domains=["com.microsoft"])
    suite = agrees(import_model(str(path), random_inputs=True), tmp_path)
    types = [suite.graph.values[value].type.dtype for value in suite.graph.outputs]
    assert types == ["float32", "int32", "int32"]


def test_a_function_computes_what_nothing_else_does(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    nodes = [node("Swish", ["x"], ["s"], domain="my.own", beta=2.0), node("Relu", ["s"], ["y"])]
    path = save_onnx(nodes, *IO, {}, domains=["my.own"])

    def swish(x: np.ndarray, beta: float) -> np.ndarray:
        found: np.ndarray = (x / (1 + np.exp(-beta * x))).astype(np.float32)
        return found

    model = import_model(str(path), random_inputs=True, functions={"Swish": swish})
    suite = agrees(model, tmp_path)
    assert suite.kernels == ["Swish", "relu"]
    document = json.loads((suite.path / "model/operators/Swish.json").read_text())
    assert (document["source"], document["attributes"]) == ("python", {"beta": 2.0})
    with pytest.raises(InputError, match=r"Swish was computed by a Python function .* a suite holds no code"):
        Reference(read_model(suite))
    Reference(read_model(suite), functions={"Swish": swish})
    with pytest.raises(
        InputError, match=r"lacks the operator Swish \(my.own opset 1, node 's'\), and .*--external"
    ) as told:
        import_model(str(path), random_inputs=True)
    assert "registered" not in str(told.value)
    batch = [("x", "float32", ("batch", 3))], [("y", "float32", ("batch", 3))]
    growing = save_onnx([node("Swish", ["x"], ["y"], domain="my.own")], *batch, {}, domains=["my.own"])
    files = [tmp_path / f"{rows}.npz" for rows in (2, 3)]
    for rows, file in enumerate(files, 2):
        np.savez(file, x=np.zeros((rows, 3), np.float32))
    with pytest.raises(InputError) as told:
        import_model(str(growing), input_files=files)
    assert "at fixed sizes only: export the model without it, or give inputs of one size (and, where" in str(told.value)


def test_a_function_that_fails_or_gives_something_else(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    path = save_onnx([node("Swish", ["x"], ["y"], domain="my.own")], *IO, {}, domains=["my.own"])
    with pytest.raises(InputError, match=r"a Python function \(my.own.Swish\) cannot be run: ZeroDivisionError"):
        import_model(str(path), random_inputs=True, functions={"Swish": lambda x: 1 / 0})
    fickle = {"Swish": lambda x: x[: int(np.abs(x).sum() > 0) + 1]}
    model = import_model(str(path), random_inputs=True, functions=fickle)
    with pytest.raises(InputError, match=r"operator Swish gave .* shape that depends on values"):
        carve(model, tmp_path / "x.suite", name="x")


def test_an_operator_of_pytorch_that_tvm_lacks(tmp_path: Path) -> None:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            mantissa, _ = torch.frexp(x)
            return torch.special.i0(x).sum(1) + mantissa.sum(1)

    torch.export.save(torch.export.export(Model(), (torch.rand(3, 4),)), tmp_path / "i0.pt2")
    suite = agrees(import_model(str(tmp_path / "i0.pt2"), random_inputs=True), tmp_path)
    assert {"i0", "frexp"} <= {*suite.kernels}
    assert "PyTorch (aten.i0.default)" in suite.bundle("i0")["unsupported"]
    Reference(read_model(suite))


def document(**changes: Any) -> dict[str, Any]:
    return {
        **{"format": "tapml.external/1", "source": "torch", "operator": "aten.i0.default"},
        **{"operands": [{"tensor": "float32"}], "attributes": {}, "outputs": ["float32"], **changes},
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "tapml.external/2"}, "newer tapml"),
        ({"source": "shell"}, "source"),
        ({"operator": "__import__('os')"}, "operator"),
        ({"operands": [[[[[[1]]]]]]}, "operands"),
        ({"operands": [{"tensor": "object"}]}, "operands"),
        ({"operands": [1] * 1001}, "operands"),
        ({"attributes": {"a": {"tensor": "float32"}}}, "attributes"),
        ({"attributes": {"a": "x" * 3000}}, "attributes"),
        ({"outputs": []}, "outputs"),
        ({"code": "x"}, "code"),
    ],
)
def test_a_hostile_document_is_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_document(document(**changes), "i0", "i0.json")


@pytest.mark.parametrize(
    "operator",
    [
        "aten.from_file.default", "aten.add_.Tensor", "aten.resize_.default", "aten._foo.default",
        "aten.nothing.default", "mkldnn.anything.default", "aten.i0", "aten.__class__.mro",
        "profiler._record_function_enter.default",
    ],
)  # fmt: skip
def test_of_pytorch_only_functions_of_tensors_are_run(operator: str) -> None:
    found = External.model_validate(document(operator=operator))
    with pytest.raises(InputError, match="no operator that tapml runs by PyTorch"):
        implementation(found, {})


def test_onnx_nodes_name_no_files_or_graphs() -> None:
    found = External.model_validate(document(source="onnx", operator="NoSuchThing"))
    with pytest.raises(InputError, match="ONNX Runtime cannot run the model"):
        implementation(found, {})


@pytest.mark.torch
def test_what_only_pytorch_computes_of_constants_is_computed_once(tmp_path: Path) -> None:
    """Gemma 3n's cutoff: a quantile of the normal distribution. Of an input it stays an operator."""
    import torch

    class Cutoff(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            quantile = torch.special.erfinv(2 * torch.tensor([0.9, 0.5]) - 1)
            return torch.special.erfinv(x * torch.special.erfinv(quantile * 0.5).sum())

    path = tmp_path / "cutoff.pt2"
    torch.export.save(torch.export.export(Cutoff(), (torch.rand(3, 3),)), path)
    suite = agrees(import_model(str(path), random_inputs=True), tmp_path)
    assert sorted(suite.kernels) == ["erfinv", "multiply", "sum"]
