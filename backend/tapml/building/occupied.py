"""Which bytes of the arenas are held at some nodes, by whatever is needed there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Protocol, TypeAlias

import numpy as np

Span: TypeAlias = tuple[int, int, int]
"""An arena, and the bytes of it from a begin up to an end."""

_OFFSET_BITS = 56
_OFFSET = (1 << _OFFSET_BITS) - 1
"""An address is an arena's number and, in this many bits, an offset in it, so that spans of all arenas sort as one."""


class Held(Protocol):
    def hold(self, first: int, last: int, arena: int, begin: int, end: int) -> None:
        """Bytes `begin` up to `end` of an arena, from node `first` to node `last`."""

    def at(self, first: int, last: int) -> list[Span]:
        """What is held at any node from `first` to `last`, by arena and begin. Spans may overlap, and those that touch
        may be one."""


class Occupied:
    """For many questions: a segment tree over `nodes` nodes. Each of its ranges of nodes has a union of what is held
    throughout it and one of what is held somewhere in it, so that buffers that lie side by side are looked at as one.
    """

    def __init__(self, nodes: int) -> None:
        self._leaves = 1 << (nodes - 1).bit_length()
        self._throughout: dict[int, list[int]] = {}
        self._somewhere: dict[int, list[int]] = {}

    def hold(self, first: int, last: int, arena: int, begin: int, end: int) -> None:
        base = arena << _OFFSET_BITS
        for place in self._ranges(first, last):
            _add(self._throughout.setdefault(place, []), base + begin, base + end)
            # What a range has, all that it is part of have, too.
            while place and _add(self._somewhere.setdefault(place, []), base + begin, base + end):
                place >>= 1

    def at(self, first: int, last: int) -> list[Span]:
        found: set[tuple[int, int]] = set()
        for place in self._ranges(first, last):
            if spans := self._somewhere.get(place):
                found.update(zip(spans[::2], spans[1::2], strict=True))
        for leaf in {first + self._leaves, last + self._leaves}:
            place = leaf >> 1
            while place:
                if spans := self._throughout.get(place):
                    found.update(zip(spans[::2], spans[1::2], strict=True))
                place >>= 1
        return _spans(sorted(found))

    def _ranges(self, first: int, last: int) -> Iterator[int]:
        """The fewest that are these nodes together. The tree's root is 1, and the halves of n are 2n and 2n + 1."""
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low >>= 1
            high >>= 1


class Scanned:
    """For few questions about up to `most` buffers: holding one costs next to nothing, and each question looks at all
    of them."""

    def __init__(self, most: int) -> None:
        self._count = 0
        self._nodes = np.empty((2, most), np.int64)
        self._addresses = np.empty((2, most), np.int64)

    def hold(self, first: int, last: int, arena: int, begin: int, end: int) -> None:
        base = arena << _OFFSET_BITS
        self._nodes[:, self._count] = first, last
        self._addresses[:, self._count] = base + begin, base + end
        self._count += 1

    def at(self, first: int, last: int) -> list[Span]:
        firsts, lasts = self._nodes[:, : self._count]
        begins, ends = self._addresses[:, np.flatnonzero((firsts <= last) & (lasts >= first))]
        return _spans(sorted(zip(begins.tolist(), ends.tolist(), strict=True)))


def _spans(addresses: list[tuple[int, int]]) -> list[Span]:
    return [(begin >> _OFFSET_BITS, begin & _OFFSET, end & _OFFSET) for begin, end in addresses]


def _add(spans: list[int], begin: int, end: int) -> bool:
    """To a union of spans (begin, end, begin, end...). False where it had all of it."""
    inside = bisect_right(spans, begin)
    if inside & 1 and end <= spans[inside]:
        return False
    low, high = bisect_left(spans, begin), bisect_right(spans, end)
    spans[low:high] = [begin] * (not low & 1) + [end] * (not high & 1)
    return True
