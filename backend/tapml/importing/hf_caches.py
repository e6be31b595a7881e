"""Caches that transformers' decoders are given in place of their own: by the cache they tell keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import CacheLayerMixin, LinearAttentionCacheLayerMixin

Append = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Of keys and values [1, kv heads, n, dim] of new tokens: what the cache holds then, [1, kv heads, capacity, dim]."""


class AttentionLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers has no types
    """The cache of one layer's keys and values, as transformers calls it."""

    is_sliding = False
    is_compileable = True

    def __init__(self, append: Append, capacity: int, seen: Any) -> None:
        """`seen`: how many tokens came before, as far as the model asks."""
        super().__init__()
        self._append, self._capacity, self._seen = append, capacity, seen
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """There is nothing to be done at the first tokens."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._append(key_states, value_states)

    def get_seq_length(self) -> Any:
        return self._seen

    def get_max_length(self) -> int:
        return self._capacity

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._capacity, 0


class OwnCache(DynamicCache):  # type: ignore[misc]  # as above
    """transformers' cache of a configuration, each layer of keys and values being one of `layers`, in order."""

    def __init__(self, config: Any, layers: Callable[[int], AttentionLayer]) -> None:
        super().__init__(config=config)
        self._made = layers
        self.layers: list[Any] = [
            layer if isinstance(layer, LinearAttentionCacheLayerMixin) else layers(number)
            for number, layer in enumerate(self.layers)
        ]

    def _layer(self, number: int) -> Any:
        while len(self.layers) <= number:
            self.layers.append(self._made(len(self.layers)))
        return self.layers[number]

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *_: Any, **__: Any) -> Any:
        return self._layer(layer_idx).update(key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        return self._layer(layer_idx).get_seq_length()

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        sizes: tuple[int, int] = self._layer(layer_idx).get_mask_sizes(query_length)
        return sizes
