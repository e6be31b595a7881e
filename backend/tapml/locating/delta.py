"""The guilty few among many nodes, by few model runs: delta debugging by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def culprits(nodes: Sequence[str], good_without: Callable[[frozenset[str]], bool], most: int) -> list[str] | None:
    """A minimal set of `nodes`, in their order, whose return to the reference makes the model good.

    `good_without(returned)`: is the model within its bound with these nodes on the reference? It is so with all of
    them, and taken to stay so when further nodes return. Each guilty node is the last of the shortest prefix that
    must return beside those known: a bisection of at most ceil(log2 n) runs, and
    k (ceil(log2 n) + 2) + 1 of them in all for k nodes. None where they are more than `most`.
    """
    found: list[str] = []
    end = len(nodes)
    while not good_without(frozenset(found)):
        if len(found) == most:
            return None
        # With nodes[:high] and those found the model is good, with nodes[:low] and those found it is not.
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            if good_without(frozenset([*nodes[:middle], *found])):
                high = middle
            else:
                low = middle
        found.append(nodes[high - 1])
        end = high - 1
        if end == 0:
            break  # nothing is left that could be guilty beside these
    # Where errors cancel, a node found early may not be needed beside those found later.
    for node in list(found[:-1]):
        if good_without(frozenset(found) - {node}):
            found.remove(node)
    return found[::-1]
