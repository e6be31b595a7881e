"""The tensors of a function: their types, and where their bytes lie for all sizes in range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tapml.compiled.algebra import Algebra, Scope, Value, same, shown
from tapml.compiled.bytes import bound, check_stored, elements_of, stored_bytes
from tapml.compiled.model import CompiledFunction, CompiledModel, CompiledTensor, InputPort, Port
from tapml.compiled.owners import Region
from tapml.encodings import Encoding
from tapml.expressions import ExpressionError, printed
from tapml.protocol.base import MAX_BYTES, MOST_ELEMENTS

_ELEMENTS = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int8": (-128, 127), "uint8": (0, 255)}


class Tensors:
    """Those of a function, by number. Raises ExpressionError for one that is not inside its buffer."""

    def __init__(
        self, name: str, function: CompiledFunction, model: CompiledModel, algebra: Algebra, symbols: Scope
    ) -> None:
        self._name = name
        self._function = function
        self._model = model
        self._algebra = algebra
        self.shapes: list[list[Value]] = []
        self.elements: list[Value] = []
        self.stored: list[Value] = []
        self.bytes: list[Value] = []
        """What is bound: at least 4."""
        self.regions: list[Region] = []
        for number, tensor in enumerate(function.tensors):
            try:
                self._add(number, tensor, symbols)
            except ExpressionError as error:
                raise ExpressionError(f"{name}: tensor {number} ({tensor.name}): {error}") from None
        self._check_ports("input", function.inputs)
        self._check_ports("output", function.outputs)
        self._check_ranges(function.inputs, symbols)
        self._check_whole()

    def describe(self, number: int) -> str:
        """For people: "x, float32[n, 2]"."""
        found = self._function.tensors[number]
        return f"{found.name}, {described(found.dtype, found.shape, found.encoding)}"

    def always(self, number: int) -> bool:
        """Whether it holds without being written: weights and inputs."""
        return self._function.tensors[number].at[0] in ("weights", "input")

    @property
    def states(self) -> list[Region]:
        """Those of the states that the function knows."""
        return [region for region in self._roots() if region.buffer[0] == "state"]

    def _roots(self) -> list[Region]:
        return [region for number, region in enumerate(self.regions) if region.root == number]

    def _add(self, number: int, tensor: CompiledTensor, symbols: Scope) -> None:
        check_stored(tensor.dtype, tensor.encoding)
        shape = [self._algebra.value(extent, symbols) for extent in tensor.shape]
        for extent, written in zip(shape, tensor.shape, strict=True):
            if self._algebra.least(extent) < 0 or self._algebra.greatest(extent) > MOST_ELEMENTS:
                raise ExpressionError(f"its extent {printed(written)} may be from {extent.low} to {extent.high}")
        stored = stored_bytes(tensor.shape, tensor.dtype, tensor.encoding)
        count = self._algebra.value(bound(stored), symbols)
        kind, buffer = tensor.at[0], tensor.at[1]
        begin = tensor.at[2] if tensor.at[0] == "weights" or tensor.at[0] == "arena" else 0
        end = begin + self._algebra.greatest(count)
        what = f"{'weight buffer' if kind == 'weights' else kind} {buffer}"
        if (size := self._buffer_bytes(kind, buffer)) is None:
            raise ExpressionError(f"there is no {what}")
        if end > size:
            raise ExpressionError(f"it may end at {end}, and {what} has {size} bytes")
        root = number
        if tensor.view is not None:
            if tensor.view >= number:
                raise ExpressionError(f"it is a view of tensor {tensor.view}, which is not before it")
            if self._function.tensors[tensor.view].at != tensor.at or not same(self.bytes[tensor.view], count):
                raise ExpressionError(f"it is a view of {self.describe(tensor.view)}, and not the same bytes")
            root = self.regions[tensor.view].root
        self.shapes.append(shape)
        self.elements.append(self._algebra.value(elements_of(tensor.shape), symbols))
        self.stored.append(self._algebra.value(stored, symbols))
        self.bytes.append(count)
        self.regions.append(Region((kind, buffer), begin, end, root))

    def _buffer_bytes(self, kind: str, buffer: int) -> int | None:
        """What fits in it; None where there is none."""
        function, model = self._function, self._model
        sizes = {"weights": model.weights.buffers, "arena": function.arena}.get(kind)
        if sizes is not None:
            return sizes[buffer] if buffer < len(sizes) else None
        whole = {"state": len(model.states), "input": len(function.inputs), "output": len(function.outputs)}
        return MAX_BYTES if buffer < whole[kind] else None

    def _check_ports(self, kind: Literal["input", "output"], ports: Sequence[Port]) -> None:
        names = set()
        for number, port in enumerate(ports):
            where = f"{self._name}: {kind} {port.name}"
            if port.name in names:
                raise ExpressionError(f"{where} stands twice")
            names.add(port.name)
            if port.tensor >= len(self.regions):
                raise ExpressionError(f"{where}: there is no tensor {port.tensor}")
            if self.regions[port.tensor].buffer != (kind, number) or self.regions[port.tensor].root != port.tensor:
                raise ExpressionError(f"{where}: tensor {port.tensor} does not lie at {kind} {number}, or is a view")

    def _check_ranges(self, ports: Sequence[InputPort], symbols: Scope) -> None:
        """Its ends are elements of the input's dtype. At some sizes there may be none between them."""
        for port in ports:
            if port.range is not None:
                where, dtype = f"{self._name}: input {port.name}", self._function.tensors[port.tensor].dtype
                try:
                    least, most = (self._algebra.value(end, symbols) for end in port.range)
                except ExpressionError as error:
                    raise ExpressionError(f"{where}: {error}") from None
                low, high = _ELEMENTS.get(dtype, (0, -1))
                first, last = self._algebra.least(least), self._algebra.greatest(most)
                if not low <= first <= last <= high:
                    ends = " to ".join(map(shown, port.range))
                    raise ExpressionError(f"{where} is {dtype}, and has no range from {ends}")

    def _check_whole(self) -> None:
        """A state, an input, an output is one tensor, and the others are views of it."""
        seen: set[tuple[str, int]] = set()
        for region in self._roots():
            kind, buffer = region.buffer
            if kind in ("weights", "arena"):
                continue
            where = f"{self._name}: tensor {region.root} ({self._function.tensors[region.root].name})"
            if region.buffer in seen:
                raise ExpressionError(f"{where}: {kind} {buffer} is another tensor already: make it a view of that")
            seen.add(region.buffer)
            if kind == "state":
                state, tensor = self._model.states[buffer], self._function.tensors[region.root]
                wanted = state.dtype, state.encoding, state.shape
                if (tensor.dtype, tensor.encoding, tensor.shape) != wanted:
                    found = described(state.dtype, state.shape, state.encoding)
                    raise ExpressionError(f"{where}: the state {state.name} is {found}")


def described(dtype: str, shape: Sequence[object], encoding: Encoding | None) -> str:
    """A type for people: "float32[n, 2]"."""
    text = f"{dtype}[{', '.join(map(printed, shape))}]"
    return f"{text} as {encoding}" if encoding else text
