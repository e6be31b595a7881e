"""Tokens that a compiled model chooses on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence

from tapml.generation.asked import Text
from tapml.generation.batch import Batch, Line
from tapml.generation.calls_on_cpu import Calls, Draft
from tapml.generation.drafts import ngrams
from tapml.generation.sampling import chooser
from tapml.generation.writing import Chosen, Generated, Piece, Several, Writing, written_together
from tapml.platforms.compiled import CompiledOnCpu
from tapml.program.generation import LOGITS


def chosen_on_cpu(text: Text, calls: Calls | None = None) -> Generator[Chosen]:
    """Without end: who takes them knows when it is over. `calls`: of its model, which may have some of the text.

    Raises InputError where the model cannot be computed here, TapmlError for logits that are no numbers.
    """
    choose = chooser(text.asked.sampling)
    calls = calls or Calls(CompiledOnCpu(text.files), text.facts, text.given)
    guesser = _guesser(text)
    begun = time.perf_counter()
    tokens = list(text.prompt)
    seen = set(tokens)
    guesses: list[int] = []
    logits = calls.behind(tokens)
    while True:
        # Each row follows a token that was guessed rightly.
        for row, guess in zip(logits, [*guesses, None], strict=True):
            token = choose(row, seen, len(tokens))
            seen.add(token)
            tokens.append(token)
            yield Chosen(token, time.perf_counter() - begun, token == guess)
            if token != guess:
                break
        guesses = guesser(tokens)
        logits = calls.verified(tokens, guesses)


def written_on_cpu(texts: Sequence[Text]) -> Several:
    """Texts of one model: together where its calls take tokens of several, one after the other where they do not, or
    where tokens are guessed."""
    if texts[0].facts.blocks is not None and not texts[0].guesses and len(texts) > 1:
        over: set[int] = set()
        return written_together(texts, chosen_together(texts, over), over)
    results = [Generated(len(text.prompt)) for text in texts]

    def written() -> Generator[tuple[int, Piece]]:
        model = CompiledOnCpu(texts[0].files)
        for number, text in enumerate(texts):
            calls = Calls(model, text.facts, text.given)
            with Writing(text, chosen_on_cpu(text, calls), results[number]) as writing:
                for piece in writing:
                    yield number, piece

    return Several(results, written())


def chosen_together(texts: Sequence[Text], over: Collection[int]) -> Generator[tuple[int, Chosen]]:
    """Tokens of texts of one model, asked for alike, in calls that have tokens of all that are not `over`. Raises as
    `chosen_on_cpu`."""
    facts = texts[0].facts
    assert facts.blocks is not None, "the model takes tokens of several texts"
    model, choose = CompiledOnCpu(texts[0].files), chooser(texts[0].asked.sampling)
    batch = Batch(facts.blocks, facts.chunk)
    begun = time.perf_counter()
    lines = {number: Line(number, list(text.prompt)) for number, text in enumerate(texts)}
    for line in lines.values():
        batch.add(line)
    while lines:
        planned = batch.plan()
        parts = [part for _, part in planned]
        alone = len(parts) == 1 and len(parts[0].tokens) == 1
        function = facts.decode if alone else facts.prefill
        rows = iter(model.run(facts.blocks.call(parts, facts.capacity), function)[LOGITS])
        for line, part in planned:
            if not part.wanted:
                continue
            token = choose(next(rows), set(line.tokens), len(line.tokens))
            line.tokens.append(token)
            yield line.number, Chosen(token, time.perf_counter() - begun)
        for number in [number for number in lines if number in over]:
            batch.end(lines.pop(number))


def _guesser(text: Text) -> Callable[[Sequence[int]], list[int]]:
    """Tokens that may follow, each of which takes a place, and none that ends a text."""
    facts = text.facts
    guess = Draft(text.draft) if text.draft else ngrams

    def guessed(tokens: Sequence[int]) -> list[int]:
        count = min(text.guesses, facts.capacity - len(tokens))
        found = guess(tokens, count) if count > 0 else []
        over = next((place for place, token in enumerate(found) if token in facts.end), len(found))
        return found[:over]

    return guessed
