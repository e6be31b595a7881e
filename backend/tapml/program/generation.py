"""How tokens are generated with a model: which of its functions do it, and what fits (docs/generation.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

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
MOST_PADDING = 2
"""Vocabularies are filled up to a round number, not to twice of what their tokenizer has."""
NEXT = "next"
"""The output, int32 [1], that has the most likely token; where its logit is no finite number, -1 - token."""
DRAW = "draw"
"""The function that draws a token (operators/draw.py)."""
SEEN, WANTED, DRAWN = "seen", "asked", "drawn"
"""Of that, besides logits and the token: the tokens of the text, what is asked for, and the token or -1."""
ASKED = 9
"""Entries of what is asked for."""


def call_inputs(tokens: Sequence[int], position: int, *, every: bool = False) -> dict[str, np.ndarray]:
    """Of a call with tokens that stand from `position` on, for the logits behind the last of them, or behind `every`
    one."""
    count = len(tokens)
    given = [tokens], np.arange(position, position + count), np.arange(count) if every else [count - 1]
    return {name: np.array(array, np.int32) for name, array in zip(INPUTS, given, strict=True)}


class Part(NamedTuple):
    """Tokens of a sequence in a call with several: they stand from `position` on, and the blocks of its text are
    these. `wanted`: are there to be logits behind the last of them?"""

    tokens: Sequence[int]
    position: int
    blocks: Sequence[int]
    wanted: bool = True


class Blocks(Message):
    """States of several sequences together. The places of a text, of `size` positions each, are any of `count` blocks,
    and a call says where those of each of its tokens are: so tokens of several sequences may be in one call."""

    input: Id
    """The input of each function, int32 [tokens, capacity / size]: of each token the blocks of its text, in order."""
    size: _Some
    """Places of a block."""
    count: _Some
    """Blocks that there are at most."""

    @property
    def places(self) -> int:
        """In all of them."""
        return self.size * self.count

    def first(self, tokens: int, capacity: int) -> np.ndarray:
        """What the input is for tokens of a text that is alone: the first blocks."""
        return np.repeat(np.arange(capacity // self.size, dtype=np.int32)[None], tokens, 0)

    def call(self, parts: Sequence[Part], capacity: int) -> dict[str, np.ndarray]:
        """The inputs of a call with tokens of several sequences, for the logits behind each part that wants them, or
        behind the last one."""
        tokens = [token for part in parts for token in part.tokens]
        positions = [at for part in parts for at in range(part.position, part.position + len(part.tokens))]
        tables = np.zeros((len(tokens), capacity // self.size), np.int32)
        last, behind = [], 0
        for part in parts:
            tables[behind : behind + len(part.tokens), : len(part.blocks)] = part.blocks
            behind += len(part.tokens)
            last += [behind - 1] if part.wanted else []
        given = [tokens], positions, last or [behind - 1]
        arrays = {name: np.array(array, np.int32) for name, array in zip(INPUTS, given, strict=True)}
        return {**arrays, self.input: tables}


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
    draw: Id | None = None
    """The function that draws a token of `logits` that one of them left: int32 `next` [1, 1], the token, or 0 where
    none is sure, `drawn` [1], the token or -1, and `seen` [vocabulary / 32], the tokens of the text, a bit for each,
    which it takes, too, besides what is `asked` for [9]. Null where there is none: they are drawn of logits that are
    read."""
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
    blocks: Blocks | None = None
    """Null where states are of one sequence."""
    places: Id | None = None
    """The symbol of a compiled model that is an axis of states which grow: as many tokens as they have room for now, at
    most `capacity`, or as many as all `blocks` have. Null where there is room for all from the beginning."""

    @property
    def most_places(self) -> int:
        """That the states have."""
        return self.capacity if self.blocks is None else self.blocks.places

    def call(self, tokens: Sequence[int], position: int, *, every: bool = False) -> dict[str, np.ndarray]:
        """`call_inputs` of a text that is alone: where there are blocks, it has the first ones."""
        found = call_inputs(tokens, position, every=every)
        if self.blocks is not None:
            found[self.blocks.input] = self.blocks.first(len(tokens), self.capacity)
        return found


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
        table = inputs.get(found.blocks.input) if found.blocks else None
        if found.blocks and (
            table is None
            or (table.dtype, table.encoding, len(table.shape)) != ("int32", None, 2)
            or (table.shape[0], table.shape[1]) != (*inputs[POSITIONS].shape, found.capacity // found.blocks.size)
        ):
            raise ExpressionError(
                f"generation: {role}: {name} has no input {found.blocks.input} of int32 with a row for each token and "
                f"{found.capacity // found.blocks.size} blocks"
            )
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
    if found.draw is not None:
        _check_draw(found.draw, found.vocabulary, functions)
    if found.blocks and (found.capacity % found.blocks.size or found.blocks.places < found.capacity):
        raise ExpressionError(
            f"generation: blocks: {found.blocks.count} of {found.blocks.size} places do not make room for a text of "
            f"{found.capacity} tokens"
        )
    if found.chunk > found.capacity:
        raise ExpressionError(f"generation: {found.chunk} tokens of a call are more than the {found.capacity} that fit")
    for token in [*found.end, *([] if found.begin is None else [found.begin])]:
        if token >= found.vocabulary:
            raise ExpressionError(f"generation: token {token} is none of the {found.vocabulary} of the vocabulary")


def _check_draw(name: str, words: int, functions: Mapping[str, tuple[Tensors, Tensors]]) -> None:
    if name not in functions:
        raise ExpressionError(f"generation: draw: there is no function {name}")
    text = Typed((-(-words // 32),), "int32")
    takes = {LOGITS: Typed((1, words), "float32"), SEEN: text, WANTED: Typed((ASKED,), "int32")}
    gives = {NEXT: Typed((1, 1), "int32"), DRAWN: Typed((1,), "int32"), SEEN: text}
    for what, wanted, known in zip(("input", "output"), (takes, gives), functions[name], strict=True):
        for port, kind in wanted.items():
            if str(known.get(port)) != str(kind):
                raise ExpressionError(f"generation: draw: {name} has no {what} {port} {kind}")
