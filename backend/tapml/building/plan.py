"""Where the tensors of a call lie: data, as a compiled model holds it (docs/memory-plan.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Placement(NamedTuple):
    """Bytes `offset` up to `end` of an arena. `offset` is aligned, `bytes` a multiple of 4, and not 0."""

    arena: int
    offset: int
    bytes: int
    """The most that lies there: at a call a tensor may take fewer."""

    @property
    def end(self) -> int:
        return self.offset + self.bytes


class Temporary(NamedTuple):
    """The temporary of this number of the kernel that a node runs, in whichever of its variants."""

    node: str
    number: int


@dataclass(frozen=True)
class Plan:
    """One GPUBuffer for each of `arenas`; no dispatch reads one that it writes.

    `values` has every value that lies in an arena, views too: they lie where what they show lies. Inputs, parameters,
    outputs and their views are not in it: they have buffers of their own.
    """

    strategy: str
    arenas: tuple[int, ...]
    """Bytes of each."""
    values: Mapping[str, Placement]
    temporaries: Mapping[Temporary, Placement]
    naive: int
    """Bytes of all that is placed, if nothing shared."""
    lower_bound: int
    """Bytes of the largest set of them that lives at one node: no plan takes fewer."""

    @property
    def bytes(self) -> int:
        return sum(self.arenas)

    def to_json(self) -> dict[str, Any]:
        """`temporaries`: by node, those of its kernel by number; a placement is [arena, offset, bytes]."""
        temporaries: dict[str, list[list[int]]] = {}
        for (node, _), placed in sorted(self.temporaries.items()):
            temporaries.setdefault(node, []).append(list(placed))
        return {
            "strategy": self.strategy,
            "arenas": list(self.arenas),
            "values": {name: list(placed) for name, placed in self.values.items()},
            "temporaries": temporaries,
            "naive": self.naive,
            "lower_bound": self.lower_bound,
        }


def padded(count: int) -> int:
    """The bytes that a binding of `count` has: a multiple of 4, and never none."""
    return max(4, -(-count // 4) * 4)
