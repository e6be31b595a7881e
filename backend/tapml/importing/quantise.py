"""Weights as small integers with scales: the modes there are, and how a weight is packed.

A weight `[rows, inner]`, whose products are summed along its inner axis, becomes words uint32 `[rows, words]`, each of
several integers, the first in the lowest bits, and scales float32 `[rows, groups]`, one for so many elements of a row:
element `[i, k]` is `(integer - zero) * scale`. With 4 bits and groups of 32 that is what MLC LLM calls q4f16_1 and
q4f32_1. Scales have so few bits that each element is a float32 exactly: whoever computes it gives the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tapml.errors import InputError
from tapml.importing.model import Array
from tapml.text import counted, meant

LEAST = 32
"""Extent of both axes of a weight that is quantised: of a smaller one little is saved, and much may be lost."""

DTYPES = ("float32", "float16")
"""Of weights that are quantised."""

_BEYOND_HALF = 65520.0
"""What float16 rounds to infinity."""

_WORD = 32
_AT_ONCE = 1 << 22
"""Elements that are packed at a time."""


@dataclass(frozen=True)
class Kind:
    """How one weight is stored. `group`: elements of a row that share a scale; None: all of them."""

    name: str
    bits: int
    group: int | None
    half: bool
    """Whether scales are numbers of float16."""
    zero: int | None
    """The integer that stands for 0; None where each group has its own."""
    most: int = 0
    """By how much an integer is above or below that; 0: by as much as it is itself."""

    @property
    def largest(self) -> int:
        """The largest element is so many times the scale."""
        return self.most or self.zero or 0

    @property
    def each(self) -> int:
        """Integers of a word."""
        return _WORD // self.bits

    def words(self, inner: int) -> int:
        return -(-inner // self.each)

    def groups(self, inner: int) -> int:
        return 1 if self.group is None else -(-inner // self.group)

    def nbytes(self, rows: int, inner: int) -> int:
        """Of words, scales and zeros on a device, where float16 is kept as that."""
        of_group = (2 if self.half else 4) + (4 if self.zero is None else 0)
        return rows * (4 * self.words(inner) + of_group * self.groups(inner))


Q4F16, Q4F32 = Kind("q4f16", 4, 32, True, 7), Kind("q4f32", 4, 32, False, 7)
Q8 = Kind("q8", 8, None, False, 127)
"""Symmetric: the integers go from 0 to twice that which stands for 0."""
INT8 = Kind("q8", 8, None, False, 128, 127)
"""The same numbers, of integers that are bytes with a sign but for their highest bit: as products of integers take them
(activations.py)."""
OF_INTEGERS = (INT8, Q4F16, Q4F32)
"""Of weights whose products with rows of 8-bit integers are sums of integers."""

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
"""In the name of a weight."""


def _mixed(name: str) -> Kind:
    return Q8 if _ATTENTION.search(name) else Q4F16


MODES: Mapping[str, Callable[[str], Kind]] = MappingProxyType(
    {"q4f16": lambda _: Q4F16, "q4f32": lambda _: Q4F32, "q8": lambda _: Q8, "q844": _mixed}
)
"""How a weight of a name is stored. q844: 8 bits in attention, 4 in embeddings and feed-forward layers."""


def check_mode(mode: str) -> None:
    """Raise InputError for one that there is not."""
    if mode not in MODES:
        raise InputError(f"there is no --quantise {mode}{meant(mode, MODES) or ':'} it is one of {', '.join(MODES)}")


@dataclass(frozen=True)
class Packed:
    """A weight `[rows, inner]` as words uint32 and scales float32; `zeros`, float32, where each group has its own."""

    kind: Kind
    shape: tuple[int, int]
    words: Array
    scales: Array
    zeros: Array | None = None
    dtype: str = "float32"
    """Of its elements: float32, or float16, to which they are rounded."""

    def array(self) -> Array:
        """What it stands for, `[rows, inner]`: in float32 exactly."""
        rows, inner = self.shape
        kind = self.kind
        found = np.empty((rows, inner), np.float32)
        shifts = np.arange(kind.each, dtype=np.uint32) * np.uint32(kind.bits)
        for begin, end in _parts(rows, inner):
            codes = (self.words[begin:end, :, None] >> shifts) & np.uint32((1 << kind.bits) - 1)
            zero = np.float32(kind.zero or 0) if self.zeros is None else self._of_each(self.zeros[begin:end])
            values = codes.reshape(end - begin, -1)[:, :inner].astype(np.float32) - zero
            found[begin:end] = values * self._of_each(self.scales[begin:end])
        with np.errstate(over="ignore"):
            return found.astype(self.dtype, copy=False)

    def _of_each(self, values: Array) -> Array:
        """What is one for each group, for each element of rows."""
        inner = self.shape[1]
        found: Array = np.repeat(values, self.kind.group or inner, 1)[:, :inner]
        return found


def pack(array: Array, kind: Kind, name: str) -> Packed:
    """Of float32 or float16 `[rows, inner]`: each element becomes the nearest one that there is, and the largest of a
    group, or its negative, is the last integer times the scale.

    Raises InputError for a weight, called `name`, that is not finite, or that scales or elements of float16 do not
    reach.
    """
    rows, inner = array.shape
    words = np.empty((rows, kind.words(inner)), np.uint32)
    scales = np.empty((rows, kind.groups(inner)), np.float32)
    for begin, end in _parts(rows, inner):
        words[begin:end], scales[begin:end] = _packed(array[begin:end].astype(np.float32, copy=False), kind, name)
    if array.dtype == np.float16 and kind.largest * float(scales.max(initial=0)) >= _BEYOND_HALF:
        raise InputError(
            f"the weight {name} is float16, and with elements up to {float(np.abs(array).max()):.6g} what it would be "
            "quantised to is beyond that: make it float32, or leave out --quantise"
        )
    return Packed(kind, (rows, inner), words, scales, dtype=str(array.dtype))


def _parts(rows: int, inner: int) -> list[tuple[int, int]]:
    step = max(1, _AT_ONCE // max(1, inner))
    return [(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


def _packed(array: Array, kind: Kind, name: str) -> tuple[Array, Array]:
    if bad := int((~np.isfinite(array)).sum()):
        raise InputError(
            f"the weight {name} has {counted(bad, 'element')} that {'is' if bad == 1 else 'are'} NaN or infinite, and "
            "integers stand for numbers alone: mend it, or leave out --quantise"
        )
    rows, inner = array.shape
    group = kind.group or inner
    groups = kind.groups(inner)
    padded = np.zeros((rows, groups * group), np.float32)
    padded[:, :inner] = array
    grouped = padded.reshape(rows, groups, group)
    scales = _scales(np.abs(grouped).max(-1), kind, name)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(scales[..., None] > 0, np.rint(grouped / scales[..., None]), 0)
    zero, largest = kind.zero or 0, kind.largest
    codes = np.clip(codes + zero, zero - largest, zero + largest).astype(np.uint32).reshape(rows, -1)
    return words_of(codes[:, :inner], kind), scales


def words_of(codes: Array, kind: Kind) -> Array:
    """Of integers `[rows, inner]` from 0 on: uint32 `[rows, words]`, the first in the lowest bits."""
    rows, inner = codes.shape
    whole = np.zeros((rows, kind.words(inner) * kind.each), np.uint32)
    whole[:, :inner] = codes
    shifts = np.arange(kind.each, dtype=np.uint32) * np.uint32(kind.bits)
    words: Array = np.bitwise_or.reduce(whole.reshape(rows, -1, kind.each) << shifts, axis=-1)
    return words.astype(np.uint32)


def _scales(largest: Array, kind: Kind, name: str) -> Array:
    """Of each group's largest element. Numbers of so few bits that their products with the integers are float32s."""
    wanted = largest / np.float32(kind.largest)
    found: Array
    if kind.half:
        with np.errstate(over="ignore"):
            found = wanted.astype(np.float16).astype(np.float32)
        if not np.isfinite(found).all():
            raise InputError(
                f"the weight {name} has elements up to {float(largest.max()):.3g}, whose scale no float16 holds: take "
                "q4f32 or q8"
            )
        return found
    # Below this a product may be less than float32's least normal number, which GPUs may take for 0.
    wanted = np.where(wanted < 2.0**-100, 0, wanted)
    bits = 24 - math.ceil(math.log2(kind.largest + 1))
    mantissa, exponent = np.frexp(wanted)
    found = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits).astype(np.float32)
    return found
