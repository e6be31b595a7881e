"""Tokens that a compiled model chooses on this machine."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence

import numpy as np

from tapml.generation.asked import Text
from tapml.generation.sampling import chooser
from tapml.generation.writing import Chosen
from tapml.platforms.compiled import CompiledOnCpu
from tapml.program.generation import INPUTS, LOGITS


def chosen_on_cpu(text: Text) -> Generator[Chosen]:
    """Without end: who takes them knows when it is over.

    Raises InputError where the model cannot be computed here, TapmlError for logits that are no numbers.
    """
    choose = chooser(text.asked.sampling)
    model, facts = CompiledOnCpu(text.files), text.facts
    begun = time.perf_counter()
    tokens: list[int] = []
    more: Sequence[int] = text.prompt
    seen = set(more)
    while True:
        logits = np.empty(0, np.float32)
        for first in range(0, len(more), facts.chunk):
            part = more[first : first + facts.chunk]
            call = call_inputs(part, len(tokens))
            logits = model.run(call, facts.prefill if len(part) > 1 else facts.decode)[LOGITS]
            tokens.extend(part)
        token = choose(logits, seen, len(tokens))
        seen.add(token)
        yield Chosen(token, time.perf_counter() - begun)
        more = [token]


def call_inputs(tokens: Sequence[int], position: int) -> dict[str, np.ndarray]:
    """Of a call with tokens that stand from `position` on, for the logits behind the last of them."""
    count = len(tokens)
    given = [tokens], np.arange(position, position + count), [count - 1]
    return {name: np.array(array, np.int32) for name, array in zip(INPUTS, given, strict=True)}
