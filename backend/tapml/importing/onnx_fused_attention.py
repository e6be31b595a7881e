"""ONNX Runtime's attention (com.microsoft), which its optimizer and its exporters of language models write.

Heads are [batch, heads, length, size] here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_attention import ATTENTION as OF_ONNX
from tapml.importing.onnx_attention import by_heads
from tapml.importing.onnx_operands import numbers, text
from tapml.importing.onnx_sequence import SEQUENCE
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

Attributes = Mapping[str, Any]


def attended(
    builder: Expr,
    heads: tuple[Expr, Expr, Expr],
    scale: float,
    *,
    added: Sequence[Expr] = (),
    allowed: Sequence[Expr] = (),
    softcap: float = 0.0,
    sink: Expr | None = None,
) -> Expr:
    """[batch, length, heads * size]. `added` to the scores; only where all of `allowed` are true something is attended;
    `sink`: one more score, [1, heads, 1, 1], for what is attended nowhere."""
    emit, (query, key, value) = builder.emit, heads
    dtype = tensor_dtype(query.ty) or ""
    scores = emit(op.matmul(query, emit(op.permute_dims(key, [0, 1, 3, 2]))))
    scores = emit(op.multiply(scores, relax.const(scale, dtype)))
    if softcap:
        limit = relax.const(softcap, dtype)
        scores = emit(op.multiply(emit(op.tanh(emit(op.divide(scores, limit)))), limit))
    for term in added:
        scores = emit(op.add(scores, term))
    if allowed:
        every = functools.reduce(lambda a, b: emit(op.logical_and(a, b)), allowed)
        scores = emit(op.where(every, scores, relax.const(np.array(-np.inf, dtype))))
    if sink is not None:
        *shape, count = axes_of(scores)
        column = emit(op.broadcast_to(sink, relax.ShapeExpr([*shape, 1])))
        chances = emit(op.nn.softmax(emit(op.concat([column, scores], axis=-1)), axis=-1))
        chances = emit(op.strided_slice(chances, [3], [1], [count + 1], assume_inbound=True))
    else:
        chances = emit(op.nn.softmax(scores, axis=-1))
    result = emit(op.permute_dims(emit(op.matmul(chances, value)), [0, 2, 1, 3]))
    batch, length, count, size = axes_of(result)
    return emit(op.reshape(result, [batch, length, count * size]))


def _scale(attributes: Attributes, query: Expr) -> float:
    return attributes.get("scale") or 1 / math.sqrt(axes_of(query)[3])


def _places(builder: Expr, begin: Any, count: Any, shape: list[int]) -> Expr:
    return builder.emit(op.reshape(builder.emit(op.arange(begin, begin + count, 1, "int64")), shape))


def _causal(builder: Expr, query: Expr, key: Expr) -> Expr:
    """[length, total]: no query attends what comes after it; the queries are the last of the keys."""
    length, total = axes_of(query)[2], axes_of(key)[2]
    places = _places(builder, total - length, length, [-1, 1])
    return builder.emit(op.less_equal(_places(builder, 0, total, [1, -1]), places))


def _padding(builder: Expr, mask: Expr, query: Expr, key: Expr, attributes: Attributes) -> Expr:
    """What is added to the scores by a mask: where each sequence ends, ends and begins, or which keys are attended."""
    emit, total = builder.emit, axes_of(key)[2]
    length, batch = axes_of(query)[2], axes_of(query)[0]
    shape = axes_of(mask)
    if len(shape) == 1:
        places = _places(builder, 0, total, [1, -1])
        mask = emit(op.astype(mask, "int64"))
        ends = emit(op.reshape(emit(op.strided_slice(mask, [0], [0], [batch])), [-1, 1]))
        valid = emit(op.less(places, ends))
        if shape[0] == 2 * batch:
            begins = emit(op.reshape(emit(op.strided_slice(mask, [0], [batch], [2 * batch])), [-1, 1]))
            valid = emit(op.logical_and(valid, emit(op.greater_equal(places, begins))))
        elif shape[0] != batch:
            raise InputError(f"a mask of {shape[0]} numbers for {batch} sequences: give one of two axes")
        valid = emit(op.reshape(valid, [batch, 1, 1, total]))
    else:
        if len(shape) == 4:  # for all that could be attended
            begin = total - length
            mask = emit(op.strided_slice(mask, [2, 3], [begin, 0], [total, total], assume_inbound=True))
        valid = emit(op.greater(mask, relax.const(0, tensor_dtype(mask.ty))))
        wanted = {2: [batch, 1, 1, total], 3: [batch, 1, length, total]}.get(len(shape))
        valid = emit(op.reshape(valid, wanted)) if wanted else valid
    dtype = tensor_dtype(query.ty)
    nothing, filler = (relax.const(value, dtype) for value in (0, attributes.get("mask_filter_value", -10000.0)))
    return emit(op.where(valid, nothing, filler))


def _with_masks(builder: Expr, heads: tuple[Expr, Expr, Expr], mask: Any, bias: Any, attributes: Attributes) -> Expr:
    query, key, _ = heads
    added = [] if mask is None else [_padding(builder, mask, query, key, attributes)]
    allowed = [_causal(builder, query, key)] if attributes.get("unidirectional") else []
    added += [] if bias is None else [bias]
    return attended(builder, heads, _scale(attributes, query), added=added, allowed=allowed)


def attention(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """Of one input, whose queries, keys and values one product makes. `present` is keys and values, one on another."""
    data, weights, bias, mask, past, scores, _ = (*inputs, *[None] * 5)[:7]
    total = builder.emit(op.matmul(data, weights))
    total = total if bias is None else builder.emit(op.add(total, bias))
    return attention_of(builder, total, mask, past, scores, attributes)


def attention_of(builder: Expr, total: Expr, mask: Any, past: Any, bias: Any, attributes: Attributes) -> list[Expr]:
    """Of queries, keys and values beside each other along the last axis."""
    emit, count = builder.emit, int(attributes["num_heads"])
    if attributes.get("do_rotary"):
        raise InputError("its do_rotary is not what tapml computes: export the model with RotaryEmbedding")
    width = axes_of(total)[2]
    sizes = list(attributes.get("qkv_hidden_sizes") or [width // 3] * 3)
    query, key, value = (
        by_heads(builder, _part(builder, total, 2, sum(sizes[:place]), size), count) for place, size in enumerate(sizes)
    )
    if past is not None:
        before = [emit(op.squeeze(_part(builder, past, 0, place, 1), [0])) for place in (0, 1)]
        key, value = (emit(op.concat([old, new], axis=2)) for old, new in zip(before, (key, value), strict=True))
    result = _with_masks(builder, (query, key, value), mask, bias, attributes)
    if attributes["outputs"] < 2:
        return [result]
    return [result, emit(op.stack([key, value], axis=0))]


def _part(builder: Expr, data: Expr, axis: int, begin: int, size: int) -> Expr:
    return builder.emit(op.strided_slice(data, [axis], [begin], [begin + size], assume_inbound=True))


def _multi_head(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """Keys and values may come by heads already."""
    query, key, value, bias, mask, scores, past_key, past_value, *shared = (*inputs, *[None] * 8)[:10]
    if any(found is not None for found in shared) or attributes["outputs"] > 3:
        raise InputError("it takes a cache of a beam search, or gives its scores: export the model without")
    emit, count = builder.emit, int(attributes["num_heads"])
    if key is None or 5 in (query.ty.ndim, key.ty.ndim):
        raise InputError("its queries, keys and values are packed in one tensor: export the model with three")
    given = [query, key, value]
    if bias is not None:
        begin = 0
        for place, data in enumerate(given):
            if data.ty.ndim == 3:
                given[place] = emit(op.add(data, _part(builder, bias, 0, begin, axes_of(data)[2])))
                begin += axes_of(data)[2]
    query, key, value = (data if data.ty.ndim == 4 else by_heads(builder, data, count) for data in given)
    if past_key is not None:
        key, value = (emit(op.concat([old, new], axis=2)) for old, new in ((past_key, key), (past_value, value)))
    return [_with_masks(builder, (query, key, value), mask, scores, attributes), key, value]


def _rotary(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    """A single position is that of the first place."""
    data, positions, cosine, sine = inputs
    if attributes.get("is_packed_batching"):
        raise InputError("sequences packed one behind another: export the model with one in each row")
    if positions.ty.ndim == 1:
        length = axes_of(data)[1 if data.ty.ndim == 3 else 2]
        positions = builder.emit(op.add(positions, _places(builder, 0, length, [1, -1])))
    size = int(attributes.get("rotary_embedding_dim", 0))
    count = int(attributes.get("num_heads", 0))
    if data.ty.ndim == 3 and not count:
        count = axes_of(data)[2] // (2 * axes_of(cosine)[1])
    given = {"num_heads": count, "rotary_embedding_dim": size, "interleaved": attributes.get("interleaved", 0)}
    return OF_ONNX["RotaryEmbedding"](builder, [data, cosine, sine, positions], given)


def _grouped(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """With a cache: what of it counts ends before the queries' own keys, which are written behind it."""
    (query, key, value, past_key, past_value, last, total, cosine, sine, positions, bias, sink, *rest) = (
        *inputs,
        *[None] * 14,
    )[:16]
    given = {name: text(attributes.get(name, b"NONE")) for name in ("k_quant_type", "v_quant_type")}
    if any(found is not None for found in rest) or set(given.values()) != {"NONE"}:
        raise InputError("its cache is quantized, or its heads are normalized: export the model without")
    if attributes["outputs"] > 3 or attributes.get("sliding_window_cache"):
        raise InputError("it gives its scores, or keeps a window of its cache: export the model without")
    emit, heads, groups = builder.emit, int(attributes["num_heads"]), int(attributes["kv_num_heads"])
    batch, length, width = axes_of(query)
    if key is None:
        size = width // (heads + 2 * groups)
        begins = 0, heads * size, (heads + groups) * size
        query, key, value = (
            _part(builder, query, 2, begin, count * size)
            for begin, count in zip(begins, (heads, groups, groups), strict=True)
        )
    whole = int(numbers(total, "GroupQueryAttention", "total_sequence_length")[0])
    zero = relax.const(0, "int64")
    if whole == length:
        first = emit(op.zeros(relax.ShapeExpr([batch]), "int64"))
    else:
        counted = emit(op.reshape(emit(op.astype(last, "int64")), [batch]))
        first = emit(op.maximum(emit(op.subtract(counted, relax.const(length - 1, "int64"))), zero))
    column = emit(op.reshape(first, [batch, 1]))
    places = emit(op.add(column, _places(builder, 0, length, [1, -1])))
    if attributes.get("do_rotary"):
        turned = {"interleaved": attributes.get("rotary_interleaved", 0)}
        at = places if positions is None else positions
        query, key = (
            emit(_rotary(builder, [data, at, cosine, sine], {**turned, "num_heads": count}))
            for data, count in ((query, heads), (key, groups))
        )
    query, key, value = (
        by_heads(builder, data, count) for data, count in ((query, heads), (key, groups), (value, groups))
    )
    key, value = (_cached(builder, new, old, first, whole) for new, old in ((key, past_key), (value, past_value)))
    kept = axes_of(key)[2]
    keys, places = _places(builder, 0, kept, [1, 1, 1, -1]), emit(op.reshape(places, [batch, 1, length, 1]))
    if not attributes.get("causal", 1):
        raise InputError("its queries attend what comes after them: export the model with MultiHeadAttention")
    allowed = [emit(op.less_equal(keys, places))]
    if (window := int(attributes.get("local_window_size", -1))) > 0:
        before = emit(op.subtract(places, relax.const(window, "int64")))
        allowed.append(emit(op.greater(keys, before)))
    if sink is not None:
        sink = emit(op.reshape(sink, [1, heads, 1, 1]))
    elif attributes.get("smooth_softmax", 0) == 1:
        sink = relax.const(np.zeros([1, 1, 1, 1], tensor_dtype(query.ty)))
    repeated = [data if heads == groups else emit(op.repeat(data, heads // groups, axis=1)) for data in (key, value)]
    found = attended(
        builder,
        (query, *repeated),
        _scale(attributes, query),
        added=[] if bias is None else [bias],
        allowed=allowed,
        softcap=float(attributes.get("softcap", 0.0)),
        sink=sink,
    )
    return [found, key, value]


def _cached(builder: Expr, new: Expr, past: Any, first: Expr, total: int) -> Expr:
    """`new` behind the first places of a cache, which is as long as it was, or as all that counts; then 0."""
    if past is None or axes_of(past)[2] == 0:
        return new
    batch, heads, before, size = axes_of(past)
    if total > before:
        filler = builder.emit(op.zeros(relax.ShapeExpr([batch, heads, total - before, size]), tensor_dtype(past.ty)))
        past = builder.emit(op.concat([past, filler], axis=2))
    written = builder.emit(SEQUENCE["TensorScatter"](builder, [past, new, first], {"axis": 2, "mode": b"linear"}))
    end = builder.emit(op.add(first, relax.const(axes_of(new)[2], "int64")))
    counts = builder.emit(op.less(_places(builder, 0, axes_of(written)[2], [1, 1, -1, 1]), _column(builder, end)))
    return builder.emit(op.where(counts, written, relax.const(0, tensor_dtype(written.ty))))


def _column(builder: Expr, values: Expr) -> Expr:
    """One for each sequence."""
    return builder.emit(op.reshape(values, [-1, 1, 1, 1]))


ATTENTION = {
    "Attention": attention,
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _multi_head,
    "RotaryEmbedding": _rotary,
}
"""Operator -> its converter, as in `onnx_operators`."""
