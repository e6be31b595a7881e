"""Bounds, derived by whatever process comes to it: the suite is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tapml.carving import deriving
from tapml.carving.carve import carve
from tapml.compare.operators import OperatorTolerances
from tapml.importing import import_model
from tapml.processes import Shared


def model(folder: Path) -> Path:
    """Operators with bounds, and between them two that only their functions know: those take random numbers."""
    kinds = ["Exp", "First", "Tanh", "Second", "Softmax", "First", "Sigmoid"]
    names = ["x", *(f"v{place}" for place in range(len(kinds)))]
    nodes = [
        helper.make_node(kind, [a], [b], domain="of.nobody" if kind in ("First", "Second") else "")
        for kind, a, b in zip(kinds, names, names[1:], strict=False)
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8]) for name in (names[0], names[-1]))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("of.nobody", 1)]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "m", [x], [y]), opset_imports=opsets, ir_version=8), path)
    return path


def written(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in [path / "tests.json", *(path / "tensors").rglob("*.bin")]}


def test_whoever_derives_the_suite_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions: dict[str, Callable[..., Any]] = {"First": np.sinh, "Second": lambda x: x * x}
    imported = import_model(model(tmp_path), random_inputs=True, functions=functions)
    carve(imported, tmp_path / "one.suite", name="m", keep_disagreeing=True)

    def backwards(shared: Shared[Any]) -> Iterator[tuple[str, Any]]:
        """The last come first, and the second process died with one."""
        found = [(name, task()) for tasks in shared._tasks for name, task in tasks]
        yield from found[:0:-1]

    monkeypatch.setattr(deriving, "_WORTH_A_PROCESS", 0)
    monkeypatch.setattr(Shared, "results", backwards)
    monkeypatch.setattr(Shared, "__enter__", lambda shared: shared)
    carve(imported, tmp_path / "two.suite", name="m", keep_disagreeing=True)
    one, two = written(tmp_path / "one.suite"), written(tmp_path / "two.suite")
    assert one == two
    assert one["tests.json"].count(b"estimated, for no bound can be derived") == 3


def recurrent(folder: Path) -> Path:
    """The same kernels, in each of its steps."""
    random = np.random.default_rng(0)
    shapes = {"w": (1, 12, 3), "r": (1, 12, 3), "b": (1, 24)}
    weights = [
        onnx.numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [7, 1, 3]), ("y", [7, 1, 1, 3]))
    )
    node = helper.make_node("LSTM", ["x", *shapes], ["y"], hidden_size=3)
    path = folder / "lstm.onnx"
    graph = helper.make_graph([node], "m", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_calls_together_have_the_bounds_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = import_model(str(recurrent(tmp_path)), random_inputs=True)
    together = []
    derive = OperatorTolerances.derived_together

    def spied(self: OperatorTolerances, calls: Any) -> Any:
        together.append((len(calls), found := derive(self, calls)))
        return found

    monkeypatch.setattr(OperatorTolerances, "derived_together", spied)
    carve(imported, tmp_path / "one.suite", name="m")
    assert max(count for count, found in together if found is not None) >= 5
    together.clear()
    monkeypatch.setattr(deriving, "_MOST_TOGETHER", 0)
    carve(imported, tmp_path / "two.suite", name="m")
    assert not together
    assert written(tmp_path / "one.suite") == written(tmp_path / "two.suite")
