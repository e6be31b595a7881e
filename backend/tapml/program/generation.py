"""How tokens are generated with a model: which of its functions do it, and what fits (docs/generation.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field

from tapml.expressions import ExpressionError
from tapml.program.graph import Typed
from tapml.protocol.base import Bytes, Message
from tapml.protocol.fields import Id

_MOST = 2**31 - 1
_Token = Annotated[int, Field(ge=0, le=_MOST)]
_Some = Annotated[int, Field(ge=1, le=_MOST)]

POSITIONS = "positions"
INPUTS = ("input_ids", POSITIONS, "last")
"""Of int32: tokens [1, n], where they stand [n], which of them the logits are of [1]."""
LOGITS = "logits"
"""The output, float32 [1, vocabulary], of the token after that."""
NEXT = "next"
"""The output, int32 [1], that has the most likely token; where its logit is no finite number, -1 - token."""


def call_inputs(tokens: Sequence[int], position: int, *, every: bool = False) -> dict[str, np.ndarray]:
    """Of a call with tokens that stand from `position` on, for the logits behind the last of them, or behind `every`
    one."""
    count = len(tokens)
    given = [tokens], np.arange(position, position + count), np.arange(count) if every else [count - 1]
    return {name: np.array(array, np.int32) for name, array in zip(INPUTS, given, strict=True)}


class Generation(Message):
    """The functions that generate tokens, and what they take. Both have the inputs `input_ids`, `positions` and `last`
    and the output `logits`, and keep what they have seen in the model's states."""

    prefill: Id
    """The function that takes 1 to `chunk` tokens."""
    decode: Id
    """The function that takes one; it may be the same."""
    verify: Id | None = None
    """The function that gives the logits of several of its 1 to `chunk` tokens: its `last` has an entry for each. Null
    where `last` has one entry only, so that no drafts can be verified."""
    next: Id | None = None
    """The output of each of them, int32, that has the most likely token by each row of logits, of equal ones that of
    the lowest id, or -1 - token where its logit is no finite number. Null where none has."""
    given: Annotated[list[Id], Field(max_length=10_000)] = Field(default_factory=list)
    """Inputs that each of them takes besides: an encoder's outputs of these names, the same at every call of a text."""
    chunk: _Some
    """Tokens that a call of `prefill` takes at most."""
    capacity: _Some
    """Tokens that the states have room for."""
    vocabulary: _Some
    """Tokens there are, from 0 on."""
    end: Annotated[list[_Token], Field(max_length=1000)]
    """Tokens that end a text."""
    begin: _Token | None
    """The token that begins a text; null where there is none."""
    bytes_per_token: Bytes
    """That the states take for a token."""
    places: Id | None = None
    """The symbol of a compiled model that is an axis of states which grow: as many tokens as they have room for now, at
    most `capacity`. Null where there is room for all from the beginning."""


class GenerationDocument(Generation):
    """As a suite has it, which may be of a later version."""

    model_config = ConfigDict(extra="ignore")


Tensors = Mapping[str, Typed]


def check_generation(found: Generation, functions: Mapping[str, tuple[Tensors, Tensors]]) -> None:
    """Raise ExpressionError unless functions, of which `functions` has the inputs and the outputs by name, generate as
    `found` says. runner_js/src/compiled/generation.ts is the same for pages."""
    for role, name in (("prefill", found.prefill), ("decode", found.decode), ("verify", found.verify)):
        if name is None:
            continue
        if name not in functions:
            raise ExpressionError(f"generation: {role}: there is no function {name}")
        inputs, outputs = functions[name]
        for given in INPUTS:
            if given not in inputs or inputs[given].dtype != "int32" or inputs[given].encoding:
                raise ExpressionError(f"generation: {role}: {name} has no input {given} of int32")
        for given in found.given:
            if given not in inputs:
                raise ExpressionError(f"generation: {role}: {name} has no input {given}")
        entries = inputs[INPUTS[-1]].shape
        if role == "verify" and entries == (1,):
            raise ExpressionError(f"generation: {role}: {name} gives the logits of one token, and never of several")
        wanted, logits = Typed((*entries, found.vocabulary), "float32"), outputs.get(LOGITS)
        if len(entries) != 1 or logits is None or str(logits) != str(wanted):
            raise ExpressionError(f"generation: {role}: {name} has no output logits {wanted}")
        chosen = Typed(tuple(entries), "int32")
        if found.next is not None and str(outputs.get(found.next)) != str(chosen):
            raise ExpressionError(f"generation: {role}: {name} has no output {found.next} {chosen}")
    if found.chunk > found.capacity:
        raise ExpressionError(f"generation: {found.chunk} tokens of a call are more than the {found.capacity} that fit")
    for token in [*found.end, *([] if found.begin is None else [found.begin])]:
        if token >= found.vocabulary:
            raise ExpressionError(f"generation: token {token} is none of the {found.vocabulary} of the vocabulary")
