"""What models are named by: files, those that tapml knows, and language models that come with it, each a folder as
transformers writes them."""

from __future__ import annotations

from pathlib import Path

from tapml.errors import InputError
from tapml.files import check_file
from tapml.text import meant

MINILM = "minilm"
"""The sentence encoder that is fetched when it is first asked for."""

_FILES = (".onnx", ".pt2")

NAMES = ("tiny",)


def folder_of(name: str) -> Path:
    """The folder of a model: config.json, model.safetensors (float16), tokenizer.json, README.md (its card).

    Raises:
        InputError: no such model comes with tapml.
    """
    if name not in NAMES:
        raise InputError(f"no language model named {name!r} comes with tapml: name {' or '.join(NAMES)}, or a folder")
    return Path(__file__).parent / name


def model_file(model: str) -> Path:
    """The file of a model that is named by it, any but `MINILM`. Raises InputError where it is none that tapml reads,
    or not there."""
    path = Path(model)
    if path.suffix not in _FILES:
        like = meant(model, (MINILM,)) or ";"
        raise InputError(f"{model}: not a model tapml can read{like} give {MINILM}, a .onnx or a .pt2 file")
    check_file(path)
    return path
