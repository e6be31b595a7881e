"""What a program's buffers hold while it runs in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapml.bounds.converted import Converted, any_subnormal, widened
from tapml.bounds.uncertain import Uncertain
from tapml.operators.program import Buffer

_LEAST = 1 << 16
"""Elements: a smaller input is converted as a whole."""


class Buffers(dict[str, Uncertain]):
    """By name. An input is converted where it is read, and only as much of it as is read: a table of a hundred
    thousand rows of which a sentence takes twenty would be the largest thing there is."""

    def __init__(self, converted: Converted) -> None:
        super().__init__()
        self._converted = converted
        self._given: dict[str, tuple[Buffer, np.ndarray]] = {}
        self._subnormal: dict[str, bool] = {}

    def give(self, buffer: Buffer, array: np.ndarray) -> None:
        """An input; nobody may write to it."""
        self._given[buffer.name] = buffer, array

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._given

    def __missing__(self, name: str) -> Uncertain:
        buffer, array = self._given[name]
        self[name] = found = self._converted.input(array, buffer.dtype, buffer.shape)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of what a buffer holds."""
        return self._given[name][0].shape if name in self._given else self[name].value.shape

    def in_part(self, name: str, elements: int) -> bool:
        """Whether so many elements of a buffer are better converted by themselves."""
        if super().__contains__(name):
            return False
        buffer, array = self._given[name]
        size = math.prod(buffer.shape)
        return size >= _LEAST and 2 * elements <= size and not self._converted.keeps(array)

    def part(self, name: str, at: Sequence[Any]) -> Uncertain:
        """An input's elements there: slices, or arrays of indices. Raises NotDerivable as `Converted.input`."""
        buffer, array = self._given[name]
        if name not in self._subnormal:
            # Whether one of them is off by something is asked of all: what is added to it may be off by more then.
            self._subnormal[name] = any_subnormal(array.reshape(-1), buffer.dtype)
        return widened(array.reshape(buffer.shape)[tuple(at)], buffer.dtype, subnormal=self._subnormal[name])
