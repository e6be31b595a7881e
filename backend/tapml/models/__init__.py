"""Language models that come with tapml, each a folder as transformers writes them."""

from __future__ import annotations

from pathlib import Path

from tapml.errors import InputError

NAMES = ("tiny",)


def folder_of(name: str) -> Path:
    """The folder of a model: config.json, model.safetensors (float16), tokenizer.json, README.md (its card).

    Raises:
        InputError: no such model comes with tapml.
    """
    if name not in NAMES:
        raise InputError(f"no language model named {name!r} comes with tapml: name {' or '.join(NAMES)}, or a folder")
    return Path(__file__).parent / name
