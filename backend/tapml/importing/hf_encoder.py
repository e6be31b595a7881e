"""Models of transformers with an encoder: it is run once, and what the decoder's cross-attention keeps of it becomes
inputs of the decoder's steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, EncoderDecoderCache

from tapml.errors import InputError

Source = Mapping[str, torch.Tensor]
"""What an encoder is given, by the model's name for it."""

SOURCE = "source"
"""The symbol: how many tokens the encoder takes."""

_MADE_UP = 9
"""Tokens of a source that nobody gave."""

_MOST_SOURCE = 512
"""Where the configuration does not say."""


def has_encoder(model: Any) -> bool:
    return bool(getattr(model.config, "is_encoder_decoder", False))


def most_source(model: Any) -> int | None:
    """Tokens that the encoder takes; None where its input has one size."""
    if model.main_input_name != "input_ids":
        return None
    found = getattr(model.config, "n_positions", None) or getattr(model.config, "max_position_embeddings", None)
    return int(found or _MOST_SOURCE)


def source_of(model: Any, given: Any, seed: int) -> Source:
    """What the encoder is given: tokens, an array as the model takes it, or None for one that is made up of `seed`.
    Raises InputError for another shape."""
    name, config = model.main_input_name, model.config
    generator = torch.Generator().manual_seed(seed)
    if name == "input_ids":
        words = config.vocab_size
        if given is None:
            return {name: torch.randint(0, words, (1, _MADE_UP), generator=generator).int()}
        tokens = [int(token) for token in np.asarray(given).reshape(-1)]
        if not tokens or any(not 0 <= token < words for token in tokens):
            raise InputError(f"the source of {type(model).__name__} is tokens from 0 to {words - 1}, one or more")
        return {name: torch.tensor([tokens], dtype=torch.int32)}
    if not hasattr(config, "num_mel_bins"):
        raise InputError(f"{type(model).__name__} takes {name}, of which tapml does not know the shape")
    shape = (1, config.num_mel_bins, 2 * config.max_source_positions)
    if given is None:
        return {name: torch.randn(shape, generator=generator)}
    array = np.asarray(given)
    if array.dtype != np.float32 or array.shape not in (shape, shape[1:]):
        raise InputError(
            f"the source of {type(model).__name__} is {name}, float32 {list(shape)}: this is {array.dtype} "
            f"{list(array.shape)}"
        )
    return {name: torch.from_numpy(array.reshape(shape).copy())}


def other_source(model: Any, source: Source) -> Source | None:
    """One of another length, so that lengths are seen to differ; None where all have one."""
    if most_source(model) is None:
        return None
    ((name, tokens),) = source.items()
    half = tokens.shape[1] // 2
    return {name: tokens[:, :half] if half else torch.cat([tokens, tokens], 1)}


class Encoder(torch.nn.Module):  # type: ignore[misc]  # torch has no types
    """Of the source: `cross_keysN` and `cross_valuesN` [heads, source, dim] of the decoder's N-th layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: torch.Tensor) -> dict[str, torch.Tensor]:
        begin = torch.zeros(1, 1, dtype=torch.long)
        found = self.model(**{self.model.main_input_name: source}, decoder_input_ids=begin, use_cache=True)
        return cross_of(found.past_key_values)


def cross_of(cache: Any) -> dict[str, torch.Tensor]:
    """`keysN` and `valuesN` of its cross-attention, of one sequence."""
    return {
        f"{kind}{number}": getattr(layer, kind).squeeze(0)
        for number, layer in enumerate(cache.cross_attention_cache.layers)
        for kind in ("keys", "values")
    }


def with_cross(own: Any, cross: Mapping[str, torch.Tensor]) -> Any:
    """A cache of a decoder: its own, and what `cross_of` gave."""
    given = DynamicCache()
    for number in range(len(cross) // 2):
        given.update(cross[f"keys{number}"].unsqueeze(0), cross[f"values{number}"].unsqueeze(0), number)
    cache = EncoderDecoderCache(own, given)
    cache.is_updated = dict.fromkeys(range(len(cross) // 2), True)
    return cache
