"""A text as it is written: tokens that a model chose, the text that became certain with each, and why it ended."""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from tapml.generation.asked import Text
from tapml.generation.stream import StopText, TextStream
from tapml.protocol.methods import GeneratedStep

Reason: TypeAlias = Literal["length", "stop", "end", "capacity", "abort"]
"""`length`: as many tokens as were asked for; `stop`: by `stop` or `stop_ids`; `end`: by the model; `capacity`: no more
fit; `abort`: it was closed."""


class Chosen(NamedTuple):
    """A token that a model chose, and the seconds since it began with the prompt."""

    id: int
    seconds: float
    guessed: bool = False
    step: GeneratedStep | None = None
    """The calls it was chosen by, where a device was asked to tell them."""


@dataclass(frozen=True)
class Piece:
    """A token that was chosen."""

    id: int
    text: str
    """What became certain with it: whole characters, and no part of what may become a stop text."""
    position: int
    """Where it stands, from 0 on: behind the prompt."""
    guessed: bool
    """Whether it was guessed, so that its call gave more than one token."""


@dataclass
class Generated:
    """What was written, so far."""

    prompt_tokens: int
    ids: list[int] = field(default_factory=list)
    """Those that were chosen, one that ends the text included."""
    text: str = ""
    """All of the text. What was kept back as the beginning of a stop text is in it, half a character is not."""
    reason: Reason = "abort"
    guessed: int = 0
    """How many of the tokens were guessed."""
    calls: int = 0
    """Of the model, for the tokens behind the first: one gives those that were guessed rightly, and one more."""
    prefill_seconds: float = 0.0
    """Until the first token was chosen."""
    decode_seconds: float = 0.0
    """From there on."""

    @property
    def tokens_per_call(self) -> float | None:
        """Tokens behind the first, by calls of the model; None where there are none."""
        return (len(self.ids) - 1) / self.calls if self.calls else None

    @property
    def tokens_per_second(self) -> float | None:
        """Of those behind the first; None where there are none."""
        return (len(self.ids) - 1) / self.decode_seconds if self.decode_seconds > 0 else None


class Writing(Iterator[Piece]):
    """The pieces of a text, one by one, as they are written. `result` says what there is of it at any time. `close`
    ends it early, as leaving a `with` block does."""

    def __init__(
        self,
        text: Text,
        source: Generator[Chosen],
        result: Generated | None = None,
        stream: TextStream | None = None,
    ) -> None:
        """`source` chooses tokens without end; it is closed when the text is over. `result`: of nothing yet. `stream`:
        of the text so far, which may end in half a character."""
        self.result = result or Generated(len(text.prompt))
        self._source = source
        self._stream = stream or TextStream(text.tokenizer, text.prompt)
        self._pieces = self._written(text)

    @property
    def over(self) -> bool:
        """Nothing is written any more: it ended, it was closed, or it failed."""
        return inspect.getgeneratorstate(self._pieces) == inspect.GEN_CLOSED or self.result.reason != "abort"

    def __next__(self) -> Piece:
        return next(self._pieces)

    def close(self) -> None:
        """End it. What was written stays in `result`."""
        self._pieces.close()
        self._source.close()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _written(self, text: Text) -> Generator[Piece]:
        result, asked = self.result, text.asked
        stream, stops = self._stream, StopText(asked.stop)
        ends: dict[int, Reason] = {**dict.fromkeys(text.facts.end, "end"), **dict.fromkeys(asked.stop_ids, "stop")}
        reason: Reason | None = None
        within = False
        try:
            for token, seconds, guessed, _ in self._source:
                if not result.ids:
                    result.prefill_seconds = seconds
                result.decode_seconds = seconds - result.prefill_seconds
                position = len(text.prompt) + len(result.ids)
                # The call that gave a guessed token gave the next one, too.
                result.calls += bool(result.ids) and not within
                within = guessed
                result.ids.append(token)
                result.guessed += guessed
                piece, reason = "", ends.get(token)
                if reason is None:
                    piece, stopped = stops.push(stream.push(token))
                    if stopped:
                        reason = "stop"
                    elif len(result.ids) == asked.tokens:
                        reason = "length"
                    elif len(result.ids) >= text.most:
                        reason = "capacity"
                if reason is not None:
                    piece += stops.rest()
                result.text += piece
                if reason is not None:
                    result.reason = reason
                    self._source.close()
                yield Piece(token, piece, position, guessed)
                if reason is not None:
                    return
        finally:
            if reason is None:
                result.text += stops.rest()


class Several(Iterator[tuple[int, Piece]]):
    """The pieces of several texts, with the number of each, as they are written. `results` say what there is of them at
    any time. `close` ends all, as leaving a `with` block does."""

    def __init__(self, results: Sequence[Generated], pieces: Generator[tuple[int, Piece]]) -> None:
        self.results = results
        self._pieces = pieces

    def __next__(self) -> tuple[int, Piece]:
        return next(self._pieces)

    def close(self) -> None:
        """End them. What was written stays in `results`."""
        self._pieces.close()

    def __enter__(self) -> Several:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def written_together(
    texts: Sequence[Text], source: Generator[tuple[int, Chosen]], over: set[int] | None = None
) -> Several:
    """`source` chooses tokens of the texts, by their number; it is closed when all are over. `over`: where it looks for
    those that are, so that nothing more is chosen for them."""
    ended: set[int] = set() if over is None else over
    given: list[deque[Chosen]] = [deque() for _ in texts]
    writings = [Writing(text, _taken(given[number])) for number, text in enumerate(texts)]

    def written() -> Generator[tuple[int, Piece]]:
        try:
            for number, chosen in source:
                # Of a text that a stop text ended more is chosen until all are over.
                if number in ended:
                    continue
                given[number].append(chosen)
                piece = next(writings[number])
                if writings[number].result.reason != "abort":
                    ended.add(number)
                if len(ended) == len(texts):
                    source.close()
                yield number, piece
                if len(ended) == len(texts):
                    return
        finally:
            source.close()
            for writing in writings:
                writing.close()

    return Several([writing.result for writing in writings], written())


def written_alone(text: Text, source: Generator[tuple[int, Chosen]]) -> Writing:
    """`source` chooses tokens of one text."""

    def chosen() -> Generator[Chosen]:
        with contextlib.closing(source):
            for _, found in source:
                yield found

    return Writing(text, chosen())


def _taken(given: deque[Chosen]) -> Generator[Chosen]:
    """As many as there are when one is asked for."""
    while True:
        yield given.popleft()
