"""Words of WGSL: types and constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapml.operators.program import Expression

_TYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i32", "uint32": "u32", "bool": "bool"}


INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip


class Unknown(Exception):
    """Something that is not written here: the operator is for another compiler."""


def wgsl_type(dtype: str) -> str:
    """Raises Unknown for what WGSL has not."""
    if dtype not in _TYPES:
        raise Unknown(f"numbers of {dtype}")
    return _TYPES[dtype]


def bare(text: str) -> str:
    """Without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def tight(text: str) -> str:
    """In parentheses, where it is more than one thing."""
    return f"({text})" if " " in bare(text) and not text.endswith(")") else text


def literal(found: Expression) -> str:
    """A constant; a float that is not finite is put right in the end (`tvm/spelling.py`)."""
    dtype, value = found.dtype, found.value
    kind = wgsl_type(dtype)
    if dtype == "bool":
        return "true" if value else "false"
    if kind in ("i32", "u32"):
        whole = int(value or 0)
        low, high = (0, 2**32 - 1) if kind == "u32" else (-(2**31), 2**31 - 1)
        if not low <= whole <= high:
            raise Unknown(f"the integer {whole}")
        if kind == "u32":
            return f"{whole}u"
        return "(-2147483647i - 1i)" if whole == low else f"({whole}i)" if whole < 0 else f"{whole}i"
    suffix = "f" if kind == "f32" else "h"
    number = float(value or 0.0)
    with np.errstate(over="ignore"):
        number = float(np.float32(number) if suffix == "f" else np.float16(number))
    if math.isnan(number):
        return f"nan{suffix}"
    if math.isinf(number):
        return f"inf{suffix}" if number > 0 else f"(-inf{suffix})"
    text = _digits(abs(number), suffix)
    return f"(-{text})" if math.copysign(1.0, number) < 0 else text


def _digits(number: float, suffix: str) -> str:
    if suffix == "f" and number == float(np.finfo(np.float32).max):
        return "3.4028234e+38f"
    exact: Any = np.float32(number) if suffix == "f" else np.float16(number)
    if number and not 1e-4 <= number < 1e6:
        return np.format_float_scientific(exact, unique=True, trim="0") + suffix
    return np.format_float_positional(exact, unique=True, trim="0") + suffix
