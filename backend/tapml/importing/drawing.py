"""The function of a language model that draws a token on the device: one operator (operators/draw.py), as a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax

from tapml.errors import InputError
from tapml.importing.external import call
from tapml.importing.model import ImportedModel, Step
from tapml.operators.draw import MOST_WORDS, asked_of, bits_of, draw
from tapml.program.generation import ASKED, DRAW, DRAWN, LOGITS, NEXT, SEEN, WANTED, Generation

_WAYS = {
    "a draw of all tokens": (1.0, 0, 1.0, 1.0),
    "a draw of the best, with a penalty": (0.8, 50, 0.95, 1.2),
}
"""That are carved: temperature, top-k, top-p, repetition penalty."""


def drawing(words: int) -> Any:
    """A module whose main is that operator, of a vocabulary of so many."""
    types = {LOGITS: ((1, words), "float32"), SEEN: ((-(-words // 32),), "int32"), WANTED: ((ASKED,), "int32")}
    given = [relax.Var(name, relax.TensorType(shape, dtype)) for name, (shape, dtype) in types.items()]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            fields = {"source": "tapml", "operator": DRAW, "attributes": {}}
            made = builder.emit(call(fields, given, [True, True, True], {}))
            outputs = [builder.emit_output(relax.TupleGetItem(made, place)) for place in range(3)]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.finalize()


def drawn_beside(
    generation: Generation, logits: np.ndarray | None, text: Iterable[int], path: Path
) -> tuple[Generation, dict[str, ImportedModel]]:
    """How tokens are generated where the device draws them, and the function that does, carved with logits float32 [1,
    vocabulary] that are some behind `text`; without them made-up ones.

    Raises InputError for a model that takes one token a call (a token that the device is not sure of is drawn of logits
    that are computed again, and such a model takes nothing back), and for a vocabulary that is too large."""
    words = generation.vocabulary
    if generation.chunk == 1 or words > MOST_WORDS:
        one = "takes one token a call, of which none can be taken back"
        why = one if generation.chunk == 1 else f"has {words} tokens, and {MOST_WORDS} are drawn of at most"
        raise InputError(
            f"{path}: the model {why}: leave out --draws, so that tokens are drawn of its logits elsewhere"
        )
    given = np.random.default_rng(0).standard_normal((1, words)).astype(np.float32) if logits is None else logits
    seen = bits_of([token for token in text if token < words], words)
    steps = [*_steps(given, seen)]
    beside = ImportedModel(drawing(words), [LOGITS, SEEN, WANTED], [], steps, {}, [NEXT, DRAWN, SEEN])
    return generation.model_copy(update={"draw": DRAW}), {DRAW: beside}


def _steps(logits: np.ndarray, seen: np.ndarray) -> Iterator[Step]:
    words = logits.shape[1]
    for what, (temperature, top_k, top_p, penalty) in _WAYS.items():
        # The first random number that a token is sure of; where none is, that is what is carved.
        found = (
            asked_of(temperature, min(top_k or words, words), top_p, penalty, at / 17, words) for at in range(1, 17)
        )
        asked = max(found, key=lambda one: draw(logits, seen, one)[1][0] >= 0)
        yield Step(what, {LOGITS: logits, SEEN: seen, WANTED: asked}, True, None)
