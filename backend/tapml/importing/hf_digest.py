"""Which model of transformers a folder has: without PyTorch, which takes seconds to load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tapml.files import sha256

CONFIG = "config.json"


def weight_files(folder: Path) -> list[Path]:
    """All of its *.safetensors."""
    return sorted(folder.glob("*.safetensors"))


def model_digest(config: Path, weights: Sequence[Path]) -> str:
    """Of a config.json and the weights: copies of a model have the same."""
    return sha256("".join(sha256(found.read_bytes()) for found in (config, *weights)))
