"""A BERT sentence encoder in plain numpy, float64: the oracle that needs neither TVM nor another
framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import numpy as np

from tapml.importing.activations import LARGEST, LEAST
from tapml.importing.bert import BertConfig
from tapml.importing.model import Array

_erf = np.frompyfunc(math.erf, 1, 1)


def encode(
    config: BertConfig,
    weights: Mapping[str, Array],
    ids: Array,
    mask: Array,
    types: Array,
    *,
    rounds: Collection[str] = (),
    note: Callable[[str, Array], Array] = lambda name, value: value,
) -> Array:
    """Normalised mean-pooled embeddings.

    `ids`, `mask` and `types` are integers [batch, length]; the result is float64 [batch, hidden].
    It works in float64 throughout and, unlike the Relax graph, removes padding by -inf before the
    softmax. `rounds`: names of weights whose products round what they are given (activations.py). `note` is told of
    what is computed, and gives it back.
    """
    batch, length = ids.shape

    def weight(name: str) -> Array:
        return weights[name].astype(np.float64)

    def linear(name: str, data: Array) -> Array:
        if f"{name}.weight" in rounds:
            data = _rounded(data)
        return note(name, np.asarray(data @ weight(f"{name}.weight").T + weight(f"{name}.bias")))

    def norm(name: str, data: Array) -> Array:
        centred = data - data.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normal = centred / np.sqrt(variance + config.layer_norm_eps)
        return note(name, np.asarray(normal * weight(f"{name}.weight") + weight(f"{name}.bias")))

    def rows(name: str, places: Array | slice) -> Array:
        # Rows first, float64 after: the word table is large.
        return np.asarray(weights[f"embeddings.{name}_embeddings.weight"][places], np.float64)

    words, kinds = rows("word", ids), rows("token_type", types)
    positions = rows("position", slice(length))
    hidden = norm("embeddings.LayerNorm", words + kinds + positions)
    bias = np.where(mask[:, None, None, :] != 0, 0.0, -np.inf)
    for layer in range(config.num_hidden_layers):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(f"{name}.attention.self.{part}", hidden)
            .reshape(batch, length, config.num_attention_heads, -1)
            .swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        product = note(f"{name}.attention.self, scores", query @ key.swapaxes(-1, -2))
        scores = product / math.sqrt(config.head_size) + bias
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = note(f"{name}.attention.self, softmax", shares / shares.sum(axis=-1, keepdims=True))
        context = note(f"{name}.attention.self, context", shares @ value)
        joined = context.swapaxes(1, 2).reshape(batch, length, -1)
        attended = norm(f"{name}.attention.output.LayerNorm", linear(f"{name}.attention.output.dense", joined) + hidden)
        inner = linear(f"{name}.intermediate.dense", attended)
        gelu = inner * 0.5 * (1 + np.asarray(_erf(inner / math.sqrt(2)), np.float64))
        inner = note(f"{name}.intermediate, GELU", gelu)
        hidden = norm(f"{name}.output.LayerNorm", linear(f"{name}.output.dense", inner) + attended)
    kept = mask[:, :, None].astype(np.float64)
    mean = (hidden * kept).sum(axis=1) / kept.sum(axis=1)
    return np.asarray(mean / np.linalg.norm(mean, axis=-1, keepdims=True))


def _rounded(data: Array) -> Array:
    """The numbers that 8-bit integers with a scale for each row of `data` [..., inner] stand for."""
    greatest = np.maximum(np.abs(data).max(axis=-1, keepdims=True), LEAST)
    return np.asarray(np.floor(data * (LARGEST / greatest) + 0.5) * (greatest / LARGEST))
