"""What is asked of those who write kernels, while operators are made of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import tvm

from tapml.lowering.operator import Operator

Read: TypeAlias = Callable[[tvm.IRModule], Mapping[str, Operator]]
"""The operators of a lowered module, by their PrimFuncs' names."""

AcceptsMove: TypeAlias = Callable[[Operator, Operator, Operator, int], bool]
"""Of a move, one of so many operators that read what it gives, and what these two are as one: is that better?"""

AcceptsAttention: TypeAlias = Callable[[Operator], bool]
"""Of scores, their softmax, and what it mixes, as one operator: is that better?"""


@dataclass(frozen=True)
class Accepts:
    """`move`: which moves are read in place (in_place.py); `attention`: which attention is one operator."""

    move: AcceptsMove
    attention: AcceptsAttention = lambda _: False
