"""Where a node of a formula stands, and the formula with another one there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tapml.locating.formula.nodes import Node, Nodes, in_order

MOST_PARENTS = 6

Place = tuple[Node, int]
"""A node and which of its operands."""

Path = tuple[Place, ...]
"""From a node up: who uses it, who uses that, and so on."""


class Uses:
    """Of one formula."""

    def __init__(self, nodes: Nodes, root: Node) -> None:
        self._nodes = nodes
        self.root = root
        self.order = in_order(root)
        self._parents: dict[int, list[Place]] = defaultdict(list)
        self._rank = {id(node): rank for rank, node in enumerate(self.order)}
        for node in self.order:
            for place, operand in enumerate(node.operands):
                self._parents[id(operand)].append((node, place))

    def of(self, node: Node) -> list[Place]:
        """Who has it for an operand."""
        return self._parents[id(node)]

    def rank(self, node: Node) -> int:
        """Its place among the formula's nodes, operands first."""
        return self._rank[id(node)]

    def replaced(self, old: Node, new: Node) -> Node:
        """The formula with `new` wherever `old` stands."""
        done = {id(old): new}
        above: dict[int, Node] = {}
        todo = [old]
        while todo:
            for parent, _ in self._parents[id(todo.pop())]:
                if id(parent) not in above:
                    above[id(parent)] = parent
                    todo.append(parent)
        for key in sorted(above, key=self._rank.__getitem__):
            operands = tuple(done.get(id(operand), operand) for operand in above[key].operands)
            done[key] = self._nodes.with_operands(above[key], operands)
        return done.get(id(self.root), self.root)

    def ways(self, node: Node, most: int = MOST_PARENTS) -> Iterator[Path]:
        """Ways up from a node that has several users, or that something with several users is made of, each to a node
        that is changed wherever it stands; none through what has more than `most` users."""
        todo: list[tuple[Path, Node, bool]] = [((), node, False)]
        while todo:
            path, top, one = todo.pop(0)
            parents = self._parents[id(top)]
            several = len(parents) > 1
            if one and (several or not parents):
                yield path
            for place in parents if len(parents) <= most else ():
                todo.append(((*path, place), place[0], one or several))

    def along(self, node: Node, path: Path, new: Node) -> Node:
        """The formula with `new` for the node in what is at the end of the path, wherever that stands."""
        for parent, place in path:
            new = self._nodes.with_operands(parent, (*parent.operands[:place], new, *parent.operands[place + 1 :]))
            node = parent
        return self.replaced(node, new)
