"""A model's weights as a page loads them: a few buffers, cut into shards that a browser keeps by their digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tapml.building.plan import padded
from tapml.compiled.model import aligned
from tapml.compiled.stored import TYPES, Stored, narrowed
from tapml.files import sha256

MOST_BUFFER_BYTES = 2**27
"""Of a buffer, unless for one weight that has more: the default maxStorageBufferBindingSize of WebGPU."""

SHARD_BYTES = 2**24
"""Of a shard at most: several load at once, and a browser keeps each."""


_AS_THEY_ARE: Mapping[str, Stored] = MappingProxyType({})
_ORDER: dict[Stored | None, int] = {kind: place for place, kind in enumerate((*TYPES, None))}


class Place(NamedTuple):
    """Where a weight's bytes begin."""

    buffer: int
    offset: int
    """A multiple of ALIGNMENT (compiled/model.py)."""


class Shard(NamedTuple):
    """A range of a buffer. The shards of a buffer follow each other without a gap."""

    sha256: str
    bytes: int
    """Of its file."""
    buffer: int
    offset: int
    stored: Stored | None

    def to_json(self) -> dict[str, str | int | None]:
        return self._asdict()


@dataclass(frozen=True)
class Weights:
    """`buffers`: bytes of each. Equal weights lie in one place."""

    buffers: tuple[int, ...]
    places: Mapping[str, Place]
    """By the digest of a weight's bytes."""
    sizes: Mapping[str, int]
    """By the same, bytes of each."""
    stored: Mapping[str, Stored]
    """By the same, how those lie in shards that 16 bits hold."""

    def shards(self, read: Callable[[str], Iterator[bytes]]) -> Iterator[tuple[Shard, bytes]]:
        """Each with what is in it, in order. `read` gives the bytes of a digest, piece by piece."""
        for number, size in enumerate(self.buffers):
            for stored, begin, end, digests in self._runs(number, size):
                content = bytearray()
                for piece in self._pieces(begin, end, digests, read):
                    content += piece
                    while len(content) >= SHARD_BYTES:
                        yield _shard(bytes(content[:SHARD_BYTES]), number, begin, stored)
                        begin += SHARD_BYTES
                        del content[:SHARD_BYTES]
                if content:
                    yield _shard(bytes(content), number, begin, stored)

    def _runs(self, buffer: int, size: int) -> Iterator[tuple[Stored | None, int, int, list[str]]]:
        """Of a buffer, parts whose weights are stored alike: how, where they begin and end, and the weights."""
        inside = sorted((place.offset, digest) for digest, place in self.places.items() if place.buffer == buffer)
        runs = [
            (stored, [digest for _, digest in found])
            for stored, found in groupby(inside, lambda pair: self.stored.get(pair[1]))
        ]
        begins = [self.places[digests[0]].offset for _, digests in runs]
        for (stored, digests), begin, end in zip(runs, begins, [*begins[1:], size], strict=True):
            yield stored, begin, end, digests

    def _pieces(
        self, begin: int, end: int, digests: Iterable[str], read: Callable[[str], Iterator[bytes]]
    ) -> Iterator[bytes]:
        """The bytes of a part of a buffer; what no weight has is 0."""
        for digest in digests:
            offset = self.places[digest].offset
            yield bytes(offset - begin)
            yield from read(digest)
            begin = offset + self.sizes[digest]
        yield bytes(end - begin)


def laid_out(
    weights: Iterable[tuple[str, int]], most: int = MOST_BUFFER_BYTES, stored: Mapping[str, Stored] = _AS_THEY_ARE
) -> Weights:
    """Place weights, given as digest and bytes, in their order, but for those that are `stored` in 16 bits, by digest,
    which come first; a digest that comes again has its place already."""
    weights = sorted(weights, key=lambda found: _ORDER[stored.get(found[0])])
    buffers: list[int] = []
    places: dict[str, Place] = {}
    sizes: dict[str, int] = {}
    for digest, count in weights:
        if digest in places:
            continue
        offset = aligned(buffers[-1]) if buffers else most + 1
        if offset + padded(count) > most:
            buffers.append(0)
            offset = 0
        places[digest], sizes[digest] = Place(len(buffers) - 1, offset), count
        # Halves of a word are words, too.
        buffers[-1] = offset + (padded(count) if stored.get(digest) is None else -(-count // 8) * 8)
    return Weights(tuple(buffers), places, sizes, stored)


def _shard(content: bytes, buffer: int, offset: int, stored: Stored | None) -> tuple[Shard, bytes]:
    if stored is not None:
        content = narrowed(np.frombuffer(content, np.uint8), stored).tobytes()
    return Shard(sha256(content), len(content), buffer, offset, stored), content
