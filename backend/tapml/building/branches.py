"""Branches of a function's host program.

A branch (program/branches.py) reads its number on the host, and each side ends by writing what is chosen. Its nodes
stand one after the other, those of one side before those of the other: a memory plan for this order holds for either
way through it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tapml.building.moves import Moves
from tapml.files import unique
from tapml.program import Node, NodeKind
from tapml.program.branches import Choice, Side, Sides, branched
from tapml.program.graph import shown_by
from tapml.program.program import Function

READ_DOCUMENT: Mapping[str, Any] = {"kernel": "read", "variants": []}
"""As much of a kernel's document as a memory plan reads."""

_DEEPEST = 12
_MOST_BRANCHES = 400
"""Fewer than a compiled model may have blocks, and less deep; what is further inside is chosen on the device."""


@dataclass(frozen=True)
class Branch:
    """`number`: the value by which `then` runs, or where it is 0 `otherwise`."""

    number: str
    then: Sequence[Item]
    otherwise: Sequence[Item]


@dataclass(frozen=True)
class Check:
    """A call where `number` (a value) is not 0 is refused, for the `cause`."""

    number: str
    cause: str


Item: TypeAlias = Node | Branch | Check


@dataclass(frozen=True)
class Flow:
    """`function` with its nodes in the order of `items`; a branch begins with a node of the kernel `read`, which takes
    its number, as a check is one, and the choices that it stands for are copies."""

    function: Function
    items: Sequence[Item]
    read: str


def with_branches(
    moves: Moves, before: Mapping[str, str], choosing: Collection[str], checks: Mapping[str, str]
) -> Flow:
    """`before`: state -> the value that it is before the call. `choosing`: kernels that are choices. `checks`: numbers
    (values) that are 0 where a call can be made, with what is wrong where they are not."""
    function = moves.function
    read = unique("read", lambda name: any(node.kernel == name for node in function.nodes))
    found = branched(function, choosing)
    outermost = sorted((len(sides), n) for n, (item, sides) in enumerate(found) if isinstance(item, Choice))
    taken = {found[n][0] for depth, n in outermost[:_MOST_BRANCHES] if depth < _DEEPEST}
    if not taken and not checks:
        return Flow(function, function.nodes, read)
    blocks = _Blocks(moves.copy, shown_by(function))
    for item, sides in found:
        blocks.put(item, sides, item in taken)
    items = _checked(blocks.outermost, checks, shown_by(function))
    items = _states_last(items, moves.states, before, shown_by(function))
    return Flow(replace(function, nodes=list(_flat(items, read))), items, read)


class _Blocks:
    """Items in the sides that they are needed in. What a choice needs is put before it."""

    def __init__(self, copy: str, shown: Mapping[str, str]) -> None:
        self._copy = copy
        self._shown = shown
        self._found: dict[Side, list[Item]] = {}
        self.outermost: list[Item] = []

    def put(self, item: Node | Choice, sides: Sides, may_branch: bool) -> None:
        block = self._found.setdefault(sides[-1], []) if sides else self.outermost
        if isinstance(item, Node):
            block.append(item)
            return
        then, otherwise = (self._found.pop((item, side), []) for side in (0, 1))
        calls = any(not isinstance(inner, Node) or inner.kind is NodeKind.KERNEL for inner in (*then, *otherwise))
        if calls and may_branch:
            then, otherwise = (self._written(side, item, 1 + n) for n, side in enumerate((then, otherwise)))
            block.append(Branch(item.number, then, otherwise))
        else:
            # With nothing to leave out, waiting for the number would take longer than choosing on the device.
            block += [*then, *otherwise, *item.nodes]

    def _written(self, side: list[Item], choice: Choice, operand: int) -> list[Item]:
        """A side that leaves what is chosen: written where it is wanted if the side itself makes it, or else copied."""
        made = {value for item in side for value in _made(item)}
        renamed: dict[str, str] = {}
        copies: list[Item] = []
        for node in choice.nodes:
            value, result = node.inputs[operand], node.outputs[0]
            if value in made and value not in renamed:
                renamed[value] = result
            else:
                copies.append(Node(f"{node.id}.{operand}", NodeKind.KERNEL, self._copy, (value,), (result,)))
        return [_renamed(item, renamed) for item in (*side, *copies)]


def _checked(items: Sequence[Item], checks: Mapping[str, str], shown: Mapping[str, str]) -> list[Item]:
    """With each check right behind what makes its number."""
    waiting = dict(checks)
    found: list[Item] = []
    for item in items:
        found.append(item)
        made = _made(item)
        for number in [number for number in waiting if shown[number] in made]:
            found.append(Check(number, waiting.pop(number)))
    # What no kernel makes is the same in all calls, and was 0 when the model was carved.
    return found


def _states_last(
    items: Sequence[Item], states: Mapping[str, str], before: Mapping[str, str], shown: Mapping[str, str]
) -> list[Item]:
    """What is written to a state (`states`: value -> state), behind all that reads what it was before."""
    last: dict[str, int] = {}
    for place, item in enumerate(items):
        for node in _flat([item], ""):
            if node.kind is NodeKind.KERNEL:
                last.update((shown[value], place) for value in node.inputs)

    def place_of(place: int) -> tuple[int, bool]:
        item = items[place]
        state = next((states[v] for v in item.outputs if v in states), None) if isinstance(item, Node) else None
        return (place, False) if state is None else (max(place, last.get(before[state], 0)), True)

    return [items[place] for place in sorted(range(len(items)), key=place_of)]


def _flat(items: Iterable[Item], read: str) -> Iterator[Node]:
    for item in items:
        if isinstance(item, Node):
            yield item
            continue
        yield Node(f"read.{item.number}", NodeKind.KERNEL, read, (item.number,), ())
        if isinstance(item, Branch):
            yield from _flat((*item.then, *item.otherwise), read)


def _made(item: Item) -> set[str]:
    """What it writes whichever way it goes; of a branch, what it chooses."""
    if isinstance(item, Node):
        return set(item.outputs) if item.kind is NodeKind.KERNEL else set()
    if isinstance(item, Check):
        return set()
    then, otherwise = ({v for inner in side for v in _made(inner)} for side in (item.then, item.otherwise))
    return then & otherwise


def _renamed(item: Item, names: Mapping[str, str]) -> Item:
    """With other values in place of some."""
    if not names:
        return item
    if isinstance(item, Branch):
        then, otherwise = ([_renamed(inner, names) for inner in side] for side in (item.then, item.otherwise))
        return Branch(names.get(item.number, item.number), then, otherwise)
    if isinstance(item, Check):
        return replace(item, number=names.get(item.number, item.number))
    inputs, outputs = (tuple(names.get(value, value) for value in values) for values in (item.inputs, item.outputs))
    return replace(item, inputs=inputs, outputs=outputs)
