"""Which calls run only where a number says so.

Kernels that give one of two tensors by a number are choices, and what is needed for one of the two alone is a side of a
branch. To compute both gives the same: a program has no effects but what it gives.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tapml.program.graph import Calls, Node, NodeKind, shown_by


@dataclass(eq=False)
class Choice:
    """Calls that choose by one number (a value), none of which needs another: they are made, or not, together."""

    number: str
    nodes: list[Node] = field(default_factory=list)
    bits: int = 0
    """Which of all calls that choose they are."""


Item: TypeAlias = Node | Choice

Side: TypeAlias = tuple[Choice, int]
"""0: where the choice's number is not 0; 1: where it is."""

Sides: TypeAlias = tuple[Side, ...]
"""From the outermost."""


def branched(calls: Calls[Any], choosing: Collection[str]) -> list[tuple[Item, Sides]]:
    """All calls, each behind what it needs and otherwise in their order, with the sides that are all that need them.

    `choosing`: kernels that give all of their second input where the first, a number, is not 0, else the third."""
    choices = _choices(calls, choosing)
    if not choices:
        return [(node, ()) for node in calls.nodes]
    order = _ordered(calls.nodes, choices)
    return list(zip(order, _sides(order, calls.outputs), strict=True))


def nodes_of(item: Item) -> Sequence[Node]:
    return (item,) if isinstance(item, Node) else item.nodes


def _choices(calls: Calls[Any], choosing: Collection[str]) -> list[Choice]:
    """In order: calls between which no other call chooses by another number."""
    shown = shown_by(calls)
    needed: dict[str, int] = {}
    found: list[Choice] = []
    last, next_bit = "", 1
    for node in calls.nodes:
        bits = 0
        for value in node.inputs:
            bits |= needed.get(value, 0)
        if _chooses(calls, node, choosing):
            if not found or shown[node.inputs[0]] != last or found[-1].bits & bits:
                found.append(Choice(node.inputs[0]))
                last = shown[node.inputs[0]]
            found[-1].nodes.append(node)
            found[-1].bits |= next_bit
            bits |= next_bit
            next_bit <<= 1
        needed.update((value, bits) for value in node.outputs)
    return found


def _chooses(calls: Calls[Any], node: Node, choosing: Collection[str]) -> bool:
    if node.kind is not NodeKind.KERNEL or node.kernel not in choosing:
        return False
    number, a, b, result = (calls.values[value].type for value in (*node.inputs, *node.outputs))
    return number.encoding is None and a == b == result


def _ordered(nodes: Sequence[Node], choices: Sequence[Choice]) -> list[Item]:
    chosen: dict[str, Item] = {node.id: choice for choice in choices for node in choice.nodes}
    items = list(dict.fromkeys(chosen.get(node.id, node) for node in nodes))
    place = {item: number for number, item in enumerate(items)}
    maker = {value: place[item] for item in items for node in nodes_of(item) for value in node.outputs}
    needs = [{maker[v] for node in nodes_of(item) for v in node.inputs if v in maker} for item in items]
    readers: list[list[int]] = [[] for _ in items]
    for number, needed in enumerate(needs):
        for found in needed:
            readers[found].append(number)
    ready = [number for number, needed in enumerate(needs) if not needed]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(items[number])
        for reader in readers[number]:
            needs[reader].discard(number)
            if not needs[reader]:
                heapq.heappush(ready, reader)
    return order


def _sides(order: Sequence[Item], outputs: Sequence[str]) -> list[Sides]:
    needed: dict[str, Sides] = dict.fromkeys(outputs, ())
    found: list[Sides] = []
    for item in reversed(order):
        by = [needed[value] for node in nodes_of(item) for value in node.outputs if value in needed]
        own = by[0] if by else ()
        for other in by[1:]:
            own = _common(own, other)
        found.append(own)
        for node in nodes_of(item):
            for number, value in enumerate(node.inputs):
                side = (*own, (item, number - 1)) if isinstance(item, Choice) and number else own
                needed[value] = _common(needed.get(value, side), side)
    return found[::-1]


def _common(a: Sides, b: Sides) -> Sides:
    count = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:count]
