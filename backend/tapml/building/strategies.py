"""Strategies that place buffers in arenas, after Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference" (arXiv:2001.03288), with several arenas in place of one.

All are deterministic, and simple enough to be run where a page loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tapml.building.buffers import Buffer, Name
from tapml.building.occupied import Held, Occupied, Scanned
from tapml.building.plan import Placement
from tapml.compiled.model import aligned


@dataclass(frozen=True)
class _Run:
    """What an order gave."""

    order: Sequence[Buffer]
    placed: dict[Name, Placement]
    offsets: dict[Name, dict[int, int]]
    """Where each buffer was best placed in each of the arenas that hold something at its nodes."""
    bytes: int


def with_offsets(order: Sequence[Buffer], most: int) -> dict[Name, Placement]:
    """Each buffer, in this order, where the arenas grow least. An arena exceeds `most` bytes where one buffer does."""
    return _run(order, most).placed


def _run(order: Sequence[Buffer], most: int) -> _Run:
    placing = _Placing(order, most, Occupied(_nodes(order)))
    for buffer in order:
        placing.place(buffer, placing.offsets_of(buffer))
    return placing.run()


def _run_again(former: _Run, place: int, to: int, most: int) -> _Run | None:
    """The former order with the buffer at `place` earlier, at `to`, or none where that takes no fewer bytes.

    Only what is needed at a node where something else differs is placed anew: for all others the best offsets are the
    same as before.
    """
    moved = former.order[place]
    order = [*former.order[:to], moved, *former.order[to:place], *former.order[place + 1 :]]
    placing = _Placing(order, most, Scanned(len(order)))
    elsewhere: list[Buffer] = []
    differs = bytearray(_nodes(order))
    for turn, buffer in enumerate(order):
        again = turn != to and differs.find(1, buffer.first, buffer.last + 1) < 0
        placed = placing.place(buffer, former.offsets[buffer.name] if again else placing.offsets_of(buffer))
        if placing.bytes >= former.bytes:
            return None
        if placed != former.placed[buffer.name]:
            elsewhere.append(buffer)
            _mark(differs, buffer)
        elif turn == to:
            # It was not there yet.
            _mark(differs, buffer)
        if turn == place:
            # From here on the same buffers have been placed as before.
            if not elsewhere:
                return None
            differs = bytearray(len(differs))
            for found in elsewhere:
                _mark(differs, found)
    return placing.run()


def _mark(nodes: bytearray, buffer: Buffer) -> None:
    nodes[buffer.first : buffer.last + 1] = b"\1" * (buffer.last + 1 - buffer.first)


class _Placing:
    def __init__(self, order: Sequence[Buffer], most: int, held: Held) -> None:
        self.bytes = 0
        self._order = order
        self._most = most
        self._held = held
        self._sizes: list[int] = []
        self._placed: dict[Name, Placement] = {}
        self._offsets: dict[Name, dict[int, int]] = {}

    def run(self) -> _Run:
        return _Run(self._order, self._placed, self._offsets, self.bytes)

    def offsets_of(self, buffer: Buffer) -> dict[int, int]:
        return _best_offsets(self._held.at(buffer.first, buffer.last), buffer.bytes)

    def place(self, buffer: Buffer, offsets: dict[int, int]) -> Placement:
        """Where the arenas grow least, of these offsets; 0 in an arena that has none."""
        closed = {self._placed[name].arena for name in buffer.apart if name in self._placed}
        best: tuple[int, int, int] | None = None
        for number, size in enumerate(self._sizes):
            offset = offsets.get(number, 0)
            grown = max(0, offset + buffer.bytes - size)
            if number in closed or (grown and size + grown > self._most):
                continue
            if best is None or grown < best[0]:
                best = grown, number, offset
            if not grown:
                break
        if best is None:
            best = buffer.bytes, len(self._sizes), 0
            self._sizes.append(0)
        grown, number, offset = best
        placed = Placement(number, offset, buffer.bytes)
        self._sizes[number] += grown
        self.bytes += grown
        self._held.hold(buffer.first, buffer.last, number, offset, aligned(placed.end))
        self._placed[buffer.name] = placed
        self._offsets[buffer.name] = offsets
        return placed


def _nodes(buffers: Sequence[Buffer]) -> int:
    return 1 + max((buffer.last for buffer in buffers), default=0)


def _best_offsets(held: Sequence[tuple[int, int, int]], size: int) -> dict[int, int]:
    """Of each arena of which something is held, where `size` bytes waste least: the smallest gap that they fit into,
    or behind what is held."""
    ends: dict[int, int] = {}
    gaps: dict[int, tuple[int, int]] = {}
    for arena, begin, end in held:
        free = ends.get(arena, 0)
        if begin - free >= size:
            gaps[arena] = min(gaps.get(arena, (begin - free, free)), (begin - free, free))
        ends[arena] = max(free, end)
    return {**ends, **{arena: free for arena, (_, free) in gaps.items()}}


def shared_objects(order: Sequence[Buffer], most: int) -> dict[Name, Placement]:
    """Each buffer whole in the smallest arena that is free and large enough, as TVM's static plan has storages: what a
    node needs is in different arenas."""
    occupied = Occupied(_nodes(order))
    sizes: list[int] = []
    found: dict[Name, Placement] = {}
    for buffer in order:
        held = {arena for arena, _, _ in occupied.at(buffer.first, buffer.last)}
        free = [(size, n) for n, size in enumerate(sizes) if size >= buffer.bytes and n not in held]
        if not free:
            sizes.append(buffer.bytes)
        number = min(free)[1] if free else len(sizes) - 1
        occupied.hold(buffer.first, buffer.last, number, 0, 1)
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
        for buffer in _by_size([buffer for buffer in live[position] if buffer.name not in order]):
            order[buffer.name] = buffer
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
    best = min((_run(order(buffers), most) for order in _ORDERS.values()), key=lambda found: found.bytes)
    tries = 0
    while best.bytes > least:
        for place, to in _earlier(best):
            found = _run_again(best, place, to, most)
            tries += 1
            if found is not None:
                best = found
                break
            if tries == _MOST_TRIES:
                return best.placed
        else:
            break
    return best.placed


def _earlier(found: _Run) -> Iterator[tuple[int, int]]:
    """From where to where in the order one of the buffers that end highest is moved, the largest steps first."""
    tops = ends(found.placed)
    for place, buffer in enumerate(found.order):
        placed = found.placed[buffer.name]
        if placed.end == tops[placed.arena]:
            yield from ((place, to) for to in dict.fromkeys((0, place // 4, place // 2)) if to < place)


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
