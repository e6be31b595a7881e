"""Which blocks of a model's states texts have (docs/generation.md). The twin of runner_js/src/generation/blocks.ts.

A block that is full is known by what stands in it and before it: a text that begins alike has it, too, and computes
nothing of it. One that no text has any more is kept until another needs its place, the least recently used one first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_ROOT = 0


class Pool:
    """`count` blocks of `size` places."""

    def __init__(self, count: int, size: int) -> None:
        self.size = size
        self._free = list(range(count - 1, -1, -1))
        self._users: Counter[int] = Counter()
        self._idle: dict[int, None] = {}
        """Blocks that are known and that no text has, in the order of their last use."""
        self._nodes: dict[tuple[int, tuple[int, ...]], int] = {}
        """By the node before it and its tokens that of a full block. No node has the number of another, ever."""
        self._known: dict[int, tuple[tuple[int, tuple[int, ...]], int]] = {}
        """By block its key and its node."""
        self._blocks: dict[int, int] = {}
        """By node."""
        self._last = _ROOT

    def shared(self, tokens: Sequence[int]) -> list[int]:
        """The blocks that are known of the beginning of a text, which has them from now on."""
        node, found = _ROOT, []
        for end in range(self.size, len(tokens) + 1, self.size):
            following = self._nodes.get((node, tuple(tokens[end - self.size : end])))
            if following is None:
                break
            node = following
            block = self._blocks[node]
            self._idle.pop(block, None)
            self._users[block] += 1
            found.append(block)
        return found

    def take(self) -> int | None:
        """A block for a text, with nothing in it; None where texts have all."""
        if self._free:
            block = self._free.pop()
        elif self._idle:
            block = next(iter(self._idle))
            del self._idle[block]
            self._forget(block)
        else:
            return None
        self._users[block] = 1
        return block

    def fill(self, blocks: Sequence[int], tokens: Sequence[int]) -> None:
        """The blocks of a text, of which as many are full as `tokens` fill: they are known from now on."""
        node = _ROOT
        for place in range(len(tokens) // self.size):
            key = node, tuple(tokens[place * self.size : (place + 1) * self.size])
            following = self._nodes.get(key)
            if following is None:
                if blocks[place] in self._known:  # of the same tokens, behind a block that was forgotten
                    self._forget(blocks[place])
                self._last = following = self._last + 1
                self._nodes[key] = following
                self._known[blocks[place]] = key, following
                self._blocks[following] = blocks[place]
            node = following

    def release(self, blocks: Sequence[int]) -> None:
        """A text has them no more. The last ones are the first to be forgotten: without them the others are of use."""
        for block in reversed(blocks):
            self._users[block] -= 1
            if self._users[block]:
                continue
            if block in self._known:
                self._idle[block] = None
            else:
                self._free.append(block)

    def _forget(self, block: int) -> None:
        key, node = self._known.pop(block)
        del self._nodes[key], self._blocks[node]
