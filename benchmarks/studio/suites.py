"""The suites that the pages are measured with, carved once."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tapml.cli.main import main as tapml
from tapml.models import folder_of

FOLDER = Path("build/bench-studio")

LAYERS = 18

DECODER = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 256,
}


def deep() -> Path:
    """Of some 1,200 nodes: its layers are tiny, and each is carved twice, for prompt and token."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    config = FOLDER / "deep.json"
    config.write_text(json.dumps(DECODER))
    prompt = ["--prompt-ids", "1,2,3,4,5,6,7,8", "--steps", "1", "--capacity", "64"]
    return _carved("deep", ["--hf", str(config), *prompt])


def little() -> Path:
    """Of 101 nodes."""
    return _carved("minilm", ["minilm", "--text", "Every operator of this model is tested in the browser."])


def writer() -> Path:
    """Of the language model that comes with tapml, with its tokenizer."""
    return _carved("tiny", ["--hf", str(folder_of("tiny")), "--prompt", "Once upon a time", "--steps", "1"])


def copied(suite: Path, folder: Path) -> Path:
    """Without results, its tensors linked: on the same disk."""
    path = folder / suite.name

    def copy(source: str, target: str) -> None:
        if source.endswith(".bin"):
            Path(target).hardlink_to(source)
        else:
            shutil.copy2(source, target)

    return Path(shutil.copytree(suite, path, copy_function=copy, ignore=shutil.ignore_patterns("results")))


def _carved(name: str, arguments: list[str]) -> Path:
    path = FOLDER / f"{name}.suite"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if tapml(["carve", *arguments, "-o", str(path)]) != 0:
            sys.exit(f"the suite {name} could not be carved")
    return path
