"""What calls of a batch are of: each token where its text lies, whoever came and went before."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tapml.generation.batch import Batch, Line
from tapml.generation.blocks import Pool
from tapml.program.generation import Blocks, Part

SIZE = 4


class States:
    """What blocks hold, as calls leave it."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], int] = {}
        self.calls = 0
        self.computed = 0

    def call(self, planned: Sequence[tuple[Line, Part]], chunk: int) -> None:
        """All tokens are put into their places, and then each sees those of its text."""
        self.calls += 1
        assert 0 < sum(len(part.tokens) for _, part in planned) <= chunk
        written = []
        for _, part in planned:
            for at, token in enumerate(part.tokens, part.position):
                written.append((part.blocks[at // SIZE], at % SIZE))
                self.held[written[-1]] = token
        assert len(set(written)) == len(written), "two tokens of a call are put into one place"
        self.computed += len(written)
        for line, part in planned:
            end = part.position + len(part.tokens)
            assert [self.held[part.blocks[at // SIZE], at % SIZE] for at in range(end)] == line.tokens[:end]
            assert part.wanted == (end == len(line.tokens))


def write(batch: Batch, lines: dict[Line, int], chunk: int, states: States) -> None:
    """To lengths. What follows is told by the text, so that texts that begin alike go on alike."""
    while lines:
        planned = batch.plan()
        states.call(planned, chunk)
        for line, part in planned:
            if part.wanted:
                line.tokens.append(hash(tuple(line.tokens)) % 5)
                if len(line.tokens) >= lines[line]:
                    batch.end(line)
                    del lines[line]


@pytest.mark.parametrize("count", [4, 7, 40])
@pytest.mark.parametrize("seed", range(12))
def test_texts_of_many_lengths_are_where_their_calls_say(seed: int, count: int) -> None:
    """With room for one of the longest, where others lose theirs, and with room for all."""
    draw = random.Random(seed)
    chunk, states = draw.choice([2, 3, 8]), States()
    batch = Batch(Blocks(input="blocks", size=SIZE, count=count), chunk)
    for _ in range(2):
        made = [Line(number, [draw.randrange(2) for _ in range(draw.randrange(1, 13))]) for number in range(5)]
        for line in made:
            batch.add(line)
        write(batch, {line: min(len(line.tokens) + draw.randrange(1, 9), 4 * SIZE + 1) for line in made}, chunk, states)


def test_a_beginning_that_texts_share_is_computed_once() -> None:
    """Also in one call, and for a text that comes when the others are over; its last token is computed again."""
    states, batch = States(), Batch(Blocks(input="blocks", size=SIZE, count=40), 32)
    shared = [7, 8, 9, 10, 11, 12, 13, 14]
    first = [Line(0, [*shared, 1]), Line(1, [*shared, 2]), Line(2, [*shared])]
    for line in first:
        batch.add(line)
    states.call(planned := batch.plan(), 32)
    assert [len(part.tokens) for _, part in planned] == [9, 1, 4]
    assert batch.reused == 8 + 4
    for line in first:
        batch.end(line)
    batch.add(Line(3, [*shared, 3]))
    states.call(planned := batch.plan(), 32)
    assert [(part.position, len(part.tokens)) for _, part in planned] == [(8, 1)]


def test_a_token_of_each_text_comes_before_prompts() -> None:
    batch = Batch(Blocks(input="blocks", size=SIZE, count=40), 6)
    lines = [Line(0, [1] * 20), Line(1, [2]), Line(2, [3, 3, 3])]
    for line in lines:
        batch.add(line)
    planned = batch.plan()
    assert [(line.number, len(part.tokens), part.wanted) for line, part in planned] == [(1, 1, True), (0, 5, False)]


def test_blocks_are_forgotten_from_the_end_of_what_was_used_least_recently() -> None:
    pool = Pool(4, 2)
    taken = [block for _ in range(5) if (block := pool.take()) is not None]
    old, new = taken[:2], taken[2:]
    assert len(new) == 2
    pool.fill(old, [1, 2, 3, 4])
    pool.fill(new, [5, 6, 7, 8])
    pool.release(old)
    pool.release(new)
    assert pool.take() == old[1]
    assert pool.shared([1, 2, 3, 4]) == old[:1]
    assert pool.shared([5, 6, 7, 8]) == new
    assert pool.take() is None
