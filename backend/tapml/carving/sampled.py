"""Whether rounding explains a difference, by the elements that differ most: what most operators are acquitted by.

Of a large operator some thousands of elements are nearly as good evidence as all: those around the one that is off by
most, and around the one that is off by most for its size. Only what these need of the operator's program is run in
float64, exactly and with roundings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tapml.bounds import APPROXIMATED, COARSE, NotDerivable, rounded
from tapml.carving.explained import Explained, finite
from tapml.carving.float_sums import in_floats
from tapml.carving.grouped import Group
from tapml.carving.paired import without_fill
from tapml.compare.elements import errors
from tapml.importing.model import Array
from tapml.lowering.lower import Model
from tapml.operators.program import FLOATS, OperatorProgram
from tapml.operators.sliced import Box, Sliced, points, sliced, whole
from tapml.program import NodeKind

TIMES = 4.0
"""From here on rounding explains a difference no longer."""

COARSELY = 2.0
"""Units in the last place of 1 that functions may be off by which are no better than that."""

_ELEMENTS = 1024
"""In a box."""
_LEAST_ELEMENTS = 64
_MOST_TURNS = 2**22
"""Of the loops that a box needs."""
_RUNS = 3
_AT_ONCE = 1 << 14
"""Elements that are looked at together: these stay in a processor's cache."""
_SMALL = 1 / 16
"""Of what is usual next to an element: what is smaller may be off by its share of that."""
_TINY = 1e-300


def worst(got: Array, wanted: Array, unit: float) -> list[int] | None:
    """The flat places of the elements that differ most, and that differ most for their size; none where all of them
    differ by no more than a unit in the last place. None where a number is missing, or a dtype does not round."""
    largest, places = [0.0, 0.0], [-1, -1]
    ours, theirs = got.reshape(-1), wanted.reshape(-1)
    for start in range(0, ours.size, _AT_ONCE):
        a, b = (without_fill(array[start : start + _AT_ONCE]) for array in (ours, theirs))
        error = errors(a, b)
        size = np.abs(np.where(np.isfinite(b), b, 0).astype(np.float64))
        if not (error > unit * size).any():
            continue
        if unit == 0.0 or not np.isfinite(error).all():
            return None
        usual = float(np.sqrt(np.mean(size**2)))
        for number, measured in enumerate((error, error / (size + _SMALL * usual + _TINY))):
            at = int(np.argmax(measured))
            if measured[at] > largest[number]:
                largest[number], places[number] = float(measured[at]), start + at
    return [place for place in dict.fromkeys(places) if place >= 0]


@dataclass(frozen=True)
class Sampled:
    """A group of operators whose inputs are `given`. `got` is what they give, `wanted` what the oracle gives."""

    model: Model
    group: Group
    given: Mapping[str, Array]
    got: Array
    wanted: Array
    unit: float

    def explained(self, places: list[int]) -> bool:
        """Whether rounding explains the differences around these elements; False where that cannot be told."""
        boxes: list[Box] = []
        for place in places:
            at = [int(index) for index in np.unravel_index(place, self.got.shape)]
            if any(all(start <= i < end for i, (start, end) in zip(at, box, strict=True)) for box in boxes):
                continue
            if (part := self._around(at)) is None or not self._explained(part):
                return False
            boxes.append(part.box)
        return True

    def _around(self, at: list[int]) -> _Part | None:
        elements = _ELEMENTS
        while elements >= _LEAST_ELEMENTS:
            part = self._part(_box(self.got.shape, at, elements))
            if part is None or sum(one.program.turns for one in part.programs.values()) <= _MOST_TURNS:
                return part
            elements //= 4
        return None

    def _part(self, box: Box) -> _Part | None:
        values, boxes = self.model.graph.values, {self.group.value: box}
        programs: dict[str, Sliced] = {}
        for node in reversed(self.group.nodes):
            asked = [boxes.get(value) for value in node.outputs]
            if node.kind is NodeKind.VIEW:
                found = [whole(values[node.inputs[0]].type.shape)]
                boxes[node.outputs[0]] = whole(values[node.outputs[0]].type.shape)
            else:
                program = self.model.programs[node.kernel]
                if not isinstance(program, OperatorProgram):
                    return None
                programs[node.id] = cut = sliced(program, asked)
                boxes.update(zip(node.outputs, cut.outputs, strict=True))
                found = [*cut.inputs]
            for value, own in zip(node.inputs, found, strict=True):
                before = boxes.get(value, own)
                boxes[value] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, own, strict=True))
        return _Part(box, boxes, programs)

    def _explained(self, part: _Part) -> bool:
        """Whether rounding explains the differences. It is run only as often as it takes to explain them."""
        wanted, got = (without_fill(array[_at(part.box)]) for array in (self.wanted, self.got))
        explained = Explained(wanted, _RUNS, self.unit, jumps=self.group.jumps(self.model))
        try:
            exact = without_fill(self._run(part, None), got.dtype)
            base = np.where(np.isfinite(exact), exact, wanted)
            theirs, ours = (errors(array, base) for array in (wanted, got))

            def is_enough() -> bool:
                # The reference platform's own result is what is carved.
                return explained.times(theirs) <= TIMES and explained.times(ours) <= TIMES**2

            if is_enough():
                return True
            for number in range(1, _RUNS + 1):
                explained.add(errors(without_fill(self._run(part, number), got.dtype), base))
                if is_enough():
                    return True
            if not any(map(_approximates, part.programs.values())):
                return False
            aside = COARSELY * finite(errors(without_fill(self._run(part, None, coarse=True), got.dtype), base))
            theirs, ours = (np.maximum(error - aside, 0) for error in (theirs, ours))
            return is_enough()
        except NotDerivable:
            return False

    def _run(self, part: _Part, seed: int | None, *, coarse: bool = False) -> Array:
        """The part in float64. Raises NotDerivable."""
        values = self.model.graph.values
        found = {value: self.given[value][_at(part.boxes[value])] for value in self.group.inputs}
        for node in self.group.nodes:
            if node.kind is NodeKind.VIEW:
                found[node.outputs[0]] = found[node.inputs[0]].reshape(values[node.outputs[0]].type.shape)
                continue
            cut = part.programs[node.id]
            inputs = [
                found[value][_at(own, within=part.boxes[value])]
                for value, own in zip(node.inputs, cut.inputs, strict=True)
            ]
            outputs = in_float64(cut.program, inputs, seed, coarse=coarse)
            for value, output, box in zip(node.outputs, outputs, cut.outputs, strict=True):
                shape, dtype = [end - start for start, end in box], values[value].type.dtype
                found[value] = as_stored(np.broadcast_to(output, shape), dtype, seed)
        box = part.boxes[self.group.value]
        return found[self.group.value][_at(part.box, within=box)].astype(np.float64)


@dataclass(frozen=True)
class _Part:
    """What a `box` of a group's value needs: `boxes` of values, and `programs` by node."""

    box: Box
    boxes: Mapping[str, Box]
    programs: Mapping[str, Sliced]


def in_float64(program: OperatorProgram, inputs: list[Array], seed: int | None, *, coarse: bool = False) -> list[Array]:
    """As `rounded`, with sums of integers as the oracle takes them; `coarse`: with functions that are no better than 1
    is. Raises NotDerivable whatever goes wrong."""
    program = in_floats(program)
    try:
        return rounded(program, inputs, seed, COARSE) if coarse else rounded(program, inputs, seed)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError) as error:
        raise NotDerivable(f"{type(error).__name__}: {error}") from error


def as_stored(array: Array, dtype: str, seed: int | None) -> Array:
    """What a rounded run stores between operators."""
    if seed is None or dtype not in FLOATS:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def _approximates(found: Sliced) -> bool:
    return any(
        node.kind == "call" and node.value in APPROXIMATED
        for block in found.program.blocks
        for node in block.expressions
    )


def _box(shape: tuple[int, ...], at: list[int], elements: int) -> Box:
    """Around an element, of about so many."""
    box = whole(shape)
    while points(box) > elements:
        longest = max(range(len(box)), key=lambda axis: box[axis][1] - box[axis][0])
        length = -(-(box[longest][1] - box[longest][0]) // 2)
        start = min(max(at[longest] - length // 2, 0), shape[longest] - length)
        box = (*box[:longest], (start, start + length), *box[longest + 1 :])
    return box


def _at(box: Box, *, within: Box | None = None) -> tuple[slice, ...]:
    starts = [start for start, _ in within] if within is not None else [0] * len(box)
    return tuple(slice(a - start, b - start) for (a, b), start in zip(box, starts, strict=True))
