"""What a memory plan has to place: how many bytes, needed when, and apart from what."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol, TypeAlias

from tapml.building.plan import Temporary, padded
from tapml.encodings import Encoding, stored
from tapml.errors import InputError
from tapml.expressions import MOST
from tapml.kernels.document import overwritten
from tapml.program import NodeKind
from tapml.program.graph import Calls, Node, ValueKind, numpy_dtype, shown_by

Name: TypeAlias = str | Temporary
"""A value's id, or a temporary."""

Extent: TypeAlias = Callable[[Any], int]
"""The most that an expression may be."""


class Stored(Protocol):
    """A tensor's type, of a program or of a compiled model."""

    @property
    def shape(self) -> Sequence[Any]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def encoding(self) -> Encoding | None: ...


@dataclass(frozen=True)
class Buffer:
    """A value with all its views, or a temporary."""

    name: Name
    bytes: int
    """A multiple of 4, at least 4."""
    first: int
    """The node that writes it, as a position in the order of nodes."""
    last: int
    """The last node that reads it."""
    apart: frozenset[Name]
    """What some dispatch reads where it writes this, or the other way round: the same GPUBuffer may not hold both."""

    def meets(self, other: Buffer) -> bool:
        """Is there a node at which both are needed?"""
        return self.first <= other.last and other.first <= self.last


def own_buffers(calls: Calls[Any]) -> set[str]:
    """The values that have a buffer of their own, outside of every arena: what inputs, parameters and outputs show."""
    shown = shown_by(calls)
    given = {value.id for value in calls.values.values() if value.kind is not ValueKind.INTERMEDIATE}
    return {shown[value] for value in (*calls.inputs, *calls.outputs, *given)}


def buffers_of(calls: Calls[Any], kernels: Mapping[str, Mapping[str, Any]], extent: Extent) -> list[Buffer]:
    """All that has to be placed, in the order in which it is written. `kernels`: their documents, by name.

    Raises InputError where a kernel is missing, or would read and write the same buffer, and where one has no size.
    """
    shown, own = shown_by(calls), own_buffers(calls)
    spans: dict[Name, list[int]] = {}
    sizes: dict[Name, int] = {}
    apart: dict[Name, set[Name]] = {}
    for position, node in enumerate(calls.nodes):
        if node.kind is NodeKind.VIEW:
            continue
        arguments = [shown[value] for value in (*node.inputs, *node.outputs)]
        if node.kernel not in kernels:
            raise InputError(f"node {node.id} calls the kernel {node.kernel}, and there is none: carve the suite again")
        document = kernels[node.kernel]
        for number, count in enumerate(_temporaries(document, extent)):
            scratch = Temporary(node.id, number)
            sizes[scratch], spans[scratch] = count, [position, position]
        for name in arguments:
            if name not in own:
                spans.setdefault(name, [position, position])[1] = position
                sizes.setdefault(name, _counted(most_bytes(calls.values[name].type, extent), f"value {name}"))
        for read, written in _accesses(node, document, arguments):
            for a, b in ((a, b) for a in read for b in written if a in spans and b in spans):
                if a == b:
                    raise InputError(f"node {node.id} reads and writes {a} in one dispatch, which WebGPU refuses")
                apart.setdefault(a, set()).add(b)
                apart.setdefault(b, set()).add(a)
    return [
        Buffer(name, padded(sizes[name]), first, last, frozenset(apart.get(name, ())))
        for name, (first, last) in spans.items()
    ]


def _temporaries(document: Mapping[str, Any], extent: Extent) -> list[int]:
    """Bytes by number, which serve every variant."""
    numbered = zip_longest(*(variant["temporaries"] for variant in document["variants"]), fillvalue=0)
    what = f"a temporary of {document['kernel']}"
    return [max(_counted(extent(size), what) for size in sizes) for sizes in numbered]


def _accesses(
    node: Node, document: Mapping[str, Any], arguments: Sequence[str]
) -> Iterator[tuple[set[Name], set[Name]]]:
    """What each dispatch of each variant reads only, and what it may write; likewise a copy of what is overwritten."""
    for output, before in overwritten(document).items():
        if arguments[output] != arguments[before]:
            yield {arguments[before]}, {arguments[output]}
    for variant in document["variants"]:
        entry_points = {entry_point["name"]: entry_point for entry_point in variant["entry_points"]}
        for launch in variant["launches"]:
            bindings = sorted(entry_points[launch["entry_point"]]["bindings"], key=lambda found: int(found["binding"]))
            storage = [binding["access"] for binding in bindings if binding["access"] != "uniform"]
            bound: dict[str, set[Name]] = {"read": set(), "read_write": set()}
            for access, operand in zip(storage, launch["operands"], strict=True):
                if "texture" in operand:
                    continue
                number = operand.get("argument")
                bound[access].add(Temporary(node.id, operand["temporary"]) if number is None else arguments[number])
            yield bound["read"], bound["read_write"]


def most_bytes(tensor: Stored, extent: Extent) -> int:
    """What is stored of it at most."""
    axes = [max(0, extent(axis)) for axis in tensor.shape]
    shape, dtype = stored(axes, tensor.dtype, tensor.encoding)
    return math.prod(shape) * numpy_dtype(dtype).itemsize


def _counted(count: int, what: str) -> int:
    if not 0 <= count <= MOST:
        raise InputError(f"{what} may take {count} bytes: give its symbols a smaller range")
    return count
