"""Values, nodes and the graph they form, in topological order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Generic

import ml_dtypes
import numpy as np
from typing_extensions import TypeVar

from tapml.encodings import Encoding, decoded, encoded, stored
from tapml.errors import InputError
from tapml.expressions import printed


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a graph dtype name (`bfloat16` comes from ml_dtypes).

    Raises InputError for a name numpy does not know.
    """
    try:
        return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    except TypeError as error:
        raise InputError(f"unknown dtype {name!r}") from error


@dataclass(frozen=True)
class Typed:
    """Shape (elements along each axis) and dtype (numpy's name); `encoding`, where it is not stored as that says."""

    shape: tuple[Any, ...]
    dtype: str
    encoding: Encoding | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON; `encoding` only where there is one."""
        encoding = {"encoding": self.encoding} if self.encoding else {}
        return {"dtype": self.dtype, "shape": list(self.shape), **encoding}

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(printed, self.shape))}]"
        return f"{text} as {self.encoding}" if self.encoding else text


@dataclass(frozen=True)
class TensorType(Typed):
    """Of known sizes."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that are stored of it."""
        return self.size * numpy_dtype(self.dtype).itemsize if self.encoding is None else self.stored.nbytes

    @property
    def logical(self) -> TensorType:
        """What it is, however it is stored."""
        return TensorType(self.shape, self.dtype)

    @property
    def stored(self) -> TensorType:
        """What lies in memory."""
        return TensorType(*stored(self.shape, self.dtype, self.encoding))

    def encoded(self, array: np.ndarray) -> np.ndarray:
        """What is stored of `array`. Raises InputError for an element that the encoding cannot hold."""
        try:
            return encoded(np.asarray(array, order="C"), self.encoding)
        except ValueError as error:
            raise InputError(str(error)) from None

    def decoded(self, data: bytes | memoryview) -> np.ndarray:
        """The tensor of its stored bytes."""
        words = np.frombuffer(data, numpy_dtype(self.stored.dtype))
        return decoded(words, self.shape, numpy_dtype(self.dtype), self.encoding)


class ValueKind(StrEnum):
    INPUT = "input"
    PARAMETER = "parameter"
    INTERMEDIATE = "intermediate"


_NUMBERED = re.compile(r"(lv|gv|named_)\d*(_\d+)?(\.\d+)?")


def is_numbered(name: str) -> bool:
    """Is it what a value is called that has no name in the model's file?"""
    return not name or _NUMBERED.fullmatch(name) is not None


class NodeKind(StrEnum):
    KERNEL = "kernel"
    """Runs a kernel: its arguments are the inputs, then the outputs it writes."""
    VIEW = "view"
    """The same bytes under another shape: no kernel runs, on no platform."""


_T = TypeVar("_T", bound=Typed, default=TensorType)
_Carried = TypeVar("_Carried")


@dataclass(frozen=True)
class Value(Generic[_T]):
    """One tensor. `name` is the model's own name where it has one."""

    id: str
    name: str
    type: _T
    kind: ValueKind

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, **self.type.to_json(), "kind": self.kind}


@dataclass(frozen=True)
class Node:
    """One operator call. `kernel` names what it runs ("reshape" for views); inputs and outputs are value ids."""

    id: str
    kind: NodeKind
    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "inputs": list(self.inputs), "outputs": list(self.outputs)}


@dataclass(frozen=True, eq=False)
class Calls(Generic[_T]):
    """Operator calls in topological order; values by id. Every value has one producer or none."""

    values: Mapping[str, Value[_T]]
    nodes: Sequence[Node]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: Mapping[str, tuple[str, str]] = field(default_factory=dict, kw_only=True)
    """Name of a state -> the input that it is before a call, and the output that it is after it."""

    def left(self, outputs: Sequence[_Carried]) -> dict[str, _Carried]:
        """The states, by name, that a call leaves which gives `outputs`."""
        return {name: outputs[self.outputs.index(after)] for name, (_, after) in self.states.items()}

    def begun(self, states: Mapping[str, _Carried]) -> dict[str, _Carried]:
        """Which inputs of a call are these states, by name, that calls before it left: input -> the state."""
        return {before: states[name] for name, (before, _) in self.states.items() if name in states}

    def to_json(self) -> dict[str, Any]:
        """JSON; `states` only where there are such."""
        states = [{"state": name, "before": ids[0], "after": ids[1]} for name, ids in self.states.items()]
        return {
            "values": [value.to_json() for value in self.values.values()],
            "nodes": [node.to_json() for node in self.nodes],
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            **({"states": states} if states else {}),
        }


def shown_by(calls: Calls[Any]) -> dict[str, str]:
    """Value -> the value whose bytes it is: itself where it is no view."""
    found = {value: value for value in calls.values}
    for node in calls.nodes:
        if node.kind is NodeKind.VIEW:
            found[node.outputs[0]] = found[node.inputs[0]]
    return found


@dataclass(frozen=True, eq=False)
class Graph(Calls[TensorType]):
    """The calls of one run, of known sizes. It is equal to itself alone, so that it may be a key."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of the symbols that its shapes were made of."""

    @property
    def parameters(self) -> list[Value]:
        """The values that are the model's weights, in the order of the model function's arguments."""
        return [v for v in self.values.values() if v.kind is ValueKind.PARAMETER]

    @property
    def kernel_nodes(self) -> list[Node]:
        return [n for n in self.nodes if n.kind is NodeKind.KERNEL]

    def nodes_of(self, kernel: str) -> list[Node]:
        return [n for n in self.kernel_nodes if n.kernel == kernel]

    def names_of(self, nodes: Iterable[str]) -> dict[str, str]:
        """Node -> what the model's file calls the values that it gives, where it has a name for them."""
        given = {node.id: [self.values[value].name for value in node.outputs] for node in self.nodes}
        own = {node: [name for name in given[node] if not is_numbered(name)] for node in nodes}
        return {node: ", ".join(names) for node, names in own.items() if names}

    @property
    def kernels(self) -> list[str]:
        """Kernel names in topological order of their first call."""
        return list(dict.fromkeys(n.kernel for n in self.kernel_nodes))

    def check(self) -> None:
        """Raise InputError unless every node reads only what an earlier node, an input or a parameter gives, and every
        view has the elements of what it shows."""
        known = {v.id for v in self.values.values() if v.kind is not ValueKind.INTERMEDIATE}
        ids: set[str] = set()
        for node in self.nodes:
            if node.id in ids:
                raise InputError(f"the id of node {node.id} stands twice")
            ids.add(node.id)
            for value in node.inputs:
                if value not in known:
                    raise InputError(f"node {node.id} reads {value}, which nothing before it produces")
            for value in node.outputs:
                if value in known or value not in self.values:
                    raise InputError(f"node {node.id} writes {value}, which exists already or is not declared")
                known.add(value)
            if node.kind is NodeKind.VIEW:
                self._check_view(node)
        for value in (*self.inputs, *self.outputs):
            if value not in known:
                raise InputError(f"the graph's input or output {value} is not among its values")

    def _check_view(self, node: Node) -> None:
        if len(node.inputs) != 1 or len(node.outputs) != 1:
            raise InputError(f"view {node.id} has not one input and one output")
        before, after = (self.values[value].type for value in (*node.inputs, *node.outputs))
        if (before.size, before.dtype, before.encoding) != (after.size, after.dtype, after.encoding):
            raise InputError(f"view {node.id} shows {before} as {after}, which has other elements")
