"""Which dtype an expression has, given its operands' dtypes: checked before TVM's constructors are called."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tapml.operators.program import (
    ARITHMETIC,
    BITWISE,
    CHOICES,
    COMPARISONS,
    DTYPES,
    FLOATS,
    FUNCTIONS_OF_ONE,
    FUNCTIONS_OF_TWO,
    INTEGERS,
    PREDICATES,
    limits,
)

_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38, "float64": math.inf}
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

_OPERATIONS: Mapping[str, tuple[int, Collection[str]]] = {
    **dict.fromkeys((*ARITHMETIC, *COMPARISONS), (2, (*INTEGERS, *FLOATS))),
    **dict.fromkeys(BITWISE, (2, ("bool", *INTEGERS))),
    **dict.fromkeys(("floordiv", "floormod", "shift_left", "shift_right"), (2, INTEGERS)),
    **dict.fromkeys(("and", "or"), (2, ("bool",))),
    **dict.fromkeys(CHOICES, (2, DTYPES)),
    "not": (1, ("bool",)),
    "bitwise_not": (1, ("bool", *INTEGERS)),
}
"""How many operands of one dtype each has, beside the condition of a choice, and which that may be."""

_REINTERPRETED = ("float32", "int32", "uint32")
"""Whose bits can be taken for those of another of them."""

_FUNCTIONS = {**dict.fromkeys((*FUNCTIONS_OF_ONE, *PREDICATES), 1), **dict.fromkeys(FUNCTIONS_OF_TWO, 2)}
"""How many operands each has."""


class Wrong(Exception):
    """What is wrong with a program, in words that fit behind its file's name."""


def constant(dtype: str, value: Any) -> bool | int | float:
    """A constant's value as JSON has it. Raises Wrong where it is none of that dtype."""
    if dtype == "bool" and isinstance(value, bool):
        return value
    if dtype in INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        low, high = limits(dtype)
        # TVM holds constants in 64 bits with a sign.
        if low <= value <= min(high, 2**63 - 1):
            return value
    if dtype in FLOATS:
        if isinstance(value, str) and value in _NOT_FINITE:
            return _NOT_FINITE[value]
        if isinstance(value, float) and abs(value) <= _LARGEST[dtype] and math.isfinite(value):
            return value
    raise Wrong(f"{str(value)[:40]!r} is no {dtype} constant")


def constant_json(value: Any) -> Any:
    """Inverse of `constant`: numbers that JSON does not have as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def known_dtype(dtype: Any) -> str:
    """Raises Wrong for anything but a dtype that programs have."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Wrong(f"{str(dtype)[:40]!r} is no dtype of a program")
    return dtype


def same_bits(dtype: Any, operand: str) -> str:
    """The dtype that the bits of another are taken for. Raises Wrong where it is not one of as many bits."""
    if dtype not in _REINTERPRETED or operand not in _REINTERPRETED:
        raise Wrong(f"the bits of {operand} as {str(dtype)[:40]!r}")
    return str(dtype)


def result(kind: str, operands: Sequence[str]) -> str:
    """The dtype of an operation on operands of these dtypes. Raises Wrong for an unknown one or other operands."""
    if kind not in _OPERATIONS:
        raise Wrong(f"{kind[:40]!r} is no operation of a program")
    if kind in CHOICES and operands[:1] != ["bool"]:
        raise _of(kind, operands)
    found = _one_of(_OPERATIONS[kind], kind, operands, operands[kind in CHOICES :])
    return "bool" if kind in COMPARISONS else found


def call(function: Any, operands: Sequence[str]) -> str:
    """The dtype of a function's result. Raises Wrong for an unknown function or other operands."""
    if not isinstance(function, str) or function not in _FUNCTIONS:
        raise Wrong(f"{str(function)[:40]!r} is no function of a program")
    found = _one_of((_FUNCTIONS[function], FLOATS), function, operands, operands)
    return "bool" if function in PREDICATES else found


def _one_of(takes: tuple[int, Collection[str]], what: str, operands: Sequence[str], same: Sequence[str]) -> str:
    """The one dtype of `same`, of which there are as many as `what` takes. Raises Wrong where it has others."""
    count, dtypes = takes
    if len(same) != count or set(same) - {same[0]} or same[0] not in dtypes:
        raise _of(what, operands)
    return same[0]


def _of(what: str, operands: Sequence[str]) -> Wrong:
    return Wrong(f"{what} of {', '.join(operands) or 'nothing'}")
