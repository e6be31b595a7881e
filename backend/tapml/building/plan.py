"""Where the tensors of a call lie: data, as a compiled model holds it (docs/memory-plan.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapml.errors import InputError
from tapml.expressions import printed

ALIGNMENT = 256
"""Of every offset: the default minStorageBufferOffsetAlignment of WebGPU, and no device asks for more."""


class Placement(NamedTuple):
    """Bytes `offset` up to `offset + bytes` of an arena; `offset` is a multiple of ALIGNMENT, `bytes` of 4, at least 4."""

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

    def check_fits(self, sizes: Mapping[str, int], takes: Mapping[str | Temporary, int]) -> None:
        """Raise InputError where something takes more bytes than it was given, as at a call with other sizes.

        `takes`: bytes of values and temporaries at the call.
        """
        for name, count in takes.items():
            placed = self.temporaries.get(name) if isinstance(name, Temporary) else self.values.get(name)
            if placed is not None and padded(count) > placed.bytes:
                at = ", ".join(f"{symbol} = {printed(size)}" for symbol, size in sizes.items())
                raise InputError(
                    f"{_named(name)} takes {count} bytes at {at}, and the memory plan has {placed.bytes}: "
                    "plan for these sizes"
                )

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

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> Plan:
        """What to_json gave. Whether it is a plan for a program is for tapml.building.check to say."""
        temporaries: Mapping[str, Sequence[Sequence[int]]] = found["temporaries"]
        return Plan(
            found["strategy"],
            tuple(found["arenas"]),
            {name: Placement(*placed) for name, placed in found["values"].items()},
            {
                Temporary(node, number): Placement(*placed)
                for node, all_of_it in temporaries.items()
                for number, placed in enumerate(all_of_it)
            },
            found["naive"],
            found["lower_bound"],
        )


def padded(count: int) -> int:
    """The bytes that a binding of `count` has: a multiple of 4, and never none."""
    return max(4, -(-count // 4) * 4)


def _named(name: str | Temporary) -> str:
    return f"value {name}" if isinstance(name, str) else f"temporary {name.number} of node {name.node}"
