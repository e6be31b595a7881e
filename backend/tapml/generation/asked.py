"""What is asked for: a prompt, how many tokens, what ends them. The twin of runner_js/src/generation/options.ts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tapml.compiled.files import CompiledFiles
from tapml.compiled.text import tokenizer_of
from tapml.errors import InputError
from tapml.generation.sampling import Sampling
from tapml.program.generation import MOST_PADDING, Generation
from tapml.unicode import encodable

_USUAL_GUESSES = 4


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
    speculate: int | bool | None = None
    """How many tokens are guessed at a time, by a draft or by what stood behind the last ones before, and verified by
    one call: True for as many as usual."""

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
    draft: CompiledFiles | None = None
    """The model that guesses, where one does."""

    @property
    def guesses(self) -> int:
        """Tokens that are guessed at a time; 0 for none."""
        return self.asked.speculate or 0

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
    draft: CompiledFiles | None = None,
) -> Text:
    """`given`: what the model's encoder left, behind which a text needs no prompt but the token that begins one.
    `draft`: a smaller model that guesses, of the same vocabulary.

    Raises InputError for a model that does not generate, for a tokenizer that is not its own, for a draft that cannot
    guess for it, and for a prompt that is empty, longer than the model has room for, or has tokens that are not in the
    vocabulary."""
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
    if draft is not None and not asked.speculate:
        raise InputError("a draft is given, and no tokens are to be guessed: give speculate, or leave the draft out")
    if asked.speculate:
        asked = replace(asked, speculate=_guesses(files, facts, asked.speculate))
        if draft is not None:
            check_draft(files, facts, draft)
    elif asked.speculate is not None:
        asked = replace(asked, speculate=None)
    if not ids:
        other = "text or tokens" if facts.begin is None else f"text, or the token {facts.begin} to begin a text"
        raise InputError(f"the prompt is empty: give {other}")
    if (over := len(ids) - facts.capacity) > 0:
        raise InputError(
            f"the prompt has {len(ids)} tokens, and {files.model.name} has room for {facts.capacity}: leave {over} "
            "out, or build the model with a larger --capacity"
        )
    return Text(files, facts, tokenizer, ids, asked, given, draft)


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


def _guesses(files: CompiledFiles, facts: Generation, count: int | bool) -> int:
    if facts.verify is None:
        raise InputError(
            f"{files.path} gives the logits of one token only, so no drafts can be verified: build it with "
            "--speculate N, or leave speculation out"
        )
    if count is True:
        return min(_USUAL_GUESSES, facts.chunk - 1)
    if not (type(count) is int and 1 <= count < facts.chunk):
        raise InputError(f"{count} tokens are to be guessed at a time: give a whole number from 1 to {facts.chunk - 1}")
    return count


def check_draft(files: CompiledFiles, facts: Generation, draft: CompiledFiles) -> None:
    """Raise InputError for a model that cannot guess for another."""
    own = draft.model.generation
    if own is None:
        raise InputError(f"the draft {draft.path} is no language model that generates: build one with `tapml build`")
    if draft.path.resolve() == files.path.resolve():
        raise InputError(f"the draft {draft.path} is the model itself: give a smaller one, or ngram")
    if own.given:
        raise InputError(f"the draft {draft.path} attends to what an encoder leaves: give one without an encoder")
    same = "give one of the same vocabulary"
    if own.vocabulary != facts.vocabulary:
        raise InputError(
            f"the draft {draft.model.name} has {own.vocabulary} tokens, and {files.model.name} {facts.vocabulary}: "
            f"{same}"
        )
    if files.model.tokenizer is None or draft.model.tokenizer is None:
        return
    words, others = ({token: at for at, token in _words(found).items()} for found in (files, draft))
    parted = next((at for at in sorted(words | others) if words.get(at) != others.get(at)), None)
    if parted is not None:
        raise InputError(
            f"token {parted} is {others.get(parted)!r} of the draft {draft.model.name}, and {words.get(parted)!r} of "
            f"{files.model.name}: {same}"
        )


def _words(files: CompiledFiles) -> dict[str, int]:
    found: dict[str, int] = tokenizer_of(files).get_vocab()
    return found


def _encoded(tokenizer: Any, prompt: str) -> list[int]:
    """Nothing of nothing: what stands around a text is none."""
    return list(tokenizer.encode(encodable(prompt, "the prompt")).ids) if prompt else []


def _check_tokenizer(files: CompiledFiles, facts: Generation, tokenizer: Any) -> None:
    said, fix = f"the tokenizer does not belong to {files.model.name}", "build the model again, of one folder"
    size = tokenizer.get_vocab_size()
    if size > facts.vocabulary or size * MOST_PADDING < facts.vocabulary:
        raise InputError(f"{said}: it has {size} tokens, the model {facts.vocabulary}: {fix}")
    ends = [*facts.end, *([] if facts.begin is None else [facts.begin])]
    if (unknown := next((token for token in ends if tokenizer.id_to_token(token) is None), None)) is not None:
        raise InputError(f"{said}: it has no token {unknown}, with which texts begin or end: {fix}")
