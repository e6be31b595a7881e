"""A decoder of a configuration alone is the one that weights make, and takes no memory for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tapml.carving.prepare import lowered_with_documents
from tapml.errors import InputError
from tapml.importing import import_decoder, import_unweighted

LLAMA = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OTHERS: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "gemma2": {**LLAMA, "model_type": "gemma2", "head_dim": 8, "sliding_window": 8},
    "llama": LLAMA,
}


def written(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def unnumbered(program: Any) -> str:
    """PyTorch counts operators as it goes, and one way goes over the model once more."""
    return re.sub(r'(/[a-z_]+?)(_default)?(_\d+)?"', r'\1"', json.dumps(program))


@pytest.mark.parametrize(
    "name", [name if name == "gpt2" else pytest.param(name, marks=pytest.mark.slow) for name in OTHERS]
)
def test_program_and_operators_are_those_of_the_model_with_weights(tmp_path: Path, name: str) -> None:
    config = written(tmp_path, {**OTHERS[name], "tie_word_embeddings": False})
    weighted, unweighted = import_decoder(config, prompt=[3, 1, 2, 5], chunk=8), import_unweighted(config, chunk=8)
    (expected, programs), (found, of_none) = map(lowered_with_documents, (weighted, unweighted))
    assert unnumbered(found.model.to_json()) == unnumbered(expected.model.to_json())
    assert of_none == programs
    assert unweighted.generation == weighted.generation
    assert [(n, a.shape, a.dtype) for n, a in unweighted.parameters] == [
        (n, a.shape, a.dtype) for n, a in weighted.parameters
    ]


def test_a_tied_embedding_is_one_weight_that_nothing_transposes(tmp_path: Path) -> None:
    unweighted = import_unweighted(written(tmp_path, {**LLAMA, "tie_word_embeddings": True}))
    lowered, _ = lowered_with_documents(unweighted)
    assert [name for name, _ in unweighted.parameters if "embed" in name or "lm_head" in name] == [
        "model.model.embed_tokens.weight"
    ]
    nodes = [node for function in lowered.model.functions.values() for node in function.nodes]
    assert any(node.kernel == "matmul_transposed" for node in nodes)
    moved = {given for node in nodes if node.kernel.startswith("transpose") for given in node.inputs}
    assert not moved & {*lowered.arguments}


def test_weights_of_a_model_of_float16_will_hold_that(tmp_path: Path) -> None:
    plain = import_unweighted(written(tmp_path, {**LLAMA, "dtype": "bfloat16"}))
    assert not plain.halves
    unweighted = import_unweighted(written(tmp_path, {**LLAMA, "torch_dtype": "float16"}))
    names = {name for name, _ in unweighted.parameters}
    assert {name for name in names - {*unweighted.halves} if not name.startswith("table")} == set()
    assert not {name for name in unweighted.halves if name.startswith("table")}


def test_weights_take_no_memory(tmp_path: Path) -> None:
    """As wide as a Llama of 70B."""
    large = {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_key_value_heads": 8}
    unweighted = import_unweighted(written(tmp_path, {**LLAMA, **large}), capacity=8)
    assert sum(array.nbytes for _, array in unweighted.parameters) > 6e9
    assert all(array.strides == (0,) * array.ndim for name, array in unweighted.parameters if "proj" in name)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"model_type": "mamba", "vocab_size": 96, "hidden_size": 16, "num_hidden_layers": 1},
            "shows only when it is run",
        ),
        ({"model_type": "t5", "vocab_size": 96, "d_model": 16, "num_layers": 1}, "has an encoder"),
        ({"model_type": "nothing"}, "no config that transformers can read"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        import_unweighted(written(tmp_path, config))
    assert torch.nn.Module.register_parameter.__name__ == "register_parameter"
