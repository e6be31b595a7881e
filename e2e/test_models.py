"""The other two doors: an ONNX file and a torch.export program, with int64 inputs, in both browsers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import read_json, tapml

VOCABULARY, WIDTH, TOKENS = 50, 32, 9


def write_onnx(folder: Path) -> Path:
    """ids (int64, dynamic length) -> embedding -> layer normalisation -> logits -> probabilities and the best token."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((random.standard_normal(shape) / 4).astype(np.float32), name)

    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"], axis=0),
        helper.make_node("LayerNormalization", ["embedded", "scale", "bias"], ["normal"], axis=-1),
        helper.make_node("MatMul", ["normal", "head"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
        helper.make_node("ArgMax", ["logits"], ["best"], axis=-1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, "length", VOCABULARY]),
            helper.make_tensor_value_info("best", TensorProto.INT64, [1, "length"]),
        ],
        [
            weight("table", VOCABULARY, WIDTH),
            weight("scale", WIDTH),
            weight("bias", WIDTH),
            weight("head", WIDTH, VOCABULARY),
        ],
    )
    path = folder / "tokens.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def write_pt2(folder: Path) -> Path:
    """Embedding and masked multi-head attention, sequence length left open."""
    import torch

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(VOCABULARY, WIDTH)
            self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
            self.normal = torch.nn.LayerNorm(WIDTH)
            self.head = torch.nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.table(ids) + self.table(torch.arange(ids.shape[1])[None])
            mixed, _ = self.attention(x, x, x, key_padding_mask=mask == 0)
            logits = self.head(self.normal(x + mixed))
            return logits.softmax(-1), logits.argmax(-1)

    torch.manual_seed(0)
    example = torch.zeros(2, TOKENS, dtype=torch.long), torch.ones(2, TOKENS, dtype=torch.long)
    length = torch.export.Dim("length", min=2, max=48)
    program = torch.export.export(Tokens().eval(), example, dynamic_shapes=({1: length}, {1: length}))
    path = folder / "tokens.pt2"
    torch.export.save(program, path)
    return path


def real_inputs(kind: str, path: Path) -> None:
    random = np.random.default_rng(1)
    if kind == "onnx":
        np.savez(path, ids=random.integers(0, VOCABULARY, (1, TOKENS)))
    else:
        mask = np.ones((2, TOKENS), np.int64)
        mask[1, 5:] = 0
        np.savez(path, ids=random.integers(0, VOCABULARY, (2, TOKENS)), mask=mask)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_a_model_file_goes_all_the_way(kind: str, tmp_path: Path) -> None:
    model = write_onnx(tmp_path) if kind == "onnx" else write_pt2(tmp_path)
    inputs, suite, out = tmp_path / "real.npz", tmp_path / "tokens.suite", tmp_path / "out.json"
    real_inputs(kind, inputs)
    carved = tapml("carve", model, "--inputs", inputs, "-o", suite)
    assert carved.code == 0, carved.err
    assert "agrees" in carved.out
    assert "SYNTHETIC" not in carved.out
    validated = tapml("validate", suite, "--device", "chromium", "--device", "firefox", "--json", out)
    assert validated.code == 0, validated.out + validated.err
    assert read_json(out)["summary"]["pass"] == read_json(out)["summary"]["total"] > 0
    moved = tapml("offload", suite, "--device", "firefox", "--json", out)
    assert moved.code == 0, moved.out + moved.err
    assert read_json(out)["final"]["verdict"] == "pass"
