"""Weights of float32 that half as many bits hold exactly: how they lie in a shard, and what becomes of them.

A model that was trained in float16 or bfloat16 is downloaded and kept as such; on a device its numbers are float32.
The runtime has the same (runner_js/src/runtime/stored.ts).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

Stored = Literal["float16", "bfloat16"]

TYPES: tuple[Stored, ...] = ("float16", "bfloat16")
"""In the order in which they are tried."""


def widened(data: np.ndarray, stored: Stored) -> np.ndarray:
    """The float32 numbers of the 16-bit ones in `data` (bytes), as bytes: for every pattern of bits the same one."""
    halves = data.view(np.uint16)
    return (_OF_HALVES[halves] if stored == "float16" else halves.astype(np.uint32) << 16).view(np.uint8)


def narrowed(data: np.ndarray, stored: Stored) -> np.ndarray:
    """Inverse of `widened`, for words that `stored_as` it takes."""
    words = data.view(np.uint32)
    if stored == "bfloat16":
        return (words >> 16).astype(np.uint16).view(np.uint8)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return words.view(np.float32).astype(np.float16).view(np.uint8)


def stored_as(pieces: Iterable[bytes]) -> Stored | None:
    """What holds all words of float32 to the bit; None where nothing does, or there are none."""
    left, some, rest = list(TYPES), False, b""
    for piece in pieces:
        whole = rest + piece
        data = np.frombuffer(whole, np.uint8, len(whole) & ~3)
        rest = whole[len(data) :]
        some = some or data.size > 0
        left = [kind for kind in left if np.array_equal(widened(narrowed(data, kind), kind), data)]
        if not left:
            return None
    return left[0] if some and not rest else None


def _of_halves() -> np.ndarray:
    """The bits of the float32 number of each float16 one; NaN keeps its own, whatever this processor makes of it."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    numbers = halves.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    nan = (halves & 0x7FFF) > 0x7C00
    return np.where(nan, (halves & 0x8000) << 16 | 0x7F800000 | (halves & 0x3FF) << 13, numbers).astype(np.uint32)


_OF_HALVES = _of_halves()
