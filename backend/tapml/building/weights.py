"""A model's weights as a page loads them: a few buffers, cut into shards that a browser keeps by their digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tapml.building.plan import padded
from tapml.compiled.model import aligned
from tapml.files import sha256

MOST_BUFFER_BYTES = 2**27
"""Of a buffer, unless for one weight that has more: the default maxStorageBufferBindingSize of WebGPU."""

SHARD_BYTES = 2**24
"""Of a shard at most: several load at once, and a browser keeps each."""


class Place(NamedTuple):
    """Where a weight's bytes begin."""

    buffer: int
    offset: int
    """A multiple of ALIGNMENT (compiled/model.py)."""


class Shard(NamedTuple):
    """A range of a buffer. The shards of a buffer follow each other without a gap."""

    sha256: str
    bytes: int
    buffer: int
    offset: int

    def to_json(self) -> dict[str, str | int]:
        return self._asdict()


@dataclass(frozen=True)
class Weights:
    """`buffers`: bytes of each. Equal weights lie in one place."""

    buffers: tuple[int, ...]
    places: Mapping[str, Place]
    """By the digest of a weight's bytes."""
    sizes: Mapping[str, int]
    """By the same, bytes of each."""

    def shards(self, read: Callable[[str], Iterator[bytes]]) -> Iterator[tuple[Shard, bytes]]:
        """Each with what is in it, in order. `read` gives the bytes of a digest, piece by piece."""
        for number, size in enumerate(self.buffers):
            begin = 0
            content = bytearray()
            for piece in self._pieces(number, size, read):
                content += piece
                while len(content) >= SHARD_BYTES:
                    yield _shard(bytes(content[:SHARD_BYTES]), number, begin)
                    begin += SHARD_BYTES
                    del content[:SHARD_BYTES]
            if content:
                yield _shard(bytes(content), number, begin)

    def _pieces(self, buffer: int, size: int, read: Callable[[str], Iterator[bytes]]) -> Iterator[bytes]:
        """A buffer's bytes; what no weight has is 0."""
        end = 0
        inside = [(place.offset, digest) for digest, place in self.places.items() if place.buffer == buffer]
        for offset, digest in sorted(inside):
            yield bytes(offset - end)
            yield from read(digest)
            end = offset + self.sizes[digest]
        yield bytes(size - end)


def laid_out(weights: Iterable[tuple[str, int]], most: int = MOST_BUFFER_BYTES) -> Weights:
    """Place weights, given as digest and bytes, in their order; a digest that comes again has its place already."""
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
        buffers[-1] = offset + padded(count)
    return Weights(tuple(buffers), places, sizes)


def _shard(content: bytes, buffer: int, offset: int) -> tuple[Shard, bytes]:
    return Shard(sha256(content), len(content), buffer, offset), content
