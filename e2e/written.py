"""What the language model that comes with tapml writes, by transformers, and the compiled model: of several modules of
tests, so that workers share them out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tapml as tml
from preloaded import tapml
from tapml.models import folder_of

SECONDS = 1500
"""For a command: a software GPU may take seconds for a token, where others work on the machine."""
PROMPT, STEPS = "It was a dark and stormy night", 64


def build_tiny(path: Path) -> None:
    """As `tapml generate tiny` does when it is first called; it is found again in the cache."""
    path.mkdir()
    said = tapml(
        *("generate", "tiny", "--prompt", "Once", "--tokens", 1),
        environment={**os.environ, "TAPML_CACHE": str(path)},
        timeout=SECONDS,
    )
    assert said.code == 0, said.err
    assert "building tiny, once" in said.err


def of_transformers(prompt: str) -> list[int]:
    """The tokens of transformers, with its own cache."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    decoder = open_decoder(folder_of("tiny"))
    return greedy(decoder.model, prompt_ids(prompt), STEPS)


def prompt_ids(prompt: str = PROMPT) -> list[int]:
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(folder_of("tiny") / "tokenizer.json")).encode(prompt).ids)


def check(found: Sequence[int], wanted: Sequence[int], path: Path) -> None:
    """Equal, or else the step where they part is told, with how near the two tokens' logits are on the CPU."""
    parted = next((step for step, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]), None)
    if parted is None:
        return
    model = tml.load_model(path)
    before = [*prompt_ids(), *wanted[:parted]]
    calls = [
        {
            "input_ids": np.array([[token]], np.int32),
            "positions": np.array([place], np.int32),
            "last": np.zeros(1, np.int32),
        }
        for place, token in enumerate(before)
    ]
    facts = model.files.model.generation
    assert facts is not None
    logits = model.run_calls(calls, function=facts.decode).outputs[-1]["logits"][0]
    gap = abs(float(logits[found[parted]]) - float(logits[wanted[parted]]))
    pytest.fail(
        f"tokens part at step {parted}: {found[parted]} in place of {wanted[parted]}, whose logits are {gap:.2g} apart"
    )
