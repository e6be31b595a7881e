"""What quantising a language model of transformers costs, measured on a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tapml.errors import InputError
from tapml.importing.exported_program import replace_tensors
from tapml.importing.hf_encoder import has_encoder, source_of
from tapml.importing.hf_import import Prompt, capacity_of, encoded, greedy, tokens_of
from tapml.importing.hf_model import asked, open_decoder, quiet
from tapml.importing.hf_rounded import round_activations
from tapml.importing.model import Array, Replace
from tapml.importing.quantise_cost import of_logits

_BEHIND = 60
"""Tokens that the model goes on with, where nobody gives a text."""

_LEAST = 16
"""Tokens of a text that is given."""


def cost_of_text(path: Path, prompt: Prompt, seed: int, replaced: Replace, text: str | None) -> dict[str, Any]:
    """Of the logits of a `text`, by default of the prompt and what the model goes on with as it was, with what is
    `replaced` and without. Raises InputError for a text that is too short, or that the model has no tokens for."""
    decoder = open_decoder(path, seed)
    model = decoder.model
    most = capacity_of(decoder, None)
    source = source_of(model, prompt.source, seed) if has_encoder(model) else None
    with asked(model, "the logits of a text"):
        if text is None:
            tokens = tokens_of(decoder, prompt, most, most, seed)
            tokens = [*tokens, *greedy(model, tokens, min(_BEHIND, most - len(tokens)), source)]
        elif len(tokens := encoded(decoder, text)[:most]) < _LEAST:
            raise InputError(f"--quantise-text has {len(tokens)} tokens: give {_LEAST} or more")

        def logits() -> Array:
            given = {"input_ids" if source is None else "decoder_input_ids": torch.tensor([tokens]), **(source or {})}
            with torch.no_grad(), quiet():
                found: Array = model(**given, use_cache=False).logits[0].float().numpy()
            return found

        before = logits()
        round_activations(model, replaced)
        replace_tensors(model.parameters(), replaced)
        found = of_logits(before, logits(), tokens[1:])
    return {"text": "the prompt and what the model went on with" if text is None else "the given text", "logits": found}
