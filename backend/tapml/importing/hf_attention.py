"""Attention of transformers' decoders as two operators over a cache, which they see in place of transformers' own.

transformers calls whatever attention a model is told to use by name. Under the name `NAME` it calls `_attention`, with
the keys and values of the new tokens, and `_mask` for its masks. Whoever captures a model so has to compare it with the
model as it was (hf_compare.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import transformers

from tapml.errors import InputError

NAME = "tapml"

_HARMLESS = {
    *("dropout", "is_causal", "layer_idx", "position_ids", "position_embeddings", "cache_position", "use_cache"),
    *(
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "logits_to_keep",
        "head_mask",
    ),
}
"""What models pass to their attention that changes nothing of it, or that is read off the model."""


@torch.library.custom_op("tapml::cache_append", mutates_args=())  # type: ignore[untyped-decorator]  # torch has no types
def cache_append(
    cache: torch.Tensor, new: torch.Tensor, positions: torch.Tensor, blocks: torch.Tensor | None, block: int
) -> torch.Tensor:
    """The cache [heads, capacity, dim] with `new` [heads, n, dim] at `positions` [n], which follow one another.

    With `blocks` [n, capacity / block] the cache is [heads, places, dim], of all sequences together: each token has a
    position of its own, and `blocks` says in which block of `block` places its text's first `block` positions lie, in
    which the next ones, and so on.
    """
    appended = cache.clone()
    if blocks is None:
        appended[:, positions.long()] = new
        return appended
    at = positions.long()
    rows = blocks.long().gather(1, (at // block)[:, None])[:, 0]
    appended[:, rows * block + at % block] = new
    return appended


@cache_append.register_fake
def _(cache, new, positions, blocks, block):  # type: ignore[no-untyped-def]  # as above
    return torch.empty_like(cache)


@torch.library.custom_op("tapml::cached_attention", mutates_args=())  # type: ignore[untyped-decorator]  # as above
def cached_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    sinks: torch.Tensor | None,
    bias: torch.Tensor | None,
    blocks: torch.Tensor | None,
    scaling: float,
    window: int,
    softcap: float,
    block: int,
) -> torch.Tensor:
    """What `query` [heads, n, dim] sees in the caches [kv heads, capacity, dim and dim of values]: [n, heads, dim of
    values].

    A query at position p sees the places 0 to p; with a `window` (0: none) the last so many of them. `softcap` (0:
    none) limits scores to below it; `bias` [1 or heads, n, capacity] is added to them then; `sinks` [heads] takes a
    share of each head's weights. With `blocks` the caches are of all sequences together, as `cache_append` has them,
    and each query sees its own.
    """
    given = (sinks, scaling, window, softcap)
    if blocks is None:
        return _attended(query, keys, values, positions, bias, *given)
    # One by one: the caches of all queries at once may be larger than memory.
    within = torch.arange(block)
    found = []
    for token in range(query.shape[1]):
        places = (blocks[token].long()[:, None] * block + within).reshape(-1)
        one = slice(token, token + 1)
        own = None if bias is None else bias[:, one]
        found.append(_attended(query[:, one], keys[:, places], values[:, places], positions[one], own, *given))
    return torch.cat(found)


def _attended(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    scaling: float,
    window: int,
    softcap: float,
) -> torch.Tensor:
    groups = query.shape[0] // keys.shape[0]
    scores = query @ keys.repeat_interleave(groups, 0).transpose(1, 2) * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    places, own = torch.arange(keys.shape[1])[None, :], positions.long()[:, None]
    unseen = places > own
    if window:
        unseen = unseen | (places <= own - window)
    scores = scores.masked_fill(unseen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(-1, 1, 1).expand(-1, scores.shape[1], 1)], -1)
    weights = scores.softmax(-1)[..., : keys.shape[1]]
    return (weights @ values.repeat_interleave(groups, 0)).transpose(0, 1).contiguous()


@cached_attention.register_fake
def _(query, keys, values, positions, sinks, bias, blocks, scaling, window, softcap, block):  # type: ignore[no-untyped-def]
    return query.new_empty((query.shape[1], query.shape[0], values.shape[2]))


class Attended(Protocol):
    """What becomes of a call of a model's attention, of one sequence."""

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        sinks: torch.Tensor | None,
        scaling: float,
        window: int,
        softcap: float,
    ) -> torch.Tensor:
        """query [heads, n, dim], key and value [1, kv heads, n, dim] (of layers that share them the same objects), mask
        as `mask` gave it: gives [n, heads, dim of values]."""

    def mask(self, function: Any, places: int) -> torch.Tensor | None:
        """What is added to scores [1, 1 or heads, n, places] for what tokens see by a function of places (hf_masks.py);
        None where that is every place up to their own."""


@dataclass
class _Listening:
    to: list[Attended] = field(default_factory=list)


_listening = _Listening()


@contextlib.contextmanager
def attending(to: Attended) -> Iterator[None]:
    """While the block runs, `to` gets what models of this attention call."""
    _listening.to.append(to)
    try:
        yield
    finally:
        _listening.to.pop()


def has_interface(model: Any) -> bool:
    """Whether the model calls an attention that it is told by name."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation(NAME)
        return bool(model.config._attn_implementation == NAME)
    except Exception:  # whatever the model's own check raises
        return False
    finally:
        model.set_attn_implementation(before)


@contextlib.contextmanager
def own_attention(model: Any) -> Iterator[None]:
    """While the block runs, the model, which has the interface for it, calls the attention of this file."""
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers calls it: query, key and value are [batch, heads, n, dim]."""
    what = type(module).__name__
    _check(what, module, others)
    found = _listening.to[-1].attend(
        query.squeeze(0),
        key,
        value,
        attention_mask,
        s_aux,
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        int(sliding_window or 0),
        float(softcap or 0.0),
    )
    return found.unsqueeze(0), None


def _mask(*, kv_length: int, mask_function: Any, **_: Any) -> torch.Tensor | None:
    """As transformers calls it."""
    return _listening.to[-1].mask(mask_function, kv_length)


def _check(what: str, module: Any, others: dict[str, Any]) -> None:
    unknown = sorted(name for name, given in others.items() if given is not None and name not in _HARMLESS)
    if unknown:
        raise InputError(
            f"{what} gives its attention {', '.join(unknown)}, and tapml does not know what that changes: use another "
            "architecture",
            reason=f"unknown arguments of its attention: {', '.join(unknown)}",
        )
    causal = others.get("is_causal")
    if not (getattr(module, "is_causal", True) if causal is None else causal):
        raise InputError(f"{what} lets tokens see later ones: tapml generates with causal decoders only")


transformers.AttentionInterface.register(NAME, _attention)
transformers.AttentionMaskInterface.register(NAME, _mask)
