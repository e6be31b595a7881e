"""Tokens that a compiled model chooses on this machine."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence

import numpy as np

from tapml.generation.asked import Text
from tapml.generation.drafts import ngrams
from tapml.generation.sampling import chooser
from tapml.generation.writing import Chosen, Generated, Piece, Several, Writing
from tapml.platforms.compiled import CompiledOnCpu
from tapml.program.generation import LOGITS, call_inputs


def chosen_on_cpu(text: Text, model: CompiledOnCpu | None = None) -> Generator[Chosen]:
    """Without end: who takes them knows when it is over. `model`: that of the text, opened before.

    Raises InputError where the model cannot be computed here, TapmlError for logits that are no numbers.
    """
    choose = chooser(text.asked.sampling)
    steps = _Steps(text, model or CompiledOnCpu(text.files))
    begun = time.perf_counter()
    tokens = list(text.prompt)
    seen = set(tokens)
    guesses: list[int] = []
    logits = steps.prefill(tokens)
    while True:
        # Each row follows a token that was guessed rightly.
        for row, guess in zip(logits, [*guesses, None], strict=True):
            token = choose(row, seen, len(tokens))
            seen.add(token)
            tokens.append(token)
            yield Chosen(token, time.perf_counter() - begun, token == guess)
            if token != guess:
                break
        guesses = steps.guesses(tokens)
        logits = steps.decode(tokens, guesses)


def written_on_cpu(texts: Sequence[Text]) -> Several:
    """Texts of one model, one after the other."""
    results = [Generated(len(text.prompt)) for text in texts]

    def written() -> Generator[tuple[int, Piece]]:
        model = CompiledOnCpu(texts[0].files)
        for number, text in enumerate(texts):
            with Writing(text, chosen_on_cpu(text, model), results[number]) as writing:
                for piece in writing:
                    yield number, piece

    return Several(results, written())


class _Steps:
    """Calls of a model that keeps what it has seen: each gives rows of logits [tokens, vocabulary]."""

    def __init__(self, text: Text, model: CompiledOnCpu) -> None:
        self._model = model
        self._facts = text.facts
        self._given = text.given
        self._speculate = text.asked.speculate or 0

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        """The row behind the last of them."""
        chunk, logits = self._facts.chunk, np.empty((0, 0), np.float32)
        for first in range(0, len(tokens), chunk):
            part = tokens[first : first + chunk]
            function = self._facts.prefill if len(part) > 1 else self._facts.decode
            logits = self._model.run({**call_inputs(part, first), **self._given}, function)[LOGITS]
        return logits

    def guesses(self, tokens: Sequence[int]) -> list[int]:
        """Tokens that may follow; each takes a place. None where none are verified."""
        found = ngrams(tokens, min(self._speculate, self._facts.capacity - len(tokens))) if self._speculate else []
        over = next((place for place, token in enumerate(found) if token in self._facts.end), len(found))
        return found[:over]

    def decode(self, tokens: Sequence[int], guesses: Sequence[int]) -> np.ndarray:
        """The row behind the last of them, and one behind each guess."""
        given = call_inputs([tokens[-1], *guesses], len(tokens) - 1, every=bool(guesses))
        function = self._facts.verify if guesses and self._facts.verify else self._facts.decode
        found: np.ndarray = self._model.run({**given, **self._given}, function)[LOGITS]
        return found
