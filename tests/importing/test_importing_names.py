"""What a model's file calls its values is what the suite's operator calls give, fused or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

from tapml.carving.prepare import lowered_with_documents
from tapml.compilers.tvm.compile import TVM
from tapml.importing import import_model
from tapml.program.graph import is_numbered
from tapml.program.program import MAIN

node = helper.make_node
B = {"b": np.ones((4, 8), np.float32)}
X = [("x", "float32", (4, 8))]


def calls(path: Path, tmp_path: Path) -> list[tuple[str, dict[str, str], list[str]]]:
    """Of each operator call: its kernel, its node's name in the file, and the names of all that it gives."""
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((4, 8), np.float32))
    model = import_model(str(path), input_files=[tmp_path / "x.npz"])
    lowered, _ = lowered_with_documents(model)
    main, graph = lowered.model.functions[MAIN], lowered.model.at({})
    return [(n.kernel, graph.names_of([n.id]), [main.values[value].name for value in n.outputs]) for n in main.nodes]


def test_fused_results_have_the_name_of_the_last_operator(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    """And each layer its own, though they are one kernel."""
    nodes: list[Any] = []
    given = "x"
    for layer in range(3):
        at = f"/encoder/layer.{layer}"
        nodes += [
            node("MatMul", [given, "w"], [f"{at}/product"]),
            node("Add", [f"{at}/product", given], [f"{at}/sum"]),
            node("Relu", [f"{at}/sum"], [f"{at}/Relu_output_0"]),
            node("Softmax", [f"{at}/Relu_output_0"], [f"{at}/softmax"]),
        ]
        given = f"{at}/softmax"
    weights = {"w": np.random.default_rng(1).standard_normal((8, 8), np.float32)}
    found = calls(save_onnx(nodes, X, [(given, "float32", (4, 8))], weights), tmp_path)
    assert [names for _, _, names in found] == [
        [f"/encoder/layer.{layer}/{name}"] for layer in range(3) for name in ("Relu_output_0", "softmax")
    ]
    assert len({kernel for kernel, _, _ in found}) == 2
    assert all([*named.values()] == names for _, named, names in found)


def test_results_that_are_several_have_theirs(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    nodes = [
        node("Softmax", ["x"], ["chances"]),
        node("Split", ["chances"], ["left", "right"], axis=1, num_outputs=2),
        node("Softmax", ["left"], ["y"]),
        node("Softmax", ["right"], ["z"]),
    ]
    outputs = [("y", "float32", (4, 4)), ("z", "float32", (4, 4))]
    found = calls(save_onnx(nodes, X, outputs, {}, opset=18), tmp_path)
    assert [names for _, _, names in found] == [["chances"], ["left", "right"], ["y"], ["z"]]
    assert [*found[1][1].values()] == ["left, right"]


def test_a_comparison_is_known_by_what_is_stored(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    nodes = [
        node("Softmax", ["x"], ["p"]),
        node("Greater", ["p", "half"], ["above"]),
        node("Not", ["above"], ["below"]),
    ]
    outputs = [("above", "bool", (4, 8)), ("below", "bool", (4, 8))]
    found = calls(save_onnx(nodes, X, outputs, {"half": np.array(0.5, np.float32)}), tmp_path)
    assert {name for _, _, names in found for name in names} == {"above", "below"}


def test_numbers_tell_calls_from_each_other(save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    """A number stays in main, and is no variable."""
    nodes: list[Any] = []
    for number in ("one", "two"):
        nodes += [
            node("Softmax", ["x"], [f"chances of {number}"]),
            node("Mul", ["x", number], [f"times {number}"]),
            node("Softmax", [f"times {number}"], [f"y {number}"]),
        ]
    weights = {"one": np.array(1.5, np.float32), "two": np.array(2.5, np.float32)}
    outputs = [(f"{kind} {number}", "float32", (4, 8)) for number in weights for kind in ("y", "times", "chances of")]
    found = {name for _, _, names in calls(save_onnx(nodes, X, outputs, weights), tmp_path) for name in names}
    assert found == {f"{kind} {number}" for number in weights for kind in ("y", "times", "chances of")}


@pytest.mark.parametrize(
    "name", ["a" * 50_000, "\x1b[2J\x1b]0;x\x07", "a\nb\u202ec", "lv3", "named_0", "if", "<b>%s{0}"]
)
def test_names_are_hostile_input(name: str, save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    nodes = [node("Softmax", ["x"], [name]), node("Softmax", [name], ["y"])]
    (_, named, (first,)), *_ = calls(save_onnx(nodes, X, [("y", "float32", (4, 8))], {}), tmp_path)
    assert len(first) <= 120
    assert first.isprintable()
    assert not name.isprintable() or first in (name, name[:117] + "...")
    assert named or name in ("lv3", "named_0"), "what looks like no name is none"


@pytest.mark.parametrize("name", ["x/in:0", "module/x-1 (é)", "1"])
def test_an_input_of_any_name_has_a_kernel(name: str, save_onnx: Callable[..., Path], tmp_path: Path) -> None:
    """JAX and TensorFlow have `/` in names, which went into WGSL as they were."""
    path = save_onnx([node("Add", [name, "b"], ["y"])], [(name, "float32", (4, 8))], [("y", "float32", (4, 8))], B)
    given: dict[str, Any] = {name: np.ones((4, 8), np.float32)}
    np.savez(tmp_path / "given.npz", **given)
    lowered, _ = lowered_with_documents(import_model(str(path), input_files=[tmp_path / "given.npz"]))
    graph = lowered.model.at({})
    assert [graph.values[value].name for value in graph.inputs] == [name]
    (kernel,) = TVM.compile(lowered.operators).values()
    (variant,) = kernel.document["variants"]
    assert len(variant["entry_points"][0]["bindings"]) == 4  # and the uniforms


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Blocks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.softmax(x, -1)


def test_what_pytorch_calls_them_stands_behind_their_module(tmp_path: Path) -> None:
    path = tmp_path / "blocks.pt2"
    torch.export.save(torch.export.export(Blocks(), (torch.zeros(4, 8),)), path)
    names = [name for _, _, of_call in calls(path, tmp_path) for name in of_call]
    assert names[:4] == ["layers.0/gelu", "layers.0/add", "layers.1/gelu_1", "layers.1/add_1"]
    assert not any(map(is_numbered, names))
