"""The language model that comes with tapml: it loads, it is what its card says, and it still knows its texts."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tapml.errors import InputError
from tapml.models import folder_of

FOLDER = folder_of("tiny")
CARD = (FOLDER / "README.md").read_text()
HELD_OUT = json.loads((Path(__file__).parent / "held_out.json").read_text())
"""Documents that it was not trained on, or their beginnings: `source` and `text`."""
BITS_A_BYTE = 1.4041
"""Of those, by transformers on a CPU when the model was checked in."""
WRITTEN = {
    "The king said to": " him, “You are not the God of the spirits of the king,"
    " nor of the children of the king of Babylon",
    "debug (verb):": ' make a bug\n  "The bug reported the news"\nA way to bug.',
}
"""Greedily; between the first and the second token there were at least 0.04."""


def test_another_name_is_refused() -> None:
    with pytest.raises(InputError, match="no language model named 'huge' comes with tapml: name tiny, or a folder"):
        folder_of("huge")


def test_its_card_says_what_its_files_say() -> None:
    path = FOLDER / "model.safetensors"
    arrays = load_file(path)
    assert path.stat().st_size <= 12_000_000
    assert {array.dtype for array in arrays.values()} == {np.dtype("float16")}
    assert f"{sum(array.size for array in arrays.values()):,}, in float16" in CARD
    training = json.loads((FOLDER / "training.json").read_text())
    rows = re.findall(r"^\| .* \| (\d+\.\d\d) \| (\d\.\d{3}) \|$", CARD, re.MULTILINE)
    measured = training["held_out_float32"].values()
    assert rows == [(f"{one['perplexity']:.2f}", f"{one['bits_a_byte']:.3f}") for one in measured]
    for number in ("10,000 steps", "655 million tokens", "236 seconds"):
        assert number in CARD
    assert (training["steps"], training["tokens"]) == (10_000, 655_360_000)
    config = json.loads((FOLDER / "config.json").read_text())
    assert Tokenizer.from_file(str(FOLDER / "tokenizer.json")).get_vocab_size() == config["vocab_size"] == 4096


@pytest.fixture(scope="module")
def model() -> Any:
    import torch
    from transformers import LlamaForCausalLM

    found, information = LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, output_loading_info=True)
    assert not information["missing_keys"]
    assert not information["unexpected_keys"]
    return found.eval()


@pytest.mark.torch
def test_it_knows_texts_that_it_was_not_trained_on(model: Any) -> None:
    import torch

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    nats = size = 0.0
    for document in HELD_OUT:
        ids = torch.tensor([[*tokenizer.encode(document["text"]).ids, 1]])
        assert tokenizer.decode(ids[0].tolist()) == document["text"]
        with torch.no_grad():
            logits = model(ids).logits[0, :-1]
        nats += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        size += len(document["text"].encode())
    bits = nats / math.log(2) / size
    assert bits == pytest.approx(BITS_A_BYTE, rel=0.001)


@pytest.mark.torch
def test_it_writes_as_its_books_do(model: Any) -> None:
    import torch

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    for given, written in WRITTEN.items():
        ids = torch.tensor([tokenizer.encode(given).ids])
        found = model.generate(ids, do_sample=False, repetition_penalty=1.0, max_new_tokens=24)
        assert tokenizer.decode(found[0].tolist()) == given + written
