"""Calls of a model that generates, on this machine: each gives rows of logits [tokens, vocabulary]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tapml.compiled.files import CompiledFiles
from tapml.errors import InputError, TapmlError
from tapml.generation.sampling import Sampling, chooser
from tapml.platforms.compiled import CompiledOnCpu
from tapml.program.generation import LOGITS, Generation


class Calls:
    """A model that keeps what it has seen."""

    def __init__(
        self, model: CompiledOnCpu, facts: Generation, given: Mapping[str, np.ndarray] = MappingProxyType({})
    ) -> None:
        self.facts = facts
        self._model = model
        self._given = given
        self._held: list[int] = []
        """Tokens that the states have. A wrong guess stays there until what was chosen in its place overwrites it."""

    def fork(self) -> Calls:
        """Calls that go on from here by states of their own; all else is shared."""
        forked = Calls(self._model.fork(), self.facts, self._given)
        forked._held = [*self._held]
        return forked

    def behind(self, tokens: Sequence[int]) -> np.ndarray:
        """The row behind the last token. What the states have of the text is not computed again."""
        chunk, logits = self.facts.chunk, np.empty((0, 0), np.float32)
        for first in range(self._begin(tokens), len(tokens), chunk):
            part = tokens[first : first + chunk]
            logits = self._run(self.facts.prefill if len(part) > 1 else self.facts.decode, part, first)
        return logits

    def verified(self, tokens: Sequence[int], guesses: Sequence[int]) -> np.ndarray:
        """The row behind the last token, and one behind each guess; the states have all tokens but the last."""
        if not guesses or self.facts.verify is None:
            return self.behind(tokens)
        return self._run(self.facts.verify, [tokens[-1], *guesses], len(tokens) - 1, every=True)

    def _run(self, function: str, tokens: Sequence[int], begin: int, *, every: bool = False) -> np.ndarray:
        given = self.facts.call(tokens, begin, every=every)
        found: np.ndarray = self._model.run({**given, **self._given}, function)[LOGITS]
        self._held[begin:] = tokens
        return found

    def _begin(self, tokens: Sequence[int]) -> int:
        """The first token that has to be computed: the last one is, for its row."""
        pairs = enumerate(zip(self._held, tokens[:-1], strict=False))
        known = next((at for at, (held, token) in pairs if held != token), min(len(self._held), len(tokens) - 1))
        # A recurrence, which takes single tokens, takes none back: it begins anew.
        return known if self.facts.chunk > 1 or known == len(self._held) else 0


class Draft:
    """A smaller model that guesses, greedily."""

    def __init__(self, files: CompiledFiles) -> None:
        """Raises InputError where it cannot be computed here."""
        facts = files.model.generation
        if facts is None:
            raise InputError(f"{files.path} is no language model that generates")
        self._name = files.model.name
        self._calls = Calls(CompiledOnCpu(files), facts)
        self._choose = chooser(Sampling(greedy=True))

    def __call__(self, tokens: Sequence[int], count: int) -> list[int]:
        """Up to `count` tokens that may follow a text, which goes on from call to call: as many as there is room for.

        Raises TapmlError where the draft's logits are no numbers."""
        facts = self._calls.facts
        guesses: list[int] = []
        # The last guess needs no place.
        count = min(count, facts.capacity + 1 - len(tokens))
        if count < 1:
            return guesses
        logits = self._calls.behind(tokens)
        # Keys of a guess that was wrong are overwritten; of a recurrence nothing can be taken back.
        guessing = self._calls.fork() if facts.chunk == 1 else self._calls
        while True:
            guesses.append(self._chosen(logits, len(tokens) + len(guesses)))
            if len(guesses) == count:
                return guesses
            logits = guessing.behind([*tokens, *guesses])

    def _chosen(self, logits: np.ndarray, position: int) -> int:
        try:
            return self._choose(logits, (), position)
        except TapmlError as error:
            raise TapmlError(f"the draft {self._name}: {error}") from None
