"""What a function copies: outputs that no kernel writes where they are wanted, and states.

A compiled model's outputs and states are buffers of their own. A kernel writes an output in place where it can. What is
a state after the call lies in an arena first, for kernels still read what it was before it, and is copied as soon as
nobody does. Copies are nodes of the function that is planned, so that the plan knows what they read.

A kernel that overwrites an input does so where nobody reads the input behind it: its node has the input for its output
then, and a view shows it as what it has become. Elsewhere the node stays as it is, and whoever dispatches it copies the
input to the output first (`functions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tapml.files import unique
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.graph import shown_by
from tapml.program.program import Function, SymbolicValue

COPY = "copy"
COPY_DOCUMENT: Mapping[str, Any] = {
    "kernel": COPY,
    "variants": [
        {
            "entry_points": [
                {"name": COPY, "bindings": [{"binding": 0, "access": "read"}, {"binding": 1, "access": "read_write"}]}
            ],
            "launches": [{"entry_point": COPY, "operands": [{"argument": 0}, {"argument": 1}]}],
            "temporaries": [],
        }
    ],
}
"""As much of a kernel's document as a memory plan reads."""


@dataclass(frozen=True)
class Moves:
    """`function` with its copies as nodes of the kernel `copy`, and with outputs that are buffers of their own."""

    function: Function
    copy: str
    """What its copies call."""
    outputs: tuple[str, ...]
    """The values that are the function's outputs, in order; states are none."""
    places: tuple[int, ...]
    """Their places among what the model gives, which has its states too."""
    states: Mapping[str, str]
    """Value that is written to a state -> the state's name."""


Overwritten = Mapping[str, Mapping[int, int]]
"""Kernel -> its outputs that are written into the bytes of an input -> that input, both by their places among the
arguments."""


def with_moves(function: Function, overwritten: Overwritten = MappingProxyType({})) -> Moves:
    """The same function with copies, and with what may be overwritten in place."""
    return _Moving(in_place(function, overwritten)).moves()


def in_place(function: Function, overwritten: Overwritten) -> Function:
    """The same function, in which each input that is overwritten and read by nobody else behind it is its node's
    output; a view shows it as the value that the node gave.

    Of a function's inputs only states are overwritten, each by what becomes that very state. Without branches only:
    they order nodes by what these give and take alone.
    """
    nodes = list(function.nodes)
    if not any(node.kernel in overwritten for node in nodes):
        return function
    becoming = _becoming(function, overwritten)
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        outputs = list(node.outputs)
        views = []
        for output, before in overwritten.get(node.kernel, {}).items():
            given, place = node.inputs[before], output - len(node.inputs)
            shown = shown_by(function)
            root = shown[given]
            elsewhere = [value for at, value in enumerate(node.inputs) if at != before]
            behind = [value for later in function.nodes[position + 1 :] for value in later.inputs]
            read = {shown[value] for value in (*elsewhere, *behind, *function.outputs)}
            computed = function.values[root].kind is ValueKind.INTERMEDIATE
            if root in read or not (computed or node.outputs[place] in becoming):
                continue
            after = (node.outputs[place],)
            views.append(Node(f"{node.id}.after{place}", NodeKind.VIEW, "reshape", (given,), after))
            outputs[place] = given
        nodes[position : position + 1] = [replace(node, outputs=tuple(outputs)), *views]
    return replace(function, nodes=nodes)


def _becoming(function: Function, overwritten: Overwritten) -> set[str]:
    """Values that a state is on its way from before the call to after it, if each overwrites it in place."""
    shown = shown_by(function)
    made = {value: (node, place) for node in function.nodes for place, value in enumerate(node.outputs)}
    found: set[str] = set()
    for before, after in function.states.values():
        way, value = [], shown[after]
        while value in made:
            node, place = made[value]
            given = overwritten.get(node.kernel, {}).get(len(node.inputs) + place)
            if given is None:
                break
            way.append(value)
            value = shown[node.inputs[given]]
        if value == before:
            found.update(way)
    return found


class _Moving:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._values = dict(function.values)
        self._shown = shown_by(function)
        self._made = {
            self._shown[value]: position
            for position, node in enumerate(function.nodes)
            if node.kind is NodeKind.KERNEL
            for value in node.outputs
        }
        self._copy = unique(COPY, lambda name: any(node.kernel == name for node in function.nodes))
        self._first: list[Node] = []
        self._behind: dict[int, list[Node]] = {}
        """Copies by the position of the node that they follow."""
        self._count = 0

    def moves(self) -> Moves:
        function = self._function
        after = {function.outputs.index(after) for _, after in function.states.values()}
        places = [place for place in range(len(function.outputs)) if place not in after]
        claimed: set[str] = set()
        outputs = []
        for value in (function.outputs[place] for place in places):
            root = self._shown[value]
            if self._computed(root) and root not in claimed:
                claimed.add(root)
                outputs.append(value)
            else:
                outputs.append(self._copied(value, self._made_at(root)))
        states = {}
        for name, (before, value) in function.states.items():
            if (copied := self._state(before, value)) is not None:
                states[copied] = name
        nodes = [*self._first]
        for position, node in enumerate(function.nodes):
            nodes += [node, *self._behind.get(position, ())]
        found = replace(
            function, values=self._values, nodes=nodes, outputs=(*dict.fromkeys(outputs), *states), states={}
        )
        return Moves(found, self._copy, tuple(outputs), tuple(places), states)

    def _state(self, before: str, after: str) -> str | None:
        """The value that is written to a state; none for one that stays what it is."""
        root = self._shown[after]
        if root == self._shown[before]:
            return None
        read = [n for n, node in enumerate(self._function.nodes) if self._reads(node, before)]
        if root in {other for other, _ in self._function.states.values()}:
            # Another state, which may be written before this one is.
            after = self._copied(after, self._made_at(root))
        return self._copied(after, max(self._made_at(root), *read, -1))

    def _computed(self, root: str) -> bool:
        return self._values[root].kind is ValueKind.INTERMEDIATE

    def _made_at(self, root: str) -> int:
        """The position of the last node that writes a value; -1 for what is there from the beginning."""
        return self._made.get(root, -1)

    def _reads(self, node: Node, value: str) -> bool:
        return node.kind is NodeKind.KERNEL and any(self._shown[given] == value for given in node.inputs)

    def _copied(self, value: str, position: int) -> str:
        """A new value with the bytes of `value`, made behind the node at `position`, or else before all nodes."""
        source = self._values[value]
        name = unique(f"{COPY}{self._count}", lambda taken: taken in self._values)
        self._count += 1
        self._values[name] = SymbolicValue(name, source.name, source.type, ValueKind.INTERMEDIATE)
        node = Node(name, NodeKind.KERNEL, self._copy, (value,), (name,))
        (self._first if position < 0 else self._behind.setdefault(position, [])).append(node)
        return name
