"""What is asked for: a prompt, how many tokens, what ends them. The twin of runner_js/src/generation/options.ts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tapml.compiled.files import CompiledFiles
from tapml.compiled.text import tokenizer_of
from tapml.errors import InputError
from tapml.generation.sampling import Sampling
from tapml.program.generation import Generation

_MOST_PADDING = 2
"""Vocabularies are filled up to a round number, not to twice of what they hold."""


@dataclass(frozen=True)
class Asked:
    """What is written, of what is `Sampling` apart. Raises InputError for what is none of these."""

    sampling: Sampling = field(default_factory=Sampling)
    tokens: int | None = None
    """How many at most: as many as fit if nothing is said."""
    stop: Sequence[str] = ()
    """Texts that end it, and are not given."""
    stop_ids: Sequence[int] = ()
    """Tokens that end it, besides the model's own."""
    speculate: int | None = None
    """How many tokens are guessed at a time, by what stood behind the last ones before, and verified by one call."""

    def __post_init__(self) -> None:
        if self.tokens is not None and not (type(self.tokens) is int and self.tokens >= 1):
            raise InputError(f"tokens is {self.tokens}: give a whole number from 1")
        # A text is a list of texts of one character each, and meant is none of these.
        if isinstance(self.stop, str) or any(not isinstance(text, str) or not text for text in self.stop):
            raise InputError('stop is no list of texts with something in them: give it as ["\\n\\n"]')


@dataclass(frozen=True)
class Text:
    """A text that is to be continued, on a model that generates."""

    files: CompiledFiles
    facts: Generation
    tokenizer: Any
    """Of the package tokenizers; None where the model has none."""
    prompt: Sequence[int]
    asked: Asked
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What an encoder left: inputs of every call."""

    @property
    def most(self) -> int:
        """Tokens that can be written at most: one has no place any more when it is chosen, and need not have one."""
        room = self.facts.capacity - len(self.prompt) + 1
        return room if self.asked.tokens is None else min(room, self.asked.tokens)


def begun(
    files: CompiledFiles,
    prompt: str | Sequence[int] | None,
    asked: Asked,
    given: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Text:
    """`given`: what the model's encoder left, behind which a text needs no prompt but the token that begins one.

    Raises InputError for a model that does not generate, for a tokenizer that is not its own, and for a prompt that
    is empty, longer than the model has room for, or has tokens that are not in the vocabulary."""
    facts = files.model.generation
    if facts is None:
        raise InputError(f"{files.path} is no language model that generates: build one with `tapml build --hf FOLDER`")
    tokenizer = None if files.model.tokenizer is None else tokenizer_of(files)
    if tokenizer is not None:
        _check_tokenizer(files, facts, tokenizer)
    elif isinstance(prompt, str):
        raise InputError(f"{files.path} has no tokenizer: give the prompt as tokens, --prompt-ids 1,2,3")
    elif asked.stop:
        raise InputError(f"{files.path} has no tokenizer, so tokens have no text that could end it: give tokens")
    _check_given(files, facts, given)
    if prompt is None:
        prompt = [facts.begin] if given and facts.begin is not None else []
    ids = _encoded(tokenizer, prompt) if isinstance(prompt, str) else list(prompt)
    for token in (*ids, *asked.stop_ids):
        if type(token) is not int or not 0 <= token < facts.vocabulary:
            raise InputError(
                f"{token} is no token of {files.model.name}: its vocabulary goes from 0 to {facts.vocabulary - 1}"
            )
    if asked.speculate is not None:
        _check_speculation(files, facts, asked.speculate)
    if not ids:
        other = "text or tokens" if facts.begin is None else f"text, or the token {facts.begin} to begin a text"
        raise InputError(f"the prompt is empty: give {other}")
    if (over := len(ids) - facts.capacity) > 0:
        raise InputError(
            f"the prompt has {len(ids)} tokens, and {files.model.name} has room for {facts.capacity}: leave {over} "
            "out, or build the model with a larger --capacity"
        )
    return Text(files, facts, tokenizer, ids, asked, given)


def _check_given(files: CompiledFiles, facts: Generation, given: Mapping[str, np.ndarray]) -> None:
    wanted, found = set(facts.given), set(given)
    if wanted and not found:
        raise InputError(
            f"{files.path} attends to what its encoder leaves: give the encoder, as built with --encoder, and a source"
        )
    if found and not wanted:
        raise InputError(f"{files.path} takes nothing of an encoder: leave the encoder out")
    if wanted != found:
        (name, *_) = sorted(wanted ^ found)
        raise InputError(
            f"{files.path} and the encoder do not belong together, for only one has {name}: build both of one folder"
        )


def _check_speculation(files: CompiledFiles, facts: Generation, count: int) -> None:
    if facts.verify is None:
        raise InputError(
            f"{files.path} gives the logits of one token only, so no drafts can be verified: build it with "
            "--speculate N, or leave speculation out"
        )
    if not (type(count) is int and 1 <= count < facts.chunk):
        raise InputError(f"{count} tokens are to be guessed at a time: give a whole number from 1 to {facts.chunk - 1}")


def _encoded(tokenizer: Any, prompt: str) -> list[int]:
    """Nothing of nothing: what stands around a text is none."""
    return list(tokenizer.encode(prompt).ids) if prompt else []


def _check_tokenizer(files: CompiledFiles, facts: Generation, tokenizer: Any) -> None:
    said, fix = f"the tokenizer does not belong to {files.model.name}", "build the model again, of one folder"
    size = tokenizer.get_vocab_size()
    if size > facts.vocabulary or size * _MOST_PADDING < facts.vocabulary:
        raise InputError(f"{said}: it has {size} tokens, the model {facts.vocabulary}: {fix}")
    ends = [*facts.end, *([] if facts.begin is None else [facts.begin])]
    if (unknown := next((token for token in ends if tokenizer.id_to_token(token) is None), None)) is not None:
        raise InputError(f"{said}: it has no token {unknown}, with which texts begin or end: {fix}")
