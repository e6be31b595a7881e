"""A step of a decoder: some tokens, at positions that follow one another, with what it kept of those before."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import Cache
from transformers.modeling_outputs import BaseModelOutput

from tapml.importing.hf_attention import attending, cache_append, cached_attention
from tapml.importing.hf_caches import AttentionLayer, OwnCache
from tapml.importing.hf_choice import most_likely
from tapml.importing.hf_encoder import with_cross
from tapml.importing.hf_kept import Kept, put_state, states_of
from tapml.importing.hf_masks import Mask, MaskFunction, added_at, masks_at


class Pool(NamedTuple):
    """What several sequences share of states: so many `places`, in blocks of `block`."""

    block: int
    places: int


class Step(torch.nn.Module):  # type: ignore[misc]  # torch has no types
    """Of `input_ids` [1, n], `positions` [n] and `last` [k], all int32: the logits [k, vocabulary] of tokens `last`,
    and of each row the most likely token [k] (hf_choice.py).

    Keys and values of the tokens are put at their positions of the buffers `keys0`, `values0`, `keys1`, ... States of a
    recurrence are what they are before the first token at position 0, whatever they hold. `cross`: what an encoder
    left (hf_encoder.py).
    """

    def __init__(self, model: Any, kept: Kept, capacity: int, *, counts: bool, pool: Pool | None = None) -> None:
        """`counts`: the model is told how many tokens came before, which some cannot bear, and others go without.
        `pool`: of a step that several sequences share (PooledStep)."""
        super().__init__()
        self.pool = pool or Pool(0, capacity)
        self._blocks: torch.Tensor | None = None
        self.model, self.kept, self.capacity, self._counts = model, kept, capacity, counts
        self._given = inspect.signature(model.forward).parameters
        for number, shapes in kept.pairs.items():
            for name, (heads, dim) in zip(("keys", "values"), shapes, strict=True):
                # numpy's zeros take no memory before somebody writes.
                empty = torch.from_numpy(np.zeros((heads, self.pool.places, dim), np.float32))
                self.register_buffer(f"{name}{number}", empty)
        for name, begun in kept.states.items():
            self.register_buffer(name, torch.zeros_like(begun))
            self.register_buffer(f"{name}_begun", begun.clone(), persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        last: torch.Tensor,
        cross: Mapping[str, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        states = {name: self._state(name, positions) for name in self.kept.states}
        held = self._held(states, positions)
        before = "" if cross is None else "decoder_"
        given: dict[str, Any] = {f"{before}input_ids": input_ids, self.kept.argument: held}
        if cross is not None:
            given[self.kept.argument] = with_cross(held, cross)
            # Of its length only: keys and values are there.
            encoded = torch.zeros(1, cross["keys0"].shape[1], 1)
            given["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        if f"{before}position_ids" in self._given:
            given[f"{before}position_ids"] = positions.unsqueeze(0)
        if self.kept.pairs and not self.kept.interface:
            # Of as many places as there are: some make their biases of its length.
            given[f"{before}attention_mask"] = torch.ones(1, self.capacity, dtype=torch.long)
        chooses = "logits_to_keep" in self._given
        if chooses:
            given["logits_to_keep"] = last.long()
        with attending(_Caching(self, positions)) if self.kept.interface else masks_at(self.model, positions):
            found = self.model(use_cache=True, **given)
        left = dict(states_of(held)) if isinstance(held, Cache) else dict(zip(states, found.state, strict=True))
        for name in states:
            getattr(self, name).copy_(left[name])
        logits = found.logits.squeeze(0)
        logits = logits if chooses else logits.index_select(0, last)
        return logits, most_likely(logits)

    def append(self, number: int, keys: Any, values: Any, positions: torch.Tensor) -> tuple[Any, Any]:
        """What the caches of that number hold with the new tokens' [heads, n, dim]: [heads, capacity, dim]."""
        appended = []
        for name, new in (("keys", keys), ("values", values)):
            buffer = getattr(self, f"{name}{number}")
            found = cache_append(buffer, new, positions, self._blocks, self.pool.block)
            buffer.copy_(found)
            appended.append(found)
        return appended[0], appended[1]

    def _state(self, name: str, positions: torch.Tensor) -> torch.Tensor:
        return torch.where(positions[0] == 0, getattr(self, f"{name}_begun"), getattr(self, name))

    def _held(self, states: dict[str, torch.Tensor], positions: torch.Tensor) -> Any:
        if self.kept.argument == "state":
            return list(states.values())

        def layer(number: int) -> AttentionLayer:
            def append(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                if self.kept.interface:
                    return keys, values  # the attention appends
                found = self.append(number, keys.squeeze(0), values.squeeze(0), positions)
                return found[0].unsqueeze(0), found[1].unsqueeze(0)

            return AttentionLayer(append, self.capacity, positions[0] if self._counts else 0)

        cache = OwnCache(self.model.config.get_text_config(), layer)
        for name, tensor in states.items():
            put_state(cache, name, tensor)
        return cache


class PooledStep(Step):
    """A step with tokens of several sequences: `blocks` [n, capacity / block] says of each where its text's are."""

    def forward(  # type: ignore[override]  # one input more, in the place of an encoder's
        self, input_ids: torch.Tensor, positions: torch.Tensor, last: torch.Tensor, blocks: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self._blocks = blocks
        try:
            return super().forward(input_ids, positions, last)
        finally:
            self._blocks = None


class _Caching:
    """Appends to the step's buffers, and attends to them."""

    def __init__(self, step: Step, positions: torch.Tensor) -> None:
        self._step, self._positions = step, positions
        self._caches: list[tuple[Any, Any, tuple[Any, Any]]] = []
        self._masks: list[tuple[torch.Tensor, Mask]] = []

    def mask(self, function: MaskFunction, places: int) -> torch.Tensor | None:
        kind = self._step.kept.masks[len(self._masks)]
        made = added_at(function, self._positions, places)[None, None]
        self._masks.append((made, kind))
        return None if kind == 0 else made

    def attend(
        self, query: Any, key: Any, value: Any, mask: Any, sinks: Any, scaling: float, window: int, softcap: float
    ) -> Any:
        caches = next((both for keys, values, both in self._caches if keys is key and values is value), None)
        if caches is None:
            caches = self._step.append(len(self._caches), key.squeeze(0), value.squeeze(0), self._positions)
            self._caches.append((key, value, caches))
        kind = next((kind for made, kind in self._masks if made is mask), None)
        if mask is not None and kind is not None:
            window, mask = min(window or kind, kind), None
        bias = None if mask is None else mask.squeeze(0)
        step = self._step
        given = (sinks, bias, step._blocks, scaling, window, softcap, step.pool.block)
        return cached_attention(query, *caches, self._positions, *given)
