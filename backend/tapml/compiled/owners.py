"""Whose bytes they are: which tensors hold what was written into them, at a point of a host program.

Tensors that share bytes overwrite each other; a view is its tensor (`root`). What holds is disjoint at all times.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """The most bytes that a tensor has: `begin` up to `end` of a buffer. `root`: the tensor that its views show."""

    buffer: tuple[str, int]
    begin: int
    end: int
    root: int


class Owners:
    """What holds. A copy of it goes its own way."""

    def __init__(self, buffers: dict[tuple[str, int], list[Region]] | None = None) -> None:
        self._buffers = {buffer: [*found] for buffer, found in (buffers or {}).items()}
        self._roots = {region.root for found in self._buffers.values() for region in found}

    def holds(self, region: Region) -> bool:
        return region.root in self._roots

    def write(self, region: Region) -> None:
        """It holds what was written, and nothing else in its bytes holds any more."""
        at = self.destroy(region)
        self._buffers[region.buffer].insert(at, region)
        self._roots.add(region.root)

    def destroy(self, region: Region) -> int:
        """Nothing in its bytes holds any more. Gives the place among the buffer's regions that it would have."""
        found = self._buffers.setdefault(region.buffer, [])
        last = first = bisect_left(found, region.begin, key=lambda other: other.end - 1)
        while last < len(found) and found[last].begin < region.end:
            self._roots.remove(found[last].root)
            last += 1
        del found[first:last]
        return first

    def copy(self) -> Owners:
        return Owners(self._buffers)

    def keep(self, other: Owners) -> None:
        """Only what holds in both."""
        self._roots &= other._roots
        self._buffers = {
            buffer: [region for region in found if region.root in self._roots]
            for buffer, found in self._buffers.items()
        }

    def take(self, other: Owners) -> None:
        """What holds in the other, and nothing else."""
        self._buffers, self._roots = other._buffers, other._roots
