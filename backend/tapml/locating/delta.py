"""The guilty few among many nodes, by few model runs: delta debugging by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Culprits:
    """`nodes` in their order; `runs`: how often it was asked."""

    nodes: list[str]
    runs: int


class TooMany(Exception):
    """More nodes share the fault than were to be searched for; `nodes` are those found until then."""

    def __init__(self, nodes: list[str], runs: int) -> None:
        super().__init__(f"more than {len(nodes)} nodes share the fault")
        self.nodes = nodes
        self.runs = runs


def most_runs(guilty: int, nodes: int) -> int:
    """Runs that `culprits` takes at most: k (ceil(log2 n) + 2) + 1 for k guilty ones among n nodes."""
    return guilty * (math.ceil(math.log2(max(2, nodes))) + 2) + 1


def culprits(nodes: Sequence[str], good_without: Callable[[frozenset[str]], bool], most: int) -> Culprits:
    """A minimal set of `nodes` whose return to the reference makes the model good.

    `good_without(returned)`: is the model within its bound with these nodes on the reference? It is so with all of
    them, and taken to stay so when further nodes return. Each guilty node is the last of the shortest prefix that
    must return beside those known: a bisection of at most ceil(log2 n) runs. Raises TooMany beyond `most` of them.
    """
    runs = 0

    def good(returned: frozenset[str]) -> bool:
        nonlocal runs
        runs += 1
        return good_without(returned)

    found: list[str] = []
    end = len(nodes)
    while not good(frozenset(found)):
        if len(found) == most:
            raise TooMany(found[::-1], runs)
        # With nodes[:high] and those found the model is good, with nodes[:low] and those found it is not.
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            if good(frozenset([*nodes[:middle], *found])):
                high = middle
            else:
                low = middle
        found.append(nodes[high - 1])
        end = high - 1
        if end == 0:
            break  # nothing is left that could be guilty beside these
    # Where errors cancel, a node found early may not be needed beside those found later.
    for node in list(found[:-1]):
        if good(frozenset(found) - {node}):
            found.remove(node)
    return Culprits(found[::-1], runs)
