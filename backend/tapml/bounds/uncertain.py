"""Numbers with what they may be off by: running error analysis on whole arrays.

N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.3 (running error analysis):
beside each value, computed here in float64, goes a bound of how far a device's value may be from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FLOATS = ("float16", "float32")
_UNIT = {"float32": 2.0**-23, "float16": 2.0**-10}
_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14}
_EXPONENT = 0x7FF0000000000000
"""Of a float64's bits, those of the exponent."""
_MAX = {"float32": float(np.finfo(np.float32).max), "float16": 65504.0}


@dataclass(frozen=True)
class Uncertain:
    """`value`: float64 for floats, int64 or bool for the rest. `error`: float64, not negative, of a shape that
    broadcasts with it; Infinity where nothing is promised; None where the value is exact. `ends`: the least and the
    greatest that it may be, where that is known better: what was rounded to a whole number is often exact on one
    side."""

    value: np.ndarray
    error: np.ndarray | None = None
    ends: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def exact(self) -> bool:
        return self.error is None

    @property
    def spread(self) -> np.ndarray:
        """The error as an array, also where there is none."""
        return np.zeros((1,) * self.value.ndim) if self.error is None else self.error

    @property
    def low(self) -> np.ndarray:
        if self.ends is not None:
            return self.ends[0]
        return self.value if self.error is None else self.value - self.error

    @property
    def high(self) -> np.ndarray:
        if self.ends is not None:
            return self.ends[1]
        return self.value if self.error is None else self.value + self.error


def elements(number: Uncertain, choose: Callable[[np.ndarray], np.ndarray]) -> Uncertain:
    """Some of its elements. `choose` takes an array of the value's shape."""
    ends = number.ends and (choose(number.ends[0]), choose(number.ends[1]))
    return Uncertain(choose(number.value), None if number.error is None else choose(number.error), ends)


def between(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> Uncertain:
    """A value, and the ends that it is between."""
    return Uncertain(value, distance(value, low, high), (low, high))


def unit(dtype: str) -> float:
    """2^-23 for float32, 2^-10 for float16: one unit in the last place of 1.

    WGSL leaves the rounding mode open ("correctly rounded" means either neighbour), so this is what one operation
    may be off by, relatively (WGSL specification, "Floating Point Accuracy").
    """
    return _UNIT[dtype]


def smallest_normal(dtype: str) -> float:
    return _NORMAL[dtype]


def largest(dtype: str) -> float:
    return _MAX[dtype]


def ulp(magnitude: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbours at a magnitude; below the smallest normal number that of normal numbers."""
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(magnitude), _NORMAL[dtype])
    # Without its fraction a number is the power of two below it.
    power = (np.asarray(size, np.float64).view(np.int64) & _EXPONENT).view(np.float64)
    spacing: np.ndarray = _UNIT[dtype] * power
    return spacing


def rounded(value: np.ndarray, error: np.ndarray, dtype: str, ulps: float = 1.0) -> Uncertain:
    """The result of a floating-point operation that is off by `error` and then by `ulps` units in the last place.

    What may be subnormal may be flushed to zero; what may overflow, or is no number, has no bound (WGSL
    specification, "Floating Point Evaluation": overflow gives an indeterminate value). A sum that rounds to the
    largest number does not count as overflow: implementations round to nearest, and real models add a score to a mask
    of the lowest number.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(value) + error
        total = error + ulps * ulp(size, dtype)
        if ulps <= 1.0:
            # Correctly rounded: what the dtype holds exactly stays as it is.
            total = np.where((value.astype(np.dtype(dtype)) == value) & (error == 0), 0.0, total)
        total = total + np.where((np.abs(value) - error < _NORMAL[dtype]) & (size > 0), _NORMAL[dtype], 0.0)
        # Half a unit above the largest number still rounds down to it.
        overflow = ~(size < _MAX[dtype] * (1.0 + _UNIT[dtype] / 4.0))
    return Uncertain(value, np.where(overflow, np.inf, total))


def add(a: Uncertain, b: Uncertain, dtype: str, sign: int = 1) -> Uncertain:
    """a + b, or a - b. Where an operand was rounded itself it may be a sum, and sums may be reassociated: off by a
    unit of the largest of the three then."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value + b.value if sign > 0 else a.value - b.value
        result = _of_infinities(rounded(value, a.spread + b.spread, dtype), a, b)
        if a.exact and b.exact:
            return result
        if _has_ends(a, b) and _are_whole(dtype, a, b):
            ends = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
            return between(value, a.low + ends[0], a.high + ends[1])
        size = np.maximum(np.abs(a.value), np.abs(b.value))
        idle = (a.value == 0) & (a.spread == 0) | (b.value == 0) & (b.spread == 0)
        extra = np.where((size > np.abs(value)) & (result.spread > 0), ulp(size, dtype) - ulp(value, dtype), 0.0)
        # Adding nothing moves nothing, however the sum is ordered.
        return Uncertain(value, np.where(idle, a.spread + b.spread, result.spread + extra))


def multiply(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
    with np.errstate(invalid="ignore", over="ignore"):
        value = a.value * b.value
        error = product_error(a, b)
        one = (np.abs(a.value) == 1) & (a.spread == 0) | (np.abs(b.value) == 1) & (b.spread == 0)
        result = _of_infinities(rounded(value, error, dtype), a, b)
        return Uncertain(value, np.where(one & np.isfinite(value), error, result.spread))


def _of_infinities(result: Uncertain, a: Uncertain, b: Uncertain) -> Uncertain:
    """An infinity that an operand is already, not one that the operation overflows to, stays what IEEE 754 makes of it:
    models mask with minus infinity, and what a kernel is given is not its own doing."""
    given = (np.isinf(a.value) & (a.spread == 0)) | (np.isinf(b.value) & (b.spread == 0))
    known = given & np.isinf(result.value) & np.isfinite(a.spread) & np.isfinite(b.spread)
    return Uncertain(result.value, np.where(known, 0.0, result.spread)) if known.any() else result


def product_error(a: Uncertain, b: Uncertain) -> np.ndarray:
    """What a product is off by because its factors are."""
    if a.exact and b.exact:
        return np.zeros((1,) * a.value.ndim)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a.value) * b.spread + np.abs(b.value) * a.spread + a.spread * b.spread
    # 0 * Infinity: what nothing is promised for stays so.
    return np.where(np.isnan(error), np.inf, error)


def divide(a: Uncertain, b: Uncertain, dtype: str) -> Uncertain:
    """2.5 ULP for divisors within the normal range and no bound outside (WGSL specification, "x / y").

    0 / y is 0: units in the last place of 0 are subnormal numbers, which neither a division nor a product with the
    divisor's reciprocal gives. A condition may ask whether the quotient is 0, so as not to divide by it.
    """
    power = {"float32": 2.0**126, "float16": 2.0**14}[dtype]
    with np.errstate(all="ignore"):
        value = a.value / b.value
        least, most = np.abs(b.value) - b.spread, np.abs(b.value) + b.spread
        error = (a.spread + np.abs(value) * b.spread) / least
        outside = ~((least >= 1 / power) & (most <= power))
    found = rounded(np.where(np.isnan(value), 0.0, value), error, dtype, 2.5)
    zero = (a.value == 0) & (a.spread == 0)
    return without_bound(Uncertain(found.value, np.where(zero, 0.0, found.spread)), outside)


def without_bound(number: Uncertain, where: np.ndarray) -> Uncertain:
    """Nothing is promised `where` this is true."""
    with np.errstate(invalid="ignore"):
        spread = np.where(np.isnan(number.spread), np.inf, number.spread)
    return Uncertain(number.value, np.where(where, np.inf, spread))


def extremum(a: Uncertain, b: Uncertain, *, largest: bool) -> Uncertain:
    """The larger or the smaller of two."""
    choose = np.maximum if largest else np.minimum
    value = choose(a.value, b.value)
    if a.exact and b.exact:
        return Uncertain(value)
    found = between(value, choose(a.low, b.low), choose(a.high, b.high))
    return found if _has_ends(a, b) else Uncertain(value, found.error)


def distance(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far the ends of an interval are from a value within it."""
    with np.errstate(invalid="ignore"):
        up = np.where(high == value, 0.0, high - value)
        down = np.where(low == value, 0.0, value - low)
        error = np.maximum(up, down)
    return np.where(np.isnan(error), np.inf, error)


def chosen(condition: np.ndarray, unsure: np.ndarray | None, yes: Uncertain, no: Uncertain) -> Uncertain:
    """`yes` where the condition holds, else `no`; where the condition is `unsure` it may be either."""
    value = np.where(condition, yes.value, no.value)
    if unsure is None and yes.exact and no.exact:
        return Uncertain(value)
    error = np.where(condition, yes.spread, no.spread)
    if unsure is None and not _has_ends(yes, no):
        return Uncertain(value, error)
    with np.errstate(invalid="ignore"):
        low, high = (np.where(condition, *pair) for pair in ((yes.low, no.low), (yes.high, no.high)))
        if unsure is not None:
            low = np.where(unsure, np.minimum(yes.low, no.low), low)
            high = np.where(unsure, np.maximum(yes.high, no.high), high)
            error = np.where(unsure, distance(value, low, high), error)
    return Uncertain(value, error, (low, high) if _has_ends(yes, no) else None)


def _are_whole(dtype: str, *numbers: Uncertain) -> bool:
    """Whether they are whole numbers, whichever they are, whose sums and differences the dtype holds exactly."""
    most = 0.5 / _UNIT[dtype]
    arrays = [array for number in numbers for array in (number.value, number.low, number.high)]
    known = all(number.exact or number.ends is not None for number in numbers)
    return known and all((np.abs(array) <= most).all() and np.array_equal(array, np.rint(array)) for array in arrays)


def _has_ends(*numbers: Uncertain) -> bool:
    return any(number.ends is not None for number in numbers)
