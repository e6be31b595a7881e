"""A BERT sentence encoder in plain numpy, float64: the oracle that needs neither TVM nor another
framework.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tapml.importing.bert import BertConfig
from tapml.importing.model import Array

_erf = np.frompyfunc(math.erf, 1, 1)


def encode(config: BertConfig, weights: Mapping[str, Array], ids: Array, mask: Array, types: Array) -> Array:
    """Normalised mean-pooled embeddings.

    `ids`, `mask` and `types` are integers [batch, length]; the result is float64 [batch, hidden].
    It works in float64 throughout and, unlike the Relax graph, removes padding by -inf before the
    softmax.
    """
    model = _Encoder(config, weights)
    hidden = model.embed(ids, types)
    bias = np.where(mask[:, None, None, :] != 0, 0.0, -np.inf)
    for layer in range(config.num_hidden_layers):
        hidden = model.layer(f"encoder.layer.{layer}", hidden, bias)
    kept = mask[:, :, None].astype(np.float64)
    mean = (hidden * kept).sum(axis=1) / kept.sum(axis=1)
    normal: Array = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    return normal


class _Encoder:
    def __init__(self, config: BertConfig, weights: Mapping[str, Array]) -> None:
        self._config = config
        self._weights = weights

    def _weight(self, name: str) -> Array:
        return self._weights[name].astype(np.float64)

    def embed(self, ids: Array, types: Array) -> Array:
        # Rows first, float64 after: the word table is large.
        words = self._weights["embeddings.word_embeddings.weight"][ids].astype(np.float64)
        kinds = self._weight("embeddings.token_type_embeddings.weight")[types]
        positions = self._weight("embeddings.position_embeddings.weight")[: ids.shape[1]]
        return self._norm("embeddings.LayerNorm", words + kinds + positions)

    def layer(self, name: str, hidden: Array, bias: Array) -> Array:
        batch, length, _ = hidden.shape

        def heads(part: str) -> Array:
            projected = self._linear(f"{name}.attention.self.{part}", hidden)
            return projected.reshape(batch, length, self._config.num_attention_heads, -1).swapaxes(1, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.swapaxes(-1, -2) / math.sqrt(self._config.head_size) + bias
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = (weights / weights.sum(axis=-1, keepdims=True)) @ value
        joined = context.swapaxes(1, 2).reshape(batch, length, -1)
        attended = self._norm(
            f"{name}.attention.output.LayerNorm",
            self._linear(f"{name}.attention.output.dense", joined) + hidden,
        )
        inner = self._linear(f"{name}.intermediate.dense", attended)
        inner = inner * 0.5 * (1 + np.asarray(_erf(inner / math.sqrt(2)), np.float64))
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", inner) + attended)

    def _linear(self, name: str, data: Array) -> Array:
        result: Array = data @ self._weight(f"{name}.weight").T + self._weight(f"{name}.bias")
        return result

    def _norm(self, name: str, data: Array) -> Array:
        centred = data - data.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normal = centred / np.sqrt(variance + self._config.layer_norm_eps)
        result: Array = normal * self._weight(f"{name}.weight") + self._weight(f"{name}.bias")
        return result
