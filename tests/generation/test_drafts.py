"""Guesses of a smaller model on this machine: what it is called with, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from tapml.errors import InputError, TapmlError
from tapml.generation import calls_on_cpu
from tapml.generation.asked import Asked, begun
from tapml.generation.kept import KeptOnCpu
from tapml.generation.on_cpu import chosen_on_cpu
from tapml.generation.sampling import Sampling
from tapml.program.generation import Generation

WORDS, CAPACITY = 50, 40
FACTS = Generation(
    **{"prefill": "main", "decode": "main", "verify": "main", "chunk": 8, "capacity": CAPACITY, "vocabulary": WORDS},
    **{"end": [], "begin": None, "bytes_per_token": 4},
)
PROMPT = [3, 1, 4]


class Fake:
    """A model that chooses by what its states hold: a rejected guess that stayed there would change the text."""

    def __init__(self, follows: Callable[[Sequence[int]], int], facts: Generation = FACTS) -> None:
        self.follows, self.facts = follows, facts
        self.states = [np.full(CAPACITY, -1)]
        self.recurs = facts.chunk == 1
        self.calls: list[list[int]] = []

    def fork(self) -> Fake:
        forked = copy(self)
        forked.states = [state.copy() for state in self.states]
        return forked

    def run(self, arrays: dict[str, np.ndarray], function: str) -> dict[str, np.ndarray]:
        ids, positions, last = (arrays[name].reshape(-1).tolist() for name in ("input_ids", "positions", "last"))
        assert positions == [*range(positions[0], positions[0] + len(ids))]
        assert len(ids) <= self.facts.chunk
        assert positions[-1] < CAPACITY
        held, begin = self.states[0], positions[0]
        if self.recurs:
            # What it was given, one after the other, wherever that is said to stand.
            held[:] = held if begin else -1
            begin = int((held >= 0).sum())
        held[begin : begin + len(ids)] = ids
        self.calls.append(ids)
        logits = np.zeros((len(last), WORDS), np.float32)
        for row, at in zip(logits, last, strict=True):
            row[self.follows(held[: begin + at + 1].tolist())] = 1
        return {"logits": logits}


def follows(held: Sequence[int]) -> int:
    return int(sum(token * (at + 1) for at, token in enumerate(held)) % WORDS)


def sometimes_wrong(held: Sequence[int]) -> int:
    return (follows(held) + (len(held) % 4 == 0)) % WORDS


def files(facts: Generation | None = FACTS, path: str = "a.tapml", name: str = "a", words: Any = None) -> Any:
    described = None if words is None else SimpleNamespace(file="tokenizer.json")
    content = b"" if words is None else Tokenizer(WordLevel(words, unk_token="0")).to_str().encode()
    model = SimpleNamespace(generation=facts, tokenizer=described, name=name)
    return SimpleNamespace(model=model, path=Path(path), attachment=lambda name: content)


def calls(model: Fake) -> calls_on_cpu.Calls:
    return calls_on_cpu.Calls(cast(Any, model), model.facts)


def text(model: Fake, draft: Fake | None, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> Any:
    found = [model, draft]
    monkeypatch.setattr(calls_on_cpu, "CompiledOnCpu", lambda files: found[files.number])
    named = [files(fake and fake.facts, f"{number}.tapml") for number, fake in enumerate(found)]
    for number, each in enumerate(named):
        each.number = number
    asked = {"sampling": Sampling(greedy=True), "speculate": True, **asked}
    return begun(cast(Any, named[0]), PROMPT, Asked(**asked), draft=named[1] if draft else None)


@pytest.mark.parametrize("chunk", [8, 1])
@pytest.mark.parametrize("guess", [follows, sometimes_wrong, lambda held: 7])
def test_a_text_is_the_same_in_fewer_calls(
    guess: Callable[[Sequence[int]], int], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a draft with a cache, and by a recurrence: what it guessed wrongly has to be out of its states."""
    wanted = [*PROMPT]
    while len(wanted) < CAPACITY + 1:
        wanted.append(follows(wanted))
    model, draft = Fake(follows), Fake(guess, FACTS.model_copy(update={"chunk": chunk}))
    made = chosen_on_cpu(text(model, draft, monkeypatch), calls(model))
    found = [*islice(made, CAPACITY + 1 - len(PROMPT))]
    assert [chosen.id for chosen in found] == wanted[len(PROMPT) :]
    guessed = sum(chosen.guessed for chosen in found)
    assert len(model.calls) == len(found) - guessed, "each call gives a token, and those that were guessed rightly"
    if guess is follows:
        assert guessed == len(found) - len(model.calls) > 25
    elif guess is sometimes_wrong:
        assert guessed > 15
    # Of the text nothing is computed twice: what is not of the text are guesses.
    assert sum(map(len, draft.calls)) <= 2 * len(wanted) + 4 * len(model.calls)


def test_a_draft_with_less_room_leaves_the_rest_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = FACTS.model_copy(update={"capacity": 12})
    model, draft = Fake(follows), Fake(follows, facts)
    found = [*islice(chosen_on_cpu(text(model, draft, monkeypatch), calls(model)), 30)]
    plain = [*islice(chosen_on_cpu(text(Fake(follows), None, monkeypatch), calls(Fake(follows))), 30)]
    assert [chosen.id for chosen in found] == [chosen.id for chosen in plain]
    assert [chosen.guessed for chosen in found][12:] == [False] * 18


def test_a_draft_whose_logits_are_no_numbers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model, draft = Fake(follows), Fake(follows)
    draft.run = lambda arrays, function: {"logits": np.full((1, WORDS), np.nan, np.float32)}  # type: ignore[method-assign]
    with pytest.raises(TapmlError, match="the draft a: the model's logits for position 4 are no numbers"):
        [*islice(chosen_on_cpu(text(model, draft, monkeypatch), calls(model)), 5)]


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        ({"facts": None}, {}, "the draft b.tapml is no language model that generates"),
        ({"path": "a.tapml"}, {}, "the draft a.tapml is the model itself: give a smaller one"),
        ({"facts": FACTS.model_copy(update={"given": ["cross"]})}, {}, "attends to what an encoder leaves"),
        ({"facts": FACTS.model_copy(update={"vocabulary": 60})}, {}, "the draft b has 60 tokens, and a 50"),
        ({"words": {str(50 - at): at for at in range(50)}}, {}, "token 0 is '50' of the draft b, and '0' of a"),
        ({}, {"speculate": None}, "a draft is given, and no tokens are to be guessed"),
    ],
)
def test_what_cannot_guess_is_refused(changes: dict[str, Any], asked: dict[str, Any], said: str) -> None:
    words = {str(at): at for at in range(50)}
    draft = files(**{"path": "b.tapml", "name": "b", "words": words, **changes})
    with pytest.raises(InputError, match=said):
        begun(files(words=words), PROMPT, Asked(**{"speculate": True, **asked}), draft=draft)


def test_as_many_as_usual_are_as_many_as_a_call_takes() -> None:
    for chunk, usual in ((8, 4), (3, 2)):
        facts = FACTS.model_copy(update={"chunk": chunk})
        assert begun(files(facts), PROMPT, Asked(speculate=True)).guesses == usual
    assert begun(files(), PROMPT, Asked(speculate=False)).guesses == 0


@pytest.mark.parametrize("chunk", [8, 1])
def test_a_text_that_is_gone_on_with_computes_no_more_than_its_last_token(chunk: int) -> None:
    facts = FACTS.model_copy(update={"chunk": chunk, "verify": None})
    model = Fake(follows, facts)
    kept = KeptOnCpu(calls(model))

    def written(by: KeptOnCpu, tokens: Sequence[int], count: int) -> list[int]:
        found = by.chosen(begun(files(facts), tokens, Asked(sampling=Sampling(greedy=True))))
        return [chosen.id for chosen in islice(found, count)]

    wanted = [*PROMPT]
    while len(wanted) < 20:
        wanted.append(follows(wanted))
    assert written(kept, PROMPT, 5) == wanted[3:8]
    forked = kept.fork()
    before = len(model.calls)
    assert written(kept, wanted[:8], 4) == wanted[8:12]
    assert len(model.calls) == before + 4
    # A fork has the states of then, whatever became of the text.
    other = [*wanted[:8], 9]
    model.calls.clear()
    first, _ = written(forked, other, 2)
    assert model.calls == ([[wanted[7], 9], [first]] if chunk > 1 else [[wanted[7]], [9], [first]])
    # What was taken back is gone.
    again = written(kept, wanted[:5], 3)
    assert again == wanted[5:8]
