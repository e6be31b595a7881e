"""Logarithms of 1 and a little more: relatively exact, where a sum that is written out is off by 1e-3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tapml.importing import import_model

X = np.linspace(-14, 30, 111, dtype=np.float32)
EXACT = np.log1p(np.exp(X.astype(np.float64)))
FEW_ULPS = 1e-6

Evaluate = Callable[..., list[np.ndarray]]


def test_softplus_and_mish_of_onnx(tmp_path: Path, evaluate: Evaluate) -> None:
    nodes = [helper.make_node(name, ["x"], [name]) for name in ("Softplus", "Mish")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [X.size]) for name in ("x", "Softplus", "Mish")]
    graph = helper.make_graph(nodes, "functions", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), tmp_path / "model.onnx")
    np.savez(tmp_path / "in.npz", x=X)
    softplus, mish = evaluate(import_model(str(tmp_path / "model.onnx"), input_files=[tmp_path / "in.npz"]))
    np.testing.assert_allclose(softplus, EXACT, rtol=FEW_ULPS)
    np.testing.assert_allclose(mish, X * np.tanh(EXACT), rtol=FEW_ULPS)


@pytest.mark.torch
def test_softplus_and_log1p_of_pytorch(tmp_path: Path, evaluate: Evaluate) -> None:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            functional = torch.nn.functional
            return functional.softplus(x), functional.softplus(x, 0.5, 1.0), torch.log1p(x.abs() * 1e-4)

    torch.export.save(torch.export.export(Model(), (torch.from_numpy(X),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "in.npz", x=X)
    softplus, bent, log1p = evaluate(import_model(str(tmp_path / "model.pt2"), input_files=[tmp_path / "in.npz"]))
    wide = X.astype(np.float64)
    np.testing.assert_allclose(softplus, EXACT, rtol=FEW_ULPS)
    np.testing.assert_allclose(bent, np.where(wide > 2, wide, 2 * np.log1p(np.exp(wide / 2))), rtol=FEW_ULPS)
    np.testing.assert_allclose(log1p, np.log1p(np.abs(X) * np.float32(1e-4)), rtol=FEW_ULPS)
