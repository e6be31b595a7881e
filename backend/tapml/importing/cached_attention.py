"""The operators of a cache of keys and values, as kernels: appending to it, and attending to it.

Their meaning is the plain one: attention computes all scores over the whole capacity. What is faster is a compiler's
(compilers/cache), which knows them by the attribute `by_hand`: all that the loops were made with stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import te, tirx

from tapml.importing.kernel_calls import call
from tapml.lowering.by_hand import by_hand

_NOWHERE = -1e30
"""The score of a place that is not seen: below any other, and what softmax makes of it is 0."""


def converters() -> Mapping[str, Callable[[Any, Any], Any]]:
    """By the operator's name as torch.export spells it (hf_attention.py defines them)."""
    return {"cache_append.default": _append_node, "cached_attention.default": _attention_node}


def _append_node(node: Any, importer: Any) -> Any:
    *tensors, blocks, block = node.args
    paged = {} if blocks is None else {"block": block}
    given = [importer.env[argument] for argument in (*tensors, *([] if blocks is None else [blocks]))]
    return call(
        importer.block_builder,
        lambda *tensors: cache_append(*tensors, **paged),
        given,
        name="cache_append",
        alone=True,
        attributes=by_hand("cache_append", *(["blocks"] if paged else []), **paged),
    )


def _attention_node(node: Any, importer: Any) -> Any:
    *tensors, sinks, bias, blocks, scaling, window, softcap, block = node.args
    also = {name: node for name, node in (("sinks", sinks), ("bias", bias), ("blocks", blocks)) if node is not None}
    given = [importer.env[argument] for argument in (*tensors, *also.values())]
    paged = {} if blocks is None else {"block": block}
    options = {"scaling": scaling, "window": window, "softcap": softcap, **paged}
    return call(
        importer.block_builder,
        lambda query, keys, values, positions, *others: cached_attention(
            query, keys, values, positions, **dict(zip(also, others, strict=True)), **options
        ),
        given,
        name="cached_attention",
        alone=True,
        attributes=by_hand("cached_attention", *also, **options),
    )


def cache_append(cache: Any, new: Any, positions: Any, blocks: Any = None, *, block: int = 0) -> Any:
    """The cache [heads, capacity, dim] with `new` [heads, n, dim] from positions[0] on: `positions` [n] follow one
    another. What would lie beyond the capacity is left out. With `blocks` [n, capacity / block] the cache is [heads,
    places, dim], each token has a position of its own, and `blocks` says where its text lies (hf_attention.py)."""
    n = new.shape[1]
    if blocks is not None:
        return _paged_append(cache, new, positions, blocks, block)

    def appended(head: Any, place: Any, column: Any) -> Any:
        row = _int32(place) - positions[0]
        inside = tirx.max(tirx.min(row, _int32(n) - 1), tirx.const(0, "int32"))
        return tirx.Select(tirx.all(row >= 0, row < _int32(n)), new[head, inside, column], cache[head, place, column])

    return te.compute(cache.shape, appended, name="cache_append")


def _paged_append(cache: Any, new: Any, positions: Any, blocks: Any, block: int) -> Any:
    n, count = new.shape[1], int(blocks.shape[1])
    none = tirx.const(-1, "int32")

    def place(i: Any) -> Any:
        position = positions[i]
        inside = tirx.max(tirx.min(position, count * block - 1), tirx.const(0, "int32"))
        found = blocks[i, tirx.floordiv(inside, block)] * block + tirx.floormod(inside, block)
        return tirx.Select(inside == position, found, none)

    places = te.compute((n,), place, "places")
    t = te.reduce_axis((0, n), "t")
    token = te.compute(
        (cache.shape[1],),
        lambda at: te.max(tirx.Select(places[t] == _int32(at), _int32(t), none), axis=t),
        "token",
    )

    def appended(head: Any, at: Any, column: Any) -> Any:
        known = tirx.max(token[at], tirx.const(0, "int32"))
        return tirx.Select(token[at] >= 0, new[head, known, column], cache[head, at, column])

    return te.compute(cache.shape, appended, name="cache_append")


def cached_attention(
    query: Any,
    keys: Any,
    values: Any,
    positions: Any,
    *,
    sinks: Any = None,
    bias: Any = None,
    blocks: Any = None,
    scaling: float,
    window: int = 0,
    softcap: float = 0.0,
    block: int = 0,
) -> Any:
    """What `query` [heads, n, dim] sees in `keys` [kv heads, capacity, dim] and `values` [kv heads, capacity, dim of
    values]: [n, heads, dim of values]. hf_attention.py says what of them; `bias` [heads or 1, n, capacity] is added to
    scores. With `blocks` [n, capacity / block] keys and values have the places of all sequences."""
    heads, n, dim = query.shape
    _, places, width = values.shape
    capacity = places if blocks is None else int(blocks.shape[1]) * block
    groups, dtype = int(heads) // int(keys.shape[0]), str(query.dtype)
    r = te.reduce_axis((0, dim), "r")

    def row(i: Any, j: Any) -> Any:
        if blocks is None:
            return j
        place = blocks[i, tirx.floordiv(j, block)] * block + _int32(tirx.floormod(j, block))
        return tirx.max(tirx.min(place, _int32(places) - 1), tirx.const(0, "int32"))

    scores = te.compute(
        (heads, n, capacity), lambda h, i, j: te.sum(query[h, i, r] * keys[h // groups, row(i, j), r], axis=r), "scores"
    )

    def seen(i: Any, j: Any) -> Any:
        place, position = _int32(j), positions[i]
        return tirx.all(place <= position, place > position - window) if window else place <= position

    def limited(h: Any, i: Any, j: Any) -> Any:
        score = scores[h, i, j] * tirx.const(scaling, dtype)
        if softcap:
            score = tirx.tanh(score / tirx.const(softcap, dtype)) * tirx.const(softcap, dtype)
        if bias is not None:
            score = score + bias[0 if int(bias.shape[0]) == 1 else h, i, j]
        return tirx.Select(seen(i, j), score, tirx.const(_NOWHERE, dtype))

    masked = te.compute((heads, n, capacity), limited, "masked")
    over = [te.reduce_axis((0, capacity), name) for name in ("most", "all", "mixed")]
    highest = te.compute((heads, n), lambda h, i: te.max(masked[h, i, over[0]], axis=over[0]), "highest")
    if sinks is not None:
        seen_most = highest
        highest = te.compute((heads, n), lambda h, i: tirx.max(seen_most[h, i], sinks[h]), "highest_with_sink")
    weights = te.compute((heads, n, capacity), lambda h, i, j: tirx.exp(masked[h, i, j] - highest[h, i]), "weights")
    total = te.compute((heads, n), lambda h, i: te.sum(weights[h, i, over[1]], axis=over[1]), "total")
    if sinks is not None:
        of_seen = total
        total = te.compute(
            (heads, n), lambda h, i: of_seen[h, i] + tirx.exp(sinks[h] - highest[h, i]), "total_with_sink"
        )
    mixed = te.compute(
        (n, heads, width),
        lambda i, h, d: te.sum(weights[h, i, over[2]] * values[h // groups, row(i, over[2]), d], axis=over[2]),
        "mixed",
    )
    return te.compute((n, heads, width), lambda i, h, d: mixed[i, h, d] / total[h, i], "attended")


def _int32(size: Any) -> Any:
    return tirx.const(size, "int32") if isinstance(size, int) else size.astype("int32")
