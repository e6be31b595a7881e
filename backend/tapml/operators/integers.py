"""Integer arithmetic that is defined, for guard.py: it neither overflows nor stops the processor, and no conversion
changes a number, however TVM and LLVM bring it into another form.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tapml.operators.program import FLOATS, INTEGERS, Expression, integer, limits
from tapml.operators.ranges import Known, combined
from tapml.operators.types import Wrong
from tapml.program.graph import numpy_dtype

_DIVISIONS = ("div", "mod", "floordiv", "floormod")
_WIDE = "int64"

_MOST = 1 << 60
"""What a part of an int64 expression may come to, so that no order of its parts overflows."""

_MOST_ONCE = 1 << 62
"""The same of one operation whose remainder is all that is used."""


def arithmetic(kind: str, dtype: str, a: Known, b: Known) -> Known:
    """An operation of two integers of `dtype`, wrapped around where that does not hold the result.

    Raises Wrong where 64 bits are too few for it.
    """
    if kind in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return Known(Expression(kind, dtype, (a.expression, b.expression)), *combined(kind, a, b))
    if dtype == _WIDE and kind not in ("mul", "shift_left"):
        a, b = _moderate(a), _moderate(b)
    found = _defined(kind, a, b)
    if dtype == _WIDE or (_is_small(a, b) and _fits(found, dtype)):
        if found.size <= _MOST:
            return found
    else:
        a, b = widened(a), widened(b)
        if kind.startswith("shift"):
            b = clamped(b, 0, INTEGERS[dtype] - 1)
        found = _defined(kind, a, b)
        if found.size > _MOST_ONCE and kind in ("mul", "shift_left"):
            found = _product(a, b if kind == "mul" else _defined(kind, number(integer(1)), b))
    if found.size > (_MOST if dtype == _WIDE else _MOST_ONCE):
        raise Wrong(f"{kind} of {dtype} may overflow")
    return _wrapped(found, dtype)


def comparison(kind: str, a: Known, b: Known) -> Known:
    """A comparison of two integers of one dtype."""
    if not _is_small(a, b):
        a, b = _moderate(widened(a)), _moderate(widened(b))
    return anything(Expression(kind, "bool", (a.expression, b.expression)))


def converted(same: Expression, value: Known) -> Known:
    """The conversion `same` of `value`, which it has for an operand. To the nearest number that an integer dtype holds
    from floating-point (the least from NaN), wrapped around from another integer."""
    dtype, given = same.dtype, value.expression
    if dtype == "bool" and given.dtype in INTEGERS:
        return anything(Expression("ne", "bool", (given, integer(0, given.dtype))))
    if dtype not in INTEGERS:
        return anything(same)
    if given.dtype in FLOATS:
        low, high = _float_limits(given.dtype, dtype)
        # In this order: what is compared with NaN gives the second.
        for kind, bound in (("max", low), ("min", high)):
            given = Expression(kind, given.dtype, (given, Expression("constant", given.dtype, (), bound)))
        return anything(Expression("cast", dtype, (given,)))
    return _wrapped(value, dtype)


def anything(expression: Expression) -> Known:
    """All that the dtype holds."""
    return Known(expression, *limits(expression.dtype)) if counts(expression) else Known(expression)


def number(constant: Expression) -> Known:
    """A constant."""
    value = constant.value
    return Known(constant, int(value), int(value)) if isinstance(value, int) else Known(constant)


def counts(expression: Expression) -> bool:
    """Is it an integer, or a bool?"""
    return expression.dtype not in FLOATS


def _fits(known: Known, dtype: str) -> bool:
    low, high = limits(dtype)
    return low <= known.low and known.high <= high


def _is_small(*operands: Known) -> bool:
    """Is there room for any order of a few of them in their own dtype?"""
    dtypes = {known.expression.dtype for known in operands}
    return all(not d.startswith("u") and d != "bool" for d in dtypes) and all(
        known.size < 1 << (INTEGERS[known.expression.dtype] - 8) for known in operands
    )


def _defined(kind: str, a: Known, b: Known) -> Known:
    """The operation, where its divisor is not 0 and its shift in range."""
    dtype = a.expression.dtype
    if kind in _DIVISIONS and b.low <= 0 <= b.high:
        b = _without_zero(b)
    if kind.startswith("shift"):
        b = clamped(b, 0, INTEGERS[dtype] - 1)
    low, high = combined(kind, a, b)
    made = Expression(kind, dtype, (a.expression, b.expression))
    parts = {"add": a.size + b.size, "sub": a.size + b.size, "mul": a.size * b.size}.get(kind, 0)
    parts = a.size << b.high if kind == "shift_left" else parts
    return Known(made, low, high, parts)


def widened(known: Known) -> Known:
    """The same number as int64."""
    if known.expression.dtype == _WIDE:
        return known
    if not _fits(known, _WIDE):
        raise Wrong(f"a number of {known.expression.dtype} may be too large")
    if known.expression.kind == "constant":
        return number(integer(known.low))
    return dataclasses.replace(known, expression=Expression("cast", _WIDE, (known.expression,)))


def _moderate(known: Known) -> Known:
    """An int64, not larger than an index or a size could be in the end: WebGPU has none, so that no data is larger."""
    return clamped(known, -_MOST // 4, _MOST // 4) if known.size > _MOST // 4 else known


def _wrapped(known: Known, dtype: str) -> Known:
    """A number as an integer of `dtype`, wrapped around where that does not hold it.

    Compilers take it that a conversion keeps the number: the remainder that it leaves is spelled out.
    """
    if known.expression.dtype == dtype:
        return known
    if _fits(known, dtype):
        return dataclasses.replace(known, expression=Expression("cast", dtype, (known.expression,)))
    if INTEGERS[dtype] == 64:
        raise Wrong(f"a number of {known.expression.dtype} may be too large for {dtype}")
    bits = INTEGERS[dtype]
    found = _remainder(widened(known), bits) if dtype.startswith("u") else _signed(known, bits)
    return dataclasses.replace(found, expression=Expression("cast", dtype, (found.expression,)))


def _remainder(known: Known, bits: int) -> Known:
    return _defined("floormod", known, number(integer(1 << bits)))


def _product(a: Known, b: Known) -> Known:
    """A number with the same remainder of 2^32 as the product of two of 32 bits, by halves of one of them."""
    half = number(integer(1 << 16))
    high, low = _defined("floordiv", b, half), _defined("floormod", b, half)
    upper = _defined("mul", _remainder(_defined("mul", a, high), 16), half)
    return _defined("add", _defined("mul", a, low), upper)


def _signed(known: Known, bits: int = 32) -> Known:
    """The number from -2^(bits-1) on with the same remainder."""
    half = number(integer(1 << (bits - 1)))
    found = widened(known)
    if -half.low <= found.low and found.high < half.low:
        return found
    if found.size > _MOST_ONCE:
        found = _remainder(found, bits)
    return _defined("sub", _remainder(_defined("add", found, half), bits), half)


def _without_zero(known: Known) -> Known:
    """1 where it is 0."""
    found, dtype = known.expression, known.expression.dtype
    if known.low == 0:
        return Known(Expression("max", dtype, (found, integer(1, dtype))), 1, max(known.high, 1))
    is_zero = Expression("eq", "bool", (found, integer(0, dtype)))
    made = Expression("select", dtype, (is_zero, integer(1, dtype), found))
    return Known(made, known.low, max(known.high, 1))


def clamped(known: Known, low: int, high: int) -> Known:
    """The nearest number from `low` to `high`."""
    found, dtype = known.expression, known.expression.dtype
    if low <= known.low and known.high <= high:
        return known
    if known.high > high:
        found = Expression("min", dtype, (found, integer(high, dtype)))
    if known.low < low:
        found = Expression("max", dtype, (found, integer(low, dtype)))
    return Known(found, min(max(known.low, low), high), max(min(known.high, high), low))


def _float_limits(dtype: str, target: str) -> tuple[float, float]:
    """The least and the greatest floating-point number that an integer dtype holds."""
    kind = numpy_dtype(dtype).type
    largest = int(np.finfo(kind).max)
    low, high = (max(min(limit, largest), -largest) for limit in limits(target))
    rounded = kind(high)
    if int(rounded) > high:
        rounded = np.nextafter(rounded, kind(0))
    return float(kind(low)), float(rounded)
