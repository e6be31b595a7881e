"""Texts of one model that are written together: a call has a token of each, or some of a prompt. The twin of
runner_js/src/generation/batch.ts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tapml.generation.blocks import Pool
from tapml.program.generation import Blocks, Part


@dataclass(eq=False)
class Line:
    """A text in a batch. `computed`: how many of its tokens the states have, in its `blocks`."""

    number: int
    tokens: list[int]
    blocks: list[int] = field(default_factory=list)
    computed: int = 0

    @property
    def pending(self) -> int:
        """Tokens that are to be computed yet."""
        return len(self.tokens) - self.computed


class Batch:
    """What each call is of. Texts come in the order in which they were added: where blocks run out the last ones wait,
    lose theirs, and are computed again when there is room."""

    def __init__(self, blocks: Blocks, chunk: int) -> None:
        self._pool = Pool(blocks.count, blocks.size)
        self._chunk = chunk
        self._lines: list[Line] = []
        self.reused = 0
        """Tokens that were there already, of another text that begins alike."""

    def add(self, line: Line) -> None:
        """A text more, of which nothing is computed."""
        self._lines.append(line)

    def end(self, line: Line) -> None:
        """A text is over."""
        self._drop(line)
        self._lines.remove(line)

    def plan(self) -> list[tuple[Line, Part]]:
        """The next call, as if it had been made: a part of each text that it has tokens of. One whose last token is
        among them wants what follows it."""
        room = self._chunk
        found: list[tuple[Line, Part]] = []
        # A token of each text that is being written, then of prompts what there is room for.
        for line in sorted(self._lines, key=lambda line: line.pending > 1):
            if not line.blocks:
                # What follows the last token is computed of it.
                line.blocks = self._pool.shared(line.tokens[:-1])
                line.computed = len(line.blocks) * self._pool.size
                self.reused += line.computed
            count = min(line.pending, room)
            count = min(count, self._room(line, line.computed + count, {other for other, _ in found}))
            if count < 1:
                continue
            begin, end = line.computed, line.computed + count
            part = Part(line.tokens[begin:end], begin, [*line.blocks], end == len(line.tokens))
            line.computed = end
            # What is appended in a call is seen in the same call.
            if end // self._pool.size > begin // self._pool.size:
                self._pool.fill(line.blocks, line.tokens[:end])
            found.append((line, part))
            room -= count
        return found

    def _room(self, line: Line, end: int, called: set[Line]) -> int:
        """How many tokens behind those that are computed there is room for, up to `end`."""
        while len(line.blocks) * self._pool.size < end:
            block = self._pool.take()
            while block is None and (victim := next(self._later(line, called), None)) is not None:
                self._drop(victim)
                block = self._pool.take()
            if block is None:
                break
            line.blocks.append(block)
        return min(end, len(line.blocks) * self._pool.size) - line.computed

    def _later(self, line: Line, called: set[Line]) -> Iterator[Line]:
        """Texts behind one that have blocks and are not in the call, the last first."""
        behind: Sequence[Line] = self._lines[self._lines.index(line) + 1 :]
        return (other for other in reversed(behind) if other.blocks and other not in called)

    def _drop(self, line: Line) -> None:
        self._pool.release(line.blocks)
        line.blocks, line.computed = [], 0
