"""Which dtype an expression has, given its operands' dtypes: checked before TVM's constructors are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def result(kind: str, operands: Sequence[str]) -> str:
    """The dtype of an operation on operands of these dtypes. Raises Wrong for an unknown one or other operands."""
    count = 3 if kind in CHOICES else 1 if kind in ("not", "bitwise_not") else 2
    known = (*ARITHMETIC, *COMPARISONS, *BITWISE, *CHOICES, "and", "or", "not", "bitwise_not")
    if kind not in known:
        raise Wrong(f"{kind[:40]!r} is no operation of a program")
    first = operands[-1] if operands else ""
    same = set(operands[1:] if kind in CHOICES else operands) == {first}
    good = len(operands) == count and same
    if kind in CHOICES:
        good = good and operands[0] == "bool"
        return _checked(good, kind, operands, first)
    if kind in ("and", "or", "not"):
        return _checked(good and first == "bool", kind, operands, "bool")
    if kind in COMPARISONS:
        return _checked(good and first != "bool", kind, operands, "bool")
    if kind.startswith("shift"):
        return _checked(good and first in INTEGERS, kind, operands, first)
    if kind in ("floordiv", "floormod"):
        return _checked(good and first in INTEGERS, kind, operands, first)
    if kind.startswith("bitwise"):
        return _checked(good and first not in FLOATS, kind, operands, first)
    return _checked(good and first != "bool", kind, operands, first)


def call(function: Any, operands: Sequence[str]) -> str:
    """The dtype of a function's result. Raises Wrong for an unknown function or other operands."""
    if function in FUNCTIONS_OF_ONE or function in PREDICATES:
        good = len(operands) == 1 and operands[0] in FLOATS
    elif function in FUNCTIONS_OF_TWO:
        good = len(operands) == 2 and operands[0] == operands[1] and operands[0] in FLOATS
    else:
        raise Wrong(f"{str(function)[:40]!r} is no function of a program")
    return _checked(good, function, operands, "bool" if function in PREDICATES else operands[0] if operands else "")


def _checked(good: bool, what: str, operands: Sequence[str], dtype: str) -> str:
    if not good:
        raise Wrong(f"{what} of {', '.join(operands) or 'nothing'}")
    return dtype
