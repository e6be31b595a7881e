"""Constants in WGSL as the operator has them: TVM 0.27 prints seven digits, and float32 needs nine.

A scale of 0.35355338 becomes 3.535534e-01, which is the next float32: every product is one unit off. And the least
int32, where a maximum begins, is minus a literal that no int32 holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

_LITERAL = re.compile(r"(?<![\w.])\d\.\d{6}e[+-]\d{2}(?=f\b)")

_LARGEST = "3.4028234e+38"
_LEAST = re.compile(r"-2147483648i\b")


def with_exact_constants(wgsl: str, values: Iterable[float]) -> str:
    """The text with the float32 literals of `values` spelled out. One that stands for several values stays. The least
    int32 is spelled as WGSL reads it."""
    meant: dict[str, set[np.float32]] = defaultdict(set)
    for value in values:
        # A sign is an operator in WGSL, not part of the literal.
        meant[f"{abs(value):.6e}"].add(np.float32(abs(value)))

    def exact(match: re.Match[str]) -> str:
        known = meant.get(match[0], set())
        if len(known) != 1:
            return match[0]
        (value,) = known
        if np.float32(match[0]) == value:
            return match[0]
        # The shortest text of the largest number lies above it, and WGSL refuses a literal out of range.
        return _LARGEST if value == np.finfo(np.float32).max else np.format_float_scientific(value, unique=True)

    wgsl = _LEAST.sub("(-2147483647i - 1i)", wgsl)
    return _LITERAL.sub(exact, wgsl) if meant else wgsl
