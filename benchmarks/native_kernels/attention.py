"""Attention drawn at random: to a cache, as decoders have it, and of the operators that models make it of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from benchmarks.native_kernels.drawing import Drawing
from tapml.importing.cached_attention import cached_attention
from tapml.importing.kernel_calls import call
from tapml.lowering.by_hand import by_hand

op = relax.op

ROWS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 77, 100, 127, 128, 129, 197, 256, 257, 300)
WIDTHS = (1, 2, 3, 4, 8, 12, 16, 17, 20, 24, 32, 40, 48, 63, 64, 65, 72, 80, 96, 97, 128, 160)
MOST_SCORES = 300_000
MOST_NUMBERS = 120_000
"""Of queries, keys and values."""


def attention_to_a_cache(d: Drawing) -> Any:
    """To a cache, as decoders have it: one token or a chunk, perhaps with a window, a soft cap, a bias and sinks."""
    kv_heads, groups, tokens = (
        d.draw.choice((1, 2, 3)),
        d.draw.choice((1, 1, 2, 4)),
        d.draw.choice((1, 1, 2, 5, 17, 33)),
    )
    dim, width = (d.draw.choice((2, 3, 4, 8, 16, 17, 32, 64, 65)) for _ in range(2))
    capacity = d.draw.choice((7, 31, 32, 33, 64, 127, 129, 257, 300, 520))
    heads = kv_heads * groups
    given = {
        "sinks": d.input([heads]) if d.draw.random() < 0.3 else None,
        "bias": d.input([d.draw.choice((1, heads)), tokens, capacity]) if d.draw.random() < 0.3 else None,
    }
    also = {name: found for name, found in given.items() if found is not None}
    positions = d.input([tokens], "int32", capacity)
    options = {
        "scaling": d.draw.uniform(0.05, 0.5),
        "window": d.draw.choice((0, 0, 1, 5, 40)),
        "softcap": d.draw.choice((0.0, 0.0, 2.5)),
    }
    sizes = ([heads, tokens, dim], [kv_heads, capacity, dim], [kv_heads, capacity, width])
    tensors = [*map(d.input, sizes), positions, *also.values()]
    if d.draw.random() < 0.3:  # its program alone, perhaps with something behind it
        called = partial(_cached, names=tuple(also), options=options)
        return d.end(d.emit(d.builder.call_te(called, *tensors, primfunc_name_hint="attention")))
    attributes = by_hand("cached_attention", *also, **options)
    called = partial(_cached, names=tuple(also), options=options)
    return call(d.builder, called, tensors, name="cached_attention", alone=True, attributes=attributes)


def _cached(query: Any, keys: Any, values: Any, positions: Any, *also: Any, names: Sequence[str], options: Any) -> Any:
    return cached_attention(query, keys, values, positions, **dict(zip(names, also, strict=True)), **options)


def attention_of_models(d: Drawing) -> Any:
    """Products and a softmax, with what models have on the way: a scale of queries or of scores, a soft cap, a bias,
    masks of several kinds, heads that share keys, and heads that lie among the columns of tokens."""
    heads, shared = d.draw.choice((1, 2, 3, 4, 6, 8, 12)), d.draw.choice((1, 1, 1, 1, 2, 4))
    if heads % shared:
        shared = 1
    rows, keys = d.draw.choice(ROWS), d.draw.choice(ROWS)
    if d.draw.random() < 0.5:
        keys = rows
    dim = d.draw.choice(WIDTHS)
    width = d.draw.choice(WIDTHS) if d.draw.random() < 0.3 else dim
    while heads * rows * keys > MOST_SCORES or heads * max(rows, keys) * (dim + width) > MOST_NUMBERS:
        heads, shared = (heads // 2 or 1), 1
        if heads == 1:
            rows, keys = max(1, rows * 2 // 3), max(1, keys * 2 // 3)
    dtype = "float16" if d.draw.random() < 0.25 else "float32"
    query = _heads(d, heads, rows, dim, dtype)
    key, value = (_shared(d, heads, shared, keys, size, dtype) for size in (dim, width))
    scale = relax.const(float(dim) ** -0.5, dtype)
    scaled = d.draw.choice(("query", "scores", "scores", "none"))
    if scaled == "query":
        query = d.emit(op.multiply(query, scale))
    scores = d.emit(op.matmul(query, d.emit(op.permute_dims(key, [0, 2, 1]))))
    if scaled == "scores":
        scores = d.emit(op.multiply(scores, scale))
    if d.draw.random() < 0.15:
        cap = relax.const(2.5, dtype)
        scores = d.emit(op.multiply(d.emit(op.tanh(d.emit(op.divide(scores, cap)))), cap))
    if d.draw.random() < 0.25:
        scores = d.emit(op.add(scores, d.input([d.draw.choice((1, heads)), d.draw.choice((1, rows)), keys], dtype)))
    scores = _masked(d, scores, heads, rows, keys, dtype)
    weights = d.emit(op.nn.softmax(scores, -1))
    mixed = d.emit(op.matmul(weights, value))
    if d.draw.random() < 0.5:
        mixed = d.emit(op.reshape(d.emit(op.permute_dims(mixed, [1, 0, 2])), (rows, heads * width)))
    return d.emit(op.astype(mixed, "float32")) if dtype == "float16" else d.end(mixed)


def _heads(d: Drawing, heads: int, tokens: int, size: int, dtype: str) -> Any:
    if d.draw.random() < 0.5:
        return d.input([heads, tokens, size], dtype)
    x = d.emit(op.reshape(d.input([tokens, heads * size], dtype), (tokens, heads, size)))
    return d.emit(op.permute_dims(x, [1, 0, 2]))


def _shared(d: Drawing, heads: int, shared: int, tokens: int, size: int, dtype: str) -> Any:
    """Keys or values, of which so many heads share each."""
    own = _heads(d, heads // shared, tokens, size, dtype)
    if shared == 1:
        return own
    each = d.emit(op.reshape(own, (heads // shared, 1, tokens, size)))
    return d.emit(
        op.reshape(d.emit(op.broadcast_to(each, (heads // shared, shared, tokens, size))), (heads, tokens, size))
    )


def _masked(d: Drawing, scores: Any, heads: int, rows: int, keys: int, dtype: str) -> Any:
    """Each row sees a key at least: what is given of none is a matter of each kernel."""
    kind = d.draw.choice(("none", "none", "none", "causal", "padding", "bool", "added"))
    if kind == "none":
        return scores
    seen = np.random.default_rng(d.draw.getrandbits(32)).random((d.draw.choice((1, heads)), rows, keys)) < 0.6
    if kind == "causal":
        seen = np.tril(np.ones((1, rows, keys), bool), keys - rows if keys > rows else 0)
    if kind == "padding":
        seen = np.arange(keys)[None, None, :] < d.draw.randint(1, keys)
    seen[..., 0] = True
    lowest = float(np.finfo(dtype).min)
    hidden = d.draw.choice((-np.inf, -np.inf, -1e4, lowest))
    if kind == "added":
        numbers = np.where(seen, 0.0, hidden).astype(dtype)
        return d.emit(op.add(scores, relax.const(numbers, dtype)))
    mask = d.emit(op.greater(relax.const(seen.astype(np.int32)), relax.const(0, "int32")))
    return d.emit(op.where(mask, scores, relax.const(hidden, dtype)))
