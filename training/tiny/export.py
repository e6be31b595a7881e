#!/usr/bin/env python3
"""What train.py wrote as a folder that transformers reads, weights in float16.

    .venv/bin/python training/tiny/export.py build/tiny/trained backend/tapml/models/tiny

The folder's README.md, the model card, is written by hand.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from llama import Config


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path, help="folder with weights-*.npz and training.json")
    parser.add_argument("folder", type=Path, help="the model's folder")
    parser.add_argument("--tokenizer", type=Path, default=Path("build/tiny/tokenizer.json"))
    options = parser.parse_args()
    export(options.trained, options.folder, options.tokenizer)
    return 0


def export(trained: Path, folder: Path, tokenizer: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors (float16), tokenizer.json, tokenizer_config.json.

    training.json, what train.py said of the run, goes with them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = weights_of(trained)
    config = Config(**json.loads((trained / "training.json").read_text())["config"])
    for name, array in weights.items():
        if not (np.abs(array) <= np.finfo(np.float16).max).all():
            raise SystemExit(f"{name} has numbers that float16 cannot hold: the training went wrong")
    rounded = {name: array.astype(np.float16) for name, array in weights.items()}
    save_file(rounded, folder / "model.safetensors", metadata={"format": "pt"})
    described = config.as_transformers()
    ids = {name: described[name] for name in ("bos_token_id", "eos_token_id")}
    _write(folder / "config.json", described)
    _write(
        folder / "generation_config.json",
        {**ids, "do_sample": True, "temperature": 0.8, "top_k": 50, "top_p": 0.95, "repetition_penalty": 1.1},
    )
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    shutil.copyfile(trained / "training.json", folder / "training.json")
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|begin|>",
            "eos_token": "<|end|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": config.max_position_embeddings,
        },
    )


def weights_of(trained: Path) -> dict[str, np.ndarray]:
    """All parameters in float32, by name."""
    weights = {}
    for part in sorted(trained.glob("weights-*.npz")):
        with np.load(part) as data:
            weights.update({name: data[name] for name in data.files})
    if not weights:
        raise SystemExit(f"{trained} has no weights-*.npz: run train.py first")
    return weights


def _write(path: Path, document: dict[str, object]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
