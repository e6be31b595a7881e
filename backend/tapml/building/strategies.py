"""Strategies that place buffers in arenas, after Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference" (arXiv:2001.03288), with several arenas in place of one.

All are deterministic, and simple enough to be run where a page loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tapml.building.buffers import Buffer, Name
from tapml.building.plan import ALIGNMENT, Placement


@dataclass
class _Arena:
    bytes: int = 0
    held: list[tuple[Buffer, int]] = field(default_factory=list)
    """By offset."""
    names: set[Name] = field(default_factory=set)

    def best_offset(self, buffer: Buffer) -> int:
        """Where it wastes least: the smallest gap that it fits into between those it meets, or behind them all."""
        end, best, least = 0, -1, 0
        for other, offset in self.held:
            if not other.meets(buffer):
                continue
            gap = offset - end
            if gap >= buffer.bytes and (best < 0 or gap < least):
                best, least = end, gap
            end = max(end, -(-(offset + other.bytes) // ALIGNMENT) * ALIGNMENT)
        return end if best < 0 else best

    def hold(self, buffer: Buffer, offset: int) -> None:
        self.held.append((buffer, offset))
        self.held.sort(key=lambda found: found[1])
        self.names.add(buffer.name)
        self.bytes = max(self.bytes, offset + buffer.bytes)


def with_offsets(order: Sequence[Buffer], most: int) -> dict[Name, Placement]:
    """Each buffer, in this order, where the arenas grow least. An arena exceeds `most` bytes where one buffer does."""
    arenas: list[_Arena] = []
    found: dict[Name, Placement] = {}
    for buffer in order:
        best: tuple[int, int, int] | None = None
        for number, arena in enumerate(arenas):
            if buffer.apart & arena.names:
                continue
            offset = arena.best_offset(buffer)
            end = offset + buffer.bytes
            if end <= max(arena.bytes, most):
                best = min(best or (end, number, offset), (max(0, end - arena.bytes), number, offset))
        if best is None:
            arenas.append(_Arena())
            best = buffer.bytes, len(arenas) - 1, 0
        _, number, offset = best
        arenas[number].hold(buffer, offset)
        found[buffer.name] = Placement(number, offset, buffer.bytes)
    return found


def shared_objects(order: Sequence[Buffer], most: int) -> dict[Name, Placement]:
    """Each buffer whole in the smallest arena that is free and large enough, as TVM's static plan has storages: what a
    node needs is in different arenas."""
    arenas: list[_Arena] = []
    found: dict[Name, Placement] = {}
    for buffer in order:
        free = [
            (arena.bytes, number)
            for number, arena in enumerate(arenas)
            if arena.bytes >= buffer.bytes and not any(other.meets(buffer) for other, _ in arena.held)
        ]
        if not free:
            arenas.append(_Arena())
        number = min(free)[1] if free else len(arenas) - 1
        arenas[number].hold(buffer, 0)
        found[buffer.name] = Placement(number, 0, buffer.bytes)
    return found


def _by_size(buffers: Sequence[Buffer]) -> list[Buffer]:
    return sorted(buffers, key=lambda found: (-found.bytes, found.first))


def _by_length(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Those that live longest first."""
    return sorted(buffers, key=lambda found: (found.first - found.last, -found.bytes))


def _by_area(buffers: Sequence[Buffer]) -> list[Buffer]:
    return sorted(buffers, key=lambda found: (-found.bytes * (1 + found.last - found.first), found.first))


def _by_breadth(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Node by node, those that need most bytes first; of each node the largest first."""
    order: dict[Name, Buffer] = {}
    live = live_at(buffers)
    for position in sorted(live, key=lambda found: (-sum(b.bytes for b in live[found]), found)):
        for buffer in _by_size(live[position]):
            order.setdefault(buffer.name, buffer)
    return list(order.values())


def live_at(buffers: Sequence[Buffer]) -> Mapping[int, list[Buffer]]:
    """What is needed at each node that needs any."""
    found: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        for position in range(buffer.first, buffer.last + 1):
            found.setdefault(position, []).append(buffer)
    return found


_Placed = Mapping[Name, Placement]

STRATEGIES: Mapping[str, Callable[[Sequence[Buffer], int], _Placed]] = {
    "greedy by size": lambda buffers, most: with_offsets(_by_size(buffers), most),
    "greedy by breadth": lambda buffers, most: with_offsets(_by_breadth(buffers), most),
    "greedy by order": lambda buffers, most: with_offsets(list(buffers), most),
    "greedy by length": lambda buffers, most: with_offsets(_by_length(buffers), most),
    "greedy by area": lambda buffers, most: with_offsets(_by_area(buffers), most),
    "shared objects": lambda buffers, most: shared_objects(_by_size(buffers), most),
}
"""Of several that need the same bytes the first is kept."""
