"""What a decoder keeps from token to token, found by letting it: its own cache is looked at after two tokens."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import Cache, EncoderDecoderCache

from tapml.errors import InputError
from tapml.importing.hf_attention import attending, has_interface, own_attention
from tapml.importing.hf_caches import AttentionLayer, OwnCache
from tapml.importing.hf_encoder import Source
from tapml.importing.hf_masks import Mask, mask_kind

CACHES = ("cache", "past_key_values", "cache_params", "state")
"""What models call the argument and the field of what they return: `cache` from transformers 5.24 on."""

_KINDS = ("conv", "recurrent")


@dataclass(frozen=True)
class Kept:
    """`argument`: what the model calls what it kept. `pairs`: shapes [heads, dim] of the keys and values that it keeps
    of each token, by number; `states`: by name, what stands in them before the first token.

    `interface`: it calls an attention by name, whose calls the pairs are of, in order, with masks of these kinds; else
    the pairs are of its layers.
    """

    argument: str
    pairs: dict[int, tuple[tuple[int, int], tuple[int, int]]]
    states: dict[str, torch.Tensor]
    interface: bool
    masks: list[Mask]


def kept_by(model: Any, capacity: int, source: Source | None = None) -> Kept:
    """`source`: what an encoder is given. Raises InputError for a model that keeps nothing, or in a way that tapml does
    not know."""
    what, given = type(model).__name__, inspect.signature(model.forward).parameters
    argument = next((name for name in CACHES if name in given), None)
    if argument is None:
        raise InputError(
            f"{what} takes nothing that it kept before ({', '.join(CACHES)}): use another architecture",
            reason="it takes nothing that it kept",
        )
    found = (
        _by_interface(model, argument, capacity)
        if source is None and argument != "state" and "position_ids" in given and has_interface(model)
        else _by_itself(model, argument, source)
    )
    if not (found.states or found.pairs):
        raise InputError(
            f"{what} keeps neither keys and values nor states between tokens, or in a way that tapml does not know: "
            "use another architecture",
            reason="it keeps nothing that is known",
        )
    return found


@dataclass
class _Listener:
    """Notes what a model's attention is given, and its masks."""

    capacity: int
    given: list[tuple[Any, Any]] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)

    def attend(self, query: Any, key: Any, value: Any, *_: Any) -> Any:
        if not any(keys is key and values is value for keys, values in self.given):
            self.given.append((key, value))
        return query.new_zeros((query.shape[1], query.shape[0], value.shape[3]))

    def mask(self, function: Any, places: int) -> None:
        with unset_fake_temporarily():  # where nothing else is computed
            self.masks.append(mask_kind(function, self.capacity))


def _by_interface(model: Any, argument: str, capacity: int) -> Kept:
    listener = _Listener(capacity)
    ids, positions = torch.zeros(1, 2, dtype=torch.int32), torch.arange(2, dtype=torch.int32)[None]
    cache = OwnCache(model.config.get_text_config(), lambda _: AttentionLayer(lambda *new: new, capacity, 0))
    with torch.no_grad(), own_attention(model), attending(listener):
        model(input_ids=ids, position_ids=positions, use_cache=True, **{argument: cache})
    states = {name: torch.zeros_like(tensor) for name, tensor in states_of(cache)}
    shapes = [((key.shape[1], key.shape[3]), (value.shape[1], value.shape[3])) for key, value in listener.given]
    return Kept(argument, dict(enumerate(shapes)), states, True, listener.masks)


def _by_itself(model: Any, argument: str, source: Source | None) -> Kept:
    ids = {"input_ids" if source is None else "decoder_input_ids": torch.zeros(1, 2, dtype=torch.int64)}
    with torch.no_grad(), _first_of(model, argument) as begun:
        found = getattr(model(**(source or {}), **ids, use_cache=True), argument, None)
    if isinstance(found, EncoderDecoderCache):
        found = found.self_attention_cache
    if isinstance(found, Cache):
        states = {name: torch.zeros_like(tensor) for name, tensor in states_of(found)}
        pairs = {
            number: ((layer.keys.shape[1], layer.keys.shape[3]), (layer.values.shape[1], layer.values.shape[3]))
            for number, layer in enumerate(found.layers)
            if getattr(layer, "keys", None) is not None and layer.keys.numel()
        }
        return Kept(argument, pairs, states, False, [])
    known = isinstance(found, Sequence) and all(isinstance(each, torch.Tensor) for each in found)
    return Kept(
        argument, {}, {f"state{number}": tensor for number, tensor in enumerate(begun if known else [])}, False, []
    )


def states_of(cache: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Of layers with a recurrence, by names such as conv1_0: layer 1, its first."""
    for number, layer in enumerate(cache.layers):
        for kind in _KINDS:
            for place, tensor in getattr(layer, f"{kind}_states", {}).items():
                if tensor is not None:
                    yield f"{kind}{number}_{place}", tensor


def put_state(cache: Any, name: str, tensor: torch.Tensor) -> None:
    """Make `tensor` the state of that name."""
    kind = next(kind for kind in _KINDS if name.startswith(kind))
    number, place = map(int, name.removeprefix(kind).split("_"))
    layer = cache.layers[number]
    getattr(layer, f"{kind}_states")[place] = tensor
    getattr(layer, f"is_{kind}_states_initialized")[place] = True
    layer.has_previous_state[place] = True
    layer.dtype, layer.device = tensor.dtype, tensor.device
    if kind == "conv":
        layer.conv_kernel_size[place] = tensor.shape[-1]


@contextlib.contextmanager
def _first_of(model: Any, argument: str) -> Iterator[list[Any]]:
    """What the first module that is given `argument` as a list of tensors finds in it, copied before it writes."""
    found: list[Any] = []

    def note(_: Any, __: Any, named: dict[str, Any]) -> None:
        given = named.get(argument)
        if not found and isinstance(given, list):
            found.extend(tensor.clone() for tensor in given)

    hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in model.modules()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
