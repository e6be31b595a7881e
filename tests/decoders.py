"""Tiny decoders of transformers, one for each kind of attention and block, with weights that are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapml.zoo.configurations import configuration

PROMPT = [3, 17, 42, 99, 7, 100, 31, 55, 12, 60, 4]
CAPACITY, CHUNK = 64, 8
"""More than the prompt and what follows; less than the prompt."""

DECODERS: Mapping[str, str] = {
    "grouped queries": "llama",
    "window": "mistral",
    "soft cap and window": "gemma2",
    "sinks and experts": "gpt_oss",
    "parallel residual": "gpt_neox",
    "learned positions": "gpt2",
    "experts": "qwen3_moe",
    "slices without elements": "phi3",
    "unsorted experts": "deepseek_v2",
    "chunks of a mask": "llama4",
    "own attention": "falcon",
    "masks of its own": "gpt_neo",
    "frequencies that may change": "llama, dynamic rope",
    "biases of the whole length": "mpt",
    "states of its own": "rwkv",
    "states of a cache": "mamba",
    "encoder of tokens": "t5, encoder and decoder",
    "encoder of features": "whisper, encoder and decoder",
}
"""The configuration for each kind."""


def decoder(kind: str, folder: Path) -> Path:
    """Its config.json."""
    return saved(configuration(DECODERS[kind]), folder)


def saved(config: Any, folder: Path) -> Path:
    config.save_pretrained(folder)
    return folder / "config.json"


def calls(tokens: Sequence[int], ends: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """The inputs of calls of a step, of tokens up to each of `ends`."""
    return [
        {
            "input_ids": np.array([tokens[begin:end]], np.int32),
            "positions": np.arange(begin, end, dtype=np.int32),
            "last": np.array([end - begin - 1], np.int32),
        }
        for begin, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
