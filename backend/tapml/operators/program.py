"""An operator's program as plain data: loops around blocks that store expressions into buffers, and nothing else.

What TVM's Relax gives for an operator (a TE compute, an unscheduled PrimFunc) has this form. It holds no text that
anything evaluates and no call but of the functions listed here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Bits by dtype."""

FLOATS = ("float16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)

ARITHMETIC = ("add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
CHOICES = ("select", "if_then_else")

FUNCTIONS_OF_ONE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp10", "exp2", "fabs",
    "floor", "log", "log10", "log1p", "log2", "nearbyint", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
FUNCTIONS_OF_TWO = ("atan2", "copysign", "hypot", "nextafter", "pow")
PREDICATES = ("isnan",)


LONGEST_NAME = 256

ANNOTATIONS = {"axis": re.compile(r"\d{1,2}"), "schedule_rule": re.compile(r"[a-z_.]{1,64}")}
"""Hints that TVM's operators give their blocks, and what they may say (as text). Others are left out."""

SEQUENTIAL = "sequential"
"""The `schedule_rule` of a block whose turns along its reduction axes are run one after the other: what a turn stores,
the next may load."""


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    bits = INTEGERS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@dataclass(frozen=True, slots=True)
class Expression:
    """`kind`: "constant", "variable", "load", "cast", "reinterpret" (the same bits), "call", "not", "bitwise_not" or a
    name of the lists above.

    `value`: the constant; the name of the variable, the buffer or the function. `operands` of a load are its indices.
    """

    kind: str
    dtype: str
    operands: tuple[Expression, ...] = ()
    value: bool | int | float | str | None = None


def integer(value: int, dtype: str = "int64") -> Expression:
    """A constant."""
    return Expression("constant", dtype, (), value)


def zero(dtype: str) -> Expression:
    """0, 0.0 or False."""
    return Expression("constant", dtype, (), 0.0 if dtype in FLOATS else False if dtype == "bool" else 0)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Dense, row-major, in global memory."""

    name: str
    dtype: str
    shape: tuple[Any, ...]
    """Integers; expressions (tapml.expressions) in a template."""


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    indices: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Let:
    """A variable with one value, known to what follows it in the block."""

    variable: str
    value: Expression


def parts_of(whole: Expression | Store | Let) -> Iterator[Expression]:
    """All expressions that it is made of, itself among them."""
    if isinstance(whole, Expression):
        stack = [whole]
    else:
        stack = [whole.value, *(whole.indices if isinstance(whole, Store) else ())]
    while stack:
        found = stack.pop()
        stack += found.operands
        yield found


@dataclass(frozen=True, slots=True)
class Loop:
    """From 0 to `extent` - 1."""

    variable: str
    dtype: str
    extent: Any


@dataclass(frozen=True, slots=True)
class Axis:
    """A block's variable: `value` at each turn of the loops, from 0 to `extent` - 1. `reduction`: what is stored
    under its values is accumulated."""

    variable: str
    dtype: str
    extent: Any
    reduction: bool
    value: Expression


@dataclass(frozen=True)
class Block:
    """Loops around one block. `first` runs before `body` where all reduction axes are at 0, and alone where one of
    these has no elements: a sum of nothing is 0."""

    name: str
    loops: tuple[Loop, ...]
    axes: tuple[Axis, ...]
    first: tuple[Store | Let, ...]
    body: tuple[Store | Let, ...]
    annotations: Mapping[str, int | str] = field(default_factory=dict, hash=False)

    @functools.cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """All that its axes and statements are made of."""
        wholes = (*(axis.value for axis in self.axes), *self.first, *self.body)
        return tuple(part for whole in wholes for part in parts_of(whole))

    @property
    def turns(self) -> int:
        return math.prod(loop.extent for loop in self.loops)

    @property
    def done(self) -> Block | None:
        """What of it is done: all of it, where a reduction has no elements its `first` alone, and None is nothing."""
        if all(loop.extent for loop in self.loops):
            return self
        spatial = tuple(axis for axis in self.axes if not axis.reduction)
        if not self.first or any(axis.extent == 0 for axis in spatial):
            return None
        loops = tuple(loop for loop in self.loops if loop.extent)
        known = {loop.variable for loop in loops}
        if any(
            part.kind == "variable" and part.value not in known for axis in spatial for part in parts_of(axis.value)
        ):
            return None
        return dataclasses.replace(self, loops=loops, axes=spatial, first=(), body=self.first, annotations={})

    @property
    def sequential(self) -> bool:
        return self.annotations.get("schedule_rule") == SEQUENTIAL


@dataclass(frozen=True, slots=True)
class OperatorProgram:
    """`pattern`: TVM's class of the operator for fusion, where it gave one. With `symbols` it is a template, which is
    only written down: its extents are expressions over them, and read.py gives the program for their sizes."""

    name: str
    pattern: int | None
    parameters: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    blocks: tuple[Block, ...]
    symbols: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """How often the bodies of its blocks run in one call."""
        return sum(block.turns for block in self.blocks)
