"""What is wrong with a model, its operators, its inputs or its run is said before a kernel is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.lowering.operator import Operator

Save = Callable[[Path, str], Path]


class Never:
    """A compiler that is not to be reached."""

    name, version = "never", "1"

    def compile(self, operators: Sequence[Operator], *_: Any) -> dict[str, Any]:
        raise AssertionError(f"{[operator.name for operator in operators]} were to be compiled")


def save_onnx(folder: Path, kind: str) -> Path:
    nodes = {
        "unknown": [helper.make_node("Strange", ["x"], ["y"], domain="of.nobody")],
        "sized by data": [
            helper.make_node("NonZero", ["x"], ["p"]),
            helper.make_node("Shape", ["p"], ["s"]),
            helper.make_node("Cast", ["s"], ["y"], to=1),
        ],
    }.get(kind, [helper.make_node("Exp", ["x"], ["y"])])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("of.nobody", 1)]
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "m", [x], [y]), opset_imports=opsets, ir_version=8),
        folder / "m.onnx",
    )
    return folder / "m.onnx"


def save_torch(folder: Path, kind: str) -> Path:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if kind == "unknown":
                return torch.rand_like(x) + x
            return x.nonzero().float() if kind == "sized by data" else x.exp()

    torch.export.save(torch.export.export(Model(), (torch.ones(2, 3),)), folder / "m.pt2")
    return folder / "m.pt2"


def begun(save: Save, kind: str, folder: Path) -> None:
    shape = (2, 4) if kind == "shape" else (2, 3)
    x = np.ones(shape, np.complex64 if kind == "dtype" else np.float32)
    np.savez(folder / "in.npz", **{"z" if kind == "name" else "x": x})
    model = import_model(str(save(folder, kind)), input_files=[folder / "in.npz"])
    if kind == "disagrees":
        (step,) = model.steps
        assert step.expected is not None
        model = replace(model, second=None, steps=[replace(step, expected=[array + 1 for array in step.expected])])
    carve(model, folder / "x.suite", name="x", compilers=[Never()])


@pytest.mark.parametrize("save", [save_onnx, pytest.param(save_torch, marks=pytest.mark.torch)])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unknown", "Strange|rand_like"),
        ("sized by data", "depends on"),
        ("shape", "x.*4"),
        ("dtype", "complex"),
        ("name", "z|x"),
        ("disagrees", "disagrees with"),
    ],
)
def test_what_is_wrong_is_said_before_a_kernel_is_compiled(save: Save, kind: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        begun(save, kind, tmp_path)
    assert not (tmp_path / "x.suite").exists()


def test_what_is_right_comes_to_its_kernels(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="were to be compiled"):
        begun(save_onnx, "right", tmp_path)
