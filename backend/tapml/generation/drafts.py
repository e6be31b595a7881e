"""Guesses of what follows a text by what stands in it. The twin of runner_js/src/generation/drafts.ts."""

from __future__ import annotations

from collections.abc import Sequence

NGRAM = "ngram"
"""What these guesses are called, where a model may be named in their place."""
_LONGEST, _SHORTEST = 3, 2
"""Tokens of which the end of a text is looked for before it: the longer ones first."""


def ngrams(tokens: Sequence[int], count: int) -> list[int]:
    """What stood, where the last tokens stood before, behind them; of several places the last. A repetition goes on
    repeating."""
    for length in range(_LONGEST, _SHORTEST - 1, -1):
        end = len(tokens) - length
        at = next((at for at in range(end - 1, -1, -1) if tokens[at : at + length] == tokens[end:]), None)
        if at is None:
            continue
        found = [*tokens[at + length :]]
        while len(found) < count:
            found.append(found[at - end])
        return found[:count]
    return []
