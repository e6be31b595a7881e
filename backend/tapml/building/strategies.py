"""Strategies that place buffers in arenas, after Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference" (arXiv:2001.03288), with several arenas in place of one.

All are deterministic, and simple enough to be run where a page loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tapml.building.buffers import Buffer, Name
from tapml.building.plan import Placement
from tapml.compiled.model import aligned


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
            end = max(end, aligned(offset + other.bytes))
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

_ORDERS: Mapping[str, Callable[[Sequence[Buffer]], Sequence[Buffer]]] = {
    "greedy by size": _by_size,
    "greedy by breadth": _by_breadth,
    "greedy by order": list,
    "greedy by length": _by_length,
    "greedy by area": _by_area,
}

_MOST_TRIES = 100


def refined(buffers: Sequence[Buffer], most: int) -> _Placed:
    """The best of the greedy orders, changed as long as that helps: what ends highest in an arena is placed earlier."""
    least = max((sum(buffer.bytes for buffer in live) for live in live_at(buffers).values()), default=0)
    orders = [list(order(buffers)) for order in _ORDERS.values()]
    best, order = min(((with_offsets(order, most), order) for order in orders), key=lambda found: total(found[0]))
    tries = 0
    while (change := _earlier(order, best)) and total(best) > least:
        for changed in change:
            found = with_offsets(changed, most)
            tries += 1
            if total(found) < total(best):
                best, order = found, changed
                break
            if tries == _MOST_TRIES:
                return best
        else:
            return best
    return best


def _earlier(order: Sequence[Buffer], placed: _Placed) -> list[list[Buffer]]:
    """The order with one of the buffers that end highest nearer to its begin, the largest steps first."""
    tops = ends(placed)
    found = []
    for place, buffer in enumerate(order):
        if placed[buffer.name].end == tops[placed[buffer.name].arena]:
            rest = [*order[:place], *order[place + 1 :]]
            found += [
                [*rest[:to], buffer, *rest[to:]] for to in dict.fromkeys((0, place // 4, place // 2)) if to < place
            ]
    return found


def ends(placed: _Placed) -> dict[int, int]:
    """Bytes of each arena."""
    found: dict[int, int] = {}
    for place in placed.values():
        found[place.arena] = max(found.get(place.arena, 0), place.end)
    return found


def total(placed: _Placed) -> int:
    return sum(ends(placed).values())


def _greedy(order: Callable[[Sequence[Buffer]], Sequence[Buffer]]) -> Callable[[Sequence[Buffer], int], _Placed]:
    return lambda buffers, most: with_offsets(order(buffers), most)


STRATEGIES: Mapping[str, Callable[[Sequence[Buffer], int], _Placed]] = {
    **{name: _greedy(order) for name, order in _ORDERS.items()},
    "shared objects": lambda buffers, most: shared_objects(_by_size(buffers), most),
    "refined": refined,
}
"""Of several that need the same bytes the first is kept."""
