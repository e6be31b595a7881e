"""The model and the ways of storing its weights, each built as `tapml build` builds a model that has weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.whole_models.llama.made_up import made_up_suite
from tapml.building.build import build
from tapml.carving.unweighted import without_weights
from tapml.compiled.model import CompiledModel
from tapml.compilers.choose import compilers_of
from tapml.importing import import_unweighted

STORED: Mapping[str, str | None] = {"f16": None, "q8": "q8", "q844": "q844", "q4f16": "q4f16"}
"""`--quantise` by the name that the table has (docs/quantise.md)."""


@dataclass(frozen=True)
class Shape:
    """`config` of transformers; `prompt` tokens are a call of prefill, and a token is decoded behind `context`."""

    config: Mapping[str, Any]
    capacity: int
    prompt: int
    context: int


_LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "tie_word_embeddings": True,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "eos_token_id": None,
    "dtype": "float16",
}
FULL = Shape(
    {
        **_LLAMA,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 28,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    },
    capacity=2048,
    prompt=1024,
    context=1280,
)
SMALL = Shape(
    {
        **_LLAMA,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": 512,
        "max_position_embeddings": 256,
    },
    capacity=128,
    prompt=32,
    context=40,
)
"""Of sizes that a GPU in software takes."""
SMALL_OF_PEERS = replace(SMALL, prompt=24, context=28)
"""Likewise, beside ONNX Runtime Web 1.30.0: its attention of 32 tokens or more is for subgroups of 8 lanes or more, and
gives other numbers on SwiftShader, which has 4."""


def make(folder: Path, shape: Shape, quantise: str | None, compiler: str) -> CompiledModel:
    """Build it there."""
    with tempfile.TemporaryDirectory() as temporary:
        config = Path(temporary) / "config.json"
        config.write_text(json.dumps(shape.config))
        imported = import_unweighted(config, capacity=shape.capacity, chunk=shape.prompt, quantise=quantise)
        found = without_weights(imported, {}, compilers=compilers_of(compiler, []))
        suite = made_up_suite(found, Path(temporary) / "llama.suite")
        return build(suite, folder, overwrite=True).model
