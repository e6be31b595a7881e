"""A formula: what one element of an output is made of, as a graph of nodes that share their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


class NotAFormula(Exception):
    """The program has something that no formula says, or is too large for one."""


ERF_BELOW = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02,
)  # fmt: skip
"""Of the denominator of TVM's erf (build.py)."""

MOST_NODES = 4000
_DEEPEST = 200
_MOST_PASSING = 20_000


@dataclass(frozen=True)
class Reduction:
    """`kind`: add, max or min over `axes`; one result for each point of `spatial`. Both are (variable, extent)."""

    kind: str
    spatial: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, int], ...]
    buffer: str

    @property
    def terms(self) -> int:
        found = 1
        for _, extent in self.axes:
            found *= extent
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """`kind` as of a program's expression, and besides
    - "reduce": operands (term, start), value a Reduction; an array of results;
    - "read": of such a result: operands (the reduction, indices...);
    - "placed": a load from another place in memory, value (buffer, how, a number), see indices.py; or at the same place
      of another buffer, value (buffer, "instead", the other);
    - "given": a column of numbers, one for each element of the output;
    - "every": all elements of an input, as a row, see gathers.py;
    - "shifted": a reduction (its operand) whose results have numbers added, by place;
    - "rounded": to the dtype that `value` names; "some": operands (changed, as it was), the first for those terms of
      a reduction whose numbers `value` has.
    """

    kind: str
    dtype: str
    operands: tuple[Node, ...] = ()
    value: Any = None
    depth: int = 0


class Nodes:
    """Makes nodes; equal ones are one object, as long as they are of the formula or of the changes made lately."""

    def __init__(self) -> None:
        self._settled: dict[tuple[Any, ...], Node] = {}
        self._passing: dict[tuple[Any, ...], Node] = {}
        """What changes of the formula are made of, thousands of them: none is kept for its own sake."""
        self._made = self._settled

    def settle(self) -> None:
        """The formula is whole: what is made from now on is of changes of it."""
        self._made = self._passing

    def make(self, kind: str, dtype: str, operands: tuple[Node, ...] = (), value: Any = None) -> Node:
        """Raises NotAFormula where there are too many, or they stand in each other too deep."""
        key = (kind, dtype, *map(id, operands), type(value), value)
        found = self._settled.get(key) or self._passing.get(key)
        if found is None:
            depth = 1 + max((operand.depth for operand in operands), default=0)
            if depth > _DEEPEST or len(self._settled) >= 20 * MOST_NODES:
                raise NotAFormula("it is too large")
            if len(self._passing) >= _MOST_PASSING:
                self._passing.clear()
            found = self._made[key] = Node(kind, dtype, operands, value, depth)
        return found

    def constant(self, value: bool | int | float, dtype: str) -> Node:
        return self.make("constant", dtype, (), value)

    def with_operands(self, node: Node, operands: tuple[Node, ...]) -> Node:
        return self.make(node.kind, node.dtype, operands, node.value)

    def rewritten(self, root: Node, change: Callable[[Node, tuple[Node, ...]], Node | None]) -> Node:
        """The formula with each node as `change` has it, who is given the node and its operands as they are now; None
        leaves it."""
        done: dict[int, Node] = {}
        for node in in_order(root):
            operands = tuple(done[id(operand)] for operand in node.operands)
            found = change(node, operands)
            if found is None:
                same = all(a is b for a, b in zip(operands, node.operands, strict=True))
                found = node if same else self.with_operands(node, operands)
            done[id(node)] = found
        return done[id(root)]


def in_order(root: Node, *, reductions: bool = True) -> list[Node]:
    """Every node once, operands before those that they are operands of; without `reductions` none of what is in one."""
    found: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if reductions or node.kind != "reduce":
                stack += [(operand, False) for operand in node.operands]
    return found


def within(root: Node) -> Iterator[Node]:
    """The nodes of one scope: none of the reductions that are read there."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack += node.operands[1:] if node.kind == "read" else node.operands


def argument_of_sigmoid(node: Node) -> Node | None:
    """x, of 1 / (1 + exp(0 - x))."""
    if node.kind != "div" or node.operands[0].kind != "constant" or node.operands[1].kind != "add":
        return None
    one, exponential = node.operands[1].operands
    if (one.value, exponential.value) != (1.0, "exp") or node.operands[0].value != 1.0:
        return None
    negative = exponential.operands[0]
    zero = negative.operands[0] if negative.kind == "sub" else None
    return negative.operands[1] if zero is not None and zero.kind == "constant" and zero.value == 0 else None


def argument_of_erf(node: Node) -> Node | None:
    """x, of the ratio of polynomials of x limited to -4 and 4."""
    if node.kind != "div" or node.operands[0].kind != "mul" or node.operands[1].kind != "add":
        return None
    limited, last = node.operands[0].operands[0], node.operands[1].operands[1]
    if last.value != ERF_BELOW[-1] or limited.kind != "max" or limited.operands[0].kind != "min":
        return None
    return limited.operands[0].operands[0]


def argument_of_tanh(node: Node) -> Node | None:
    """x, where it chooses by x >= 0 between quotients of exponentials."""
    if node.kind != "select" or node.operands[0].kind != "ge" or any(part.kind != "div" for part in node.operands[1:]):
        return None
    x, zero = node.operands[0].operands
    return x if zero.kind == "constant" and zero.value == 0 and zero.dtype == x.dtype else None
