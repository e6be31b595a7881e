"""ONNX's Attention, RotaryEmbedding and LinearAttention in terms of Relax.

Sizes may vary, but for LinearAttention, which is written out step by step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_sequence import step, steps_of
from tapml.importing.relax_ir import Expr, axes_of, tensor_dtype

Attributes = Mapping[str, Any]


def _attention(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """Rows of which nothing is attended are 0, as ONNX has it."""
    query, key, value, mask, past_key, past_value, valid = (*inputs, *[None] * 4)[:7]
    emit, flat, dtype = builder.emit, query.ty.ndim == 3, tensor_dtype(query.ty) or ""
    if flat:
        heads, shared = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
        if not heads or not shared:
            raise InputError("operands of three dimensions need q_num_heads and kv_num_heads: give both")
        query, key, value = by_heads(builder, query, heads), *(by_heads(builder, x, shared) for x in (key, value))
    past = axes_of(past_key)[2] if past_key is not None else 0
    if past_key is not None:
        key, value = emit(op.concat([past_key, key], axis=2)), emit(op.concat([past_value, value], axis=2))
    heads, size, groups = axes_of(query)[1], axes_of(query)[3], axes_of(key)[1]
    if heads % groups:
        raise InputError(f"{heads} heads of queries are no multiple of {groups} of keys and values: give a multiple")
    each = heads // groups
    keys, values = (x if each == 1 else emit(op.repeat(x, each, axis=1)) for x in (key, value))
    root = relax.const(np.array(math.sqrt(attributes.get("scale") or 1 / math.sqrt(size)), dtype))
    turned = emit(op.multiply(emit(op.permute_dims(keys, [0, 1, 3, 2])), root))
    scores = [emit(op.matmul(emit(op.multiply(query, root)), turned))]
    capped = scores[0]
    if cap := attributes.get("softcap"):
        limit = relax.const(cap, dtype)
        capped = emit(op.multiply(emit(op.tanh(emit(op.divide(capped, limit)))), limit))
    biased = _masked(builder, capped, _Mask(builder, query, key).made(mask, valid, past, attributes), mask, key)
    full = mask is None and valid is None and max(_windows(attributes)) < 0
    chances = _softmax(builder, _in(builder, biased, _precision(attributes, dtype)), full)
    chances = _in(builder, chances, dtype)
    result = emit(op.matmul(chances, _in(builder, values, dtype)))
    if flat:
        result = emit(op.permute_dims(result, [0, 2, 1, 3]))
        batch, length, heads, size = axes_of(result)
        result = emit(op.reshape(result, [batch, length, heads * size]))
    scores += [capped, biased, chances]
    return [result, key, value, scores[attributes["qk_matmul_output_mode"]]]


def by_heads(builder: Expr, data: Expr, heads: int) -> Expr:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, size = axes_of(data)
    split = builder.emit(op.reshape(data, [batch, length, heads, size // heads]))
    return builder.emit(op.permute_dims(split, [0, 2, 1, 3]))


def _precision(attributes: Attributes, dtype: str) -> str:
    """What softmax is computed in: float32 stands for wider ones, and for bfloat16."""
    return {None: dtype, 10: "float16"}.get(attributes.get("softmax_precision"), "float32")


def _softmax(builder: Expr, scores: Expr, full: bool) -> Expr:
    """0 in rows of which all is -inf; `full`: there is no such row."""
    if full:
        return builder.emit(op.nn.softmax(scores, axis=-1))
    emit, dtype = builder.emit, tensor_dtype(scores.ty) or ""
    # Of such a row a number, for -inf less -inf is NaN.
    lowest = relax.const(float(np.finfo(dtype).min), dtype)
    largest = emit(op.maximum(emit(op.max(scores, axis=-1, keepdims=True)), lowest))
    grown = emit(op.exp(emit(op.subtract(scores, largest))))
    total = emit(op.sum(grown, axis=-1, keepdims=True))
    empty = emit(op.equal(total, relax.const(0, dtype)))
    return emit(op.divide(grown, emit(op.where(empty, relax.const(1, dtype), total))))


def _masked(builder: Expr, scores: Expr, attended: Expr | None, mask: Expr | None, key: Expr) -> Expr:
    """-inf where nothing is attended; a mask of floats is added."""
    dtype = tensor_dtype(scores.ty) or ""
    if mask is not None and tensor_dtype(mask.ty) != "bool":
        scores = builder.emit(op.add(scores, _padded(builder, mask, key, relax.const(0, dtype))))
    if attended is None:
        return scores
    return builder.emit(op.where(attended, scores, relax.const(np.array(-np.inf, dtype))))


def _padded(builder: Expr, mask: Expr, key: Expr, value: Expr) -> Expr:
    """A mask may end before the keys do."""
    *shape, _ = axes_of(mask)
    rest = _missing(mask, key)
    if not rest:
        return mask
    filler = builder.emit(op.full(relax.ShapeExpr([*shape, rest]), value, tensor_dtype(mask.ty)))
    return builder.emit(op.concat([mask, filler], axis=-1))


def _missing(mask: Expr, key: Expr) -> int:
    given, total = axes_of(mask)[-1], axes_of(key)[2]
    return total - given if isinstance(given, int) and isinstance(total, int) else 0


def _windows(attributes: Attributes) -> tuple[int, int]:
    return attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)


@dataclass(frozen=True)
class _Mask:
    """Which keys each query attends."""

    builder: Expr
    query: Expr
    key: Expr

    def made(self, mask: Any, valid: Any, past: Any, attributes: Attributes) -> Expr | None:
        """None where all do. `valid`: how many keys each sequence has [batch]; `past`: how many there are before those
        of the queries.
        """
        emit, total = self.builder.emit, axes_of(self.key)[2]
        keys = self._counted(total, [1, -1])
        found: list[Expr] = []
        if mask is not None and tensor_dtype(mask.ty) == "bool":
            found.append(_padded(self.builder, mask, self.key, relax.const(False, "bool")))
        elif mask is not None and _missing(mask, self.key):
            found.append(emit(op.less(keys, _int64(axes_of(mask)[-1]))))
        if valid is not None:
            valid = emit(op.reshape(emit(op.astype(valid, "int64")), [-1, 1, 1, 1]))
            found.append(emit(op.less(keys, valid)))
        left, right = _windows(attributes)
        if attributes["is_causal"] or left >= 0 or right >= 0:
            length = axes_of(self.query)[2]
            before = self._size(past) if valid is None else emit(op.subtract(valid, self._size(length)))
            place = emit(op.add(self._counted(length, [-1, 1]), before))
            if attributes["is_causal"]:
                found.append(emit(op.less_equal(keys, place)))
            if left >= 0:
                found.append(emit(op.greater_equal(keys, emit(op.subtract(place, _int64(left))))))
            if right >= 0:
                found.append(emit(op.less_equal(keys, emit(op.add(place, _int64(right))))))
        return functools.reduce(lambda a, b: emit(op.logical_and(a, b)), found) if found else None

    def _counted(self, size: Any, shape: list[int]) -> Expr:
        return self.builder.emit(op.reshape(self.builder.emit(op.arange(0, size, 1, "int64")), shape))

    def _size(self, size: Any) -> Expr:
        """A size as a tensor, which it may have to be computed as."""
        if isinstance(size, int):
            return _int64(size)
        return self.builder.emit(op.shape_to_tensor(relax.ShapeExpr([size])))


def _rotary(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> Expr:
    data, cosine, sine, positions = (*inputs, None)[:4]
    emit, shape = builder.emit, axes_of(data)
    if data.ty.ndim == 4:
        data = emit(op.permute_dims(data, [0, 2, 1, 3]))
    else:
        if not (heads := attributes.get("num_heads")):
            raise InputError("an operand of three dimensions needs num_heads: give it")
        data = emit(op.reshape(data, [*shape[:2], heads, shape[2] // heads]))
    batch, length, heads, size = axes_of(data)
    turned = attributes["rotary_embedding_dim"] or size
    if positions is not None:
        cosine, sine = (emit(op.take(table, positions, axis=0)) for table in (cosine, sine))
    cosine, sine = (emit(op.expand_dims(table, 2)) for table in (cosine, sine))
    half, interleaved = turned // 2, bool(attributes["interleaved"])
    if interleaved:
        head = emit(op.strided_slice(data, [3], [0], [turned])) if turned != size else data
        pairs = emit(op.reshape(head, [batch, length, heads, half, 2]))
        first, second = (emit(op.squeeze(emit(op.strided_slice(pairs, [4], [n], [n + 1])), [4])) for n in (0, 1))
    else:
        first, second = (emit(op.strided_slice(data, [3], [n], [n + half])) for n in (0, half))
    real = emit(op.subtract(emit(op.multiply(cosine, first)), emit(op.multiply(sine, second))))
    imaginary = emit(op.add(emit(op.multiply(sine, first)), emit(op.multiply(cosine, second))))
    if interleaved:
        joined = emit(op.stack([real, imaginary], axis=-1))
        parts = [emit(op.reshape(joined, [batch, length, heads, turned]))]
    else:
        parts = [real, imaginary]
    if turned != size:
        parts.append(emit(op.strided_slice(data, [3], [turned], [size])))
    result = parts[0] if len(parts) == 1 else emit(op.concat(parts, axis=3))
    return op.permute_dims(result, [0, 2, 1, 3]) if len(shape) == 4 else op.reshape(result, shape)


def _linear_attention(builder: Expr, inputs: Sequence[Any], attributes: Attributes) -> list[Expr]:
    """In float32; the state is [batch, heads, size of keys, size of values]."""
    query, key, value, state, decay, beta = (*inputs, *[None] * 3)[:6]
    heads, shared = attributes["q_num_heads"], attributes["kv_num_heads"]
    rule = attributes["update_rule"].decode()
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise InputError(f"there is no update_rule {rule!r}: give linear, gated, delta or gated_delta")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (beta is not None):
        raise InputError(f"the update_rule {rule} has other operands: give decay for gated rules, beta for delta rules")
    if heads % shared:
        raise InputError(f"{heads} heads of queries are no multiple of {shared} of keys and values: give a multiple")
    emit, dtype, count = builder.emit, tensor_dtype(query.ty), steps_of(query, 1)
    batch, _, width = axes_of(query)
    size, depth = width // heads, axes_of(value)[2] // shared
    scale = attributes["scale"] or 1 / math.sqrt(size)

    def by_steps(data: Expr, groups: int) -> Expr:
        """[batch, steps, groups * size] as [steps, batch, groups, size]."""
        split = emit(op.reshape(_in(builder, data, "float32"), [batch, count, groups, axes_of(data)[2] // groups]))
        return emit(op.permute_dims(split, [1, 0, 2, 3]))

    queries = emit(op.multiply(by_steps(query, heads), relax.const(scale, "float32")))
    keys, values = by_steps(key, shared), by_steps(value, shared)
    kept = None if decay is None else emit(op.exp(by_steps(decay, shared)))
    rates = None if beta is None else by_steps(beta, axes_of(beta)[2])
    last = dtype if state is None else tensor_dtype(state.ty)
    if state is None:
        memory = emit(op.zeros(relax.ShapeExpr([batch, shared, size, depth]), "float32"))
    else:
        memory = _in(builder, state, "float32")
    results = []
    for number in range(count):
        row, new = step(builder, keys, number), step(builder, values, number)
        if kept is not None:
            memory = emit(op.multiply(memory, emit(op.expand_dims(step(builder, kept, number), 3))))
        column, new = emit(op.expand_dims(row, 3)), emit(op.expand_dims(new, 2))
        if rates is not None:
            known = emit(op.matmul(emit(op.expand_dims(row, 2)), memory))
            rate = emit(op.expand_dims(step(builder, rates, number), 3))
            new = emit(op.multiply(rate, emit(op.subtract(new, known))))
        memory = emit(op.add(memory, emit(op.multiply(column, new))))
        asked = emit(op.reshape(step(builder, queries, number), [batch, shared, heads // shared, size]))
        results.append(emit(op.reshape(emit(op.matmul(asked, memory)), [batch, heads * depth])))
    result = emit(op.stack(results, axis=1))
    return [_in(builder, result, dtype), _in(builder, memory, last)]


def _in(builder: Expr, data: Expr, dtype: str | None) -> Expr:
    return data if tensor_dtype(data.ty) == dtype else builder.emit(op.astype(data, dtype))


def _int64(value: int) -> Expr:
    return relax.const(value, "int64")


ATTENTION = {"Attention": _attention, "LinearAttention": _linear_attention, "RotaryEmbedding": _rotary}
"""Operator -> its converter, as in `onnx_operators`."""
